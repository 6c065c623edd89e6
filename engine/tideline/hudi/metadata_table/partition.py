"""What a partition of the metadata table is.

A partition is one class. It says what its records are when it is made, and which ones follow from a
change of the table; how records of one key become one; what is wrong with what it says. How they
are stored is the same for all partitions: the writer has the order of the steps, the file groups,
logs and base files, and the lock (`writer`), the reader finds and decodes them (`reader`). What
else a partition is asked (`look_up`) differs, and is a method of its class alone.

A partition that is not in the `registry`, or cannot follow a change, is dropped by the commit: one
that is listed and not kept up to date would hide rows.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import mul
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from tideline.hudi.metadata_table.many_records import Records
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.table.file_group import FileGroupId, FileSlice, LogFile
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.column_range import ColumnRanges, ValueType
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.timeline.instant_time import InstantTime

if TYPE_CHECKING:
    import pyarrow as pa

Found = TypeVar("Found")

KEY_BYTES_MAX = 32_767
"""What a key of an HFile may take."""
_PARTS_IN_SHARD = 3
"""Of the id of a file group, behind the prefix: the shard, its number there, and 0."""


class TableContents(Protocol):
    """What data files hold, read back. What was read once is remembered."""

    def ranges(
        self, paths: Collection[str], columns: Mapping[str, ValueType]
    ) -> Mapping[str, ColumnRanges | None]:
        """The ranges of these columns in base files and logs, by path; None of a file that does not
        tell them, nothing of one that is gone. A file without a column holds nulls of it."""


@dataclass(frozen=True, slots=True)
class WholeTable:
    """All that is committed by `timeline`, for a partition that is made of it. `contents` is None
    where only names of files are looked at; `columns` are those that statistics are asked for, None
    for those of a rule. `first_schema_json` is that of the first commit, which is to complete.
    `compare_keys` is None where rows are not looked at."""

    table: HoodieTable
    timeline: ActiveTimeline
    contents: TableContents | None = None
    columns: tuple[str, ...] | None = None
    columns_max: int | None = None
    first_schema_json: str | None = None
    compare_keys: CompareKeys | None = None

    @property
    def schema_json(self) -> str | None:
        """Avro JSON of the table's schema; None where no commit says it."""
        return self.table.schemas.newest_json(self.timeline) or self.first_schema_json


@dataclass(frozen=True, slots=True)
class KeyChange:
    """The keys, as texts, that a slice has and the one before has not, and the other way round;
    None where there are none."""

    added: pa.Array | None = None
    removed: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class SlicePair:
    """A file group's slice before a change and after it; None where it has none.

    `appended_rows` is how many rows at the end of its new base file are all that differs, None
    where that is not known.
    """

    before: FileSlice | None
    after: FileSlice | None
    appended_rows: int | None = None


class CompareKeys(Protocol):
    """Compares the record keys of pairs of slices, as timelines show them before and after a
    change; with a column the keys of a secondary index, which have its value."""

    def __call__(
        self,
        before: ActiveTimeline,
        after: ActiveTimeline,
        pairs: Sequence[SlicePair],
        value_column: str | None = None,
    ) -> Sequence[KeyChange]:
        """What each gains and loses, in order. Raises CorruptTableError for a file that cannot be
        read."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """What an instant changes that is about to complete as `completed`: files that it wrote, files
    that it deleted, partitions that it emptied, logs of no rows that it `appended`, with their
    sizes in bytes. `timeline` is that of the table before. `contents`
    reads back what the tasks that wrote files did not find out."""

    table: HoodieTable
    completed: Instant
    timeline: ActiveTimeline
    written: CommitMetadata | None = None
    deleted: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    appended: Mapping[str, int] = field(default_factory=dict)
    contents: TableContents | None = None
    compare_keys: CompareKeys | None = field(default=None, repr=False, compare=False)
    """Finds out which keys of slices differ; None where no row is written."""

    _found: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, find: Callable[..., Found], *given: object) -> Found:
        """What `find` finds of this change and what else it is given, found once for all partitions
        that need it."""
        if find not in self._found:
            self._found[find] = find(self, *given)
        found: Found = self._found[find]
        return found

    @property
    def timeline_after(self) -> ActiveTimeline:
        """The timeline of the table once the instant is completed."""
        instants = (*self.timeline.instants, self.completed)
        return replace(self.timeline, instants=instants, whole=None)


@dataclass(frozen=True, slots=True)
class CannotFollow:
    """Why a partition cannot be made, or cannot be kept at a change, so that it is dropped."""

    reason: str


@dataclass(frozen=True, slots=True)
class StoredSizes:
    """What a table and a partition of its metadata table have now, as far as it decides on what
    keeping that takes. `file_groups` and `size_bytes` are those of the newest slices."""

    partitions: int = 0
    file_groups: int = 0
    base_files: int = 0
    size_bytes: int = 0
    index_file_groups: int = 0
    index_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What a commit reads and writes to keep a partition, in words."""

    reads: str
    writes: str


class StoredRecords(Protocol):
    """The metadata table as it is before a change."""

    def read(self, partition: MetadataPartition) -> Iterator[MetadataRecord]:
        """All that a partition says, oldest first."""

    def look_up(
        self, partition: MetadataPartition, keys: Collection[str]
    ) -> Iterator[MetadataRecord]:
        """What it says of these keys, in a partition without shards."""

    def shards(self, partition: MetadataPartition) -> frozenset[str | None]:
        """The shards that a partition has."""


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Something that a partition says and the table does not have, or the other way round."""

    message: str
    path: str
    instant: InstantTime


@dataclass(frozen=True, slots=True)
class SeenTable:
    """The table as a listing of its folder shows it, for comparison.

    `paths` are those of the listing; `is_missing` looks one up now. `counts` says whether rows of a
    log count, where logs stay that failed writes left.
    """

    view: FileSystemView
    timeline: ActiveTimeline
    paths: Container[str]
    is_missing: Callable[[str], bool]
    counts: Callable[[LogFile], bool] = lambda _: True


class MetadataPartition(Protocol):
    """One partition of the metadata table."""

    @property
    def name(self) -> str:
        """As the property of the table lists it, and its folder is called."""

    @property
    def file_id_prefix(self) -> str:
        """How the ids of its file groups begin."""

    def groups_for(self, records: int) -> int:
        """How many file groups it is made of here for so many records; others may have made more,
        or fewer."""

    @property
    def is_in_every_table(self) -> bool:
        """Whether every metadata table that is made here has it."""

    @property
    def may_be_empty(self) -> bool:
        """Whether it may be in use without a file group."""

    @property
    def may_lack_files(self) -> bool:
        """Whether readers look into every file that it says nothing of."""

    def hashed(self, key: str) -> str:
        """What of a key decides on its file group."""

    def initial(self, whole: WholeTable) -> Records | CannotFollow:
        """The records of a partition that is made, or what is in the way."""

    def changes(self, change: TableChange, stored: StoredRecords | None) -> Records | CannotFollow:
        """The records, deletions among them, that follow from a change; `stored` is None where the
        metadata table is about to be made.

        Raises CorruptTableError for a change that no partition can follow.
        """

    def upkeep(self, whole: WholeTable, sizes: StoredSizes) -> Upkeep | CannotFollow:
        """What keeping it takes of a commit, or why the next one drops it, as far as no row has to
        be read for that. Raises CorruptTableError where its definition cannot be read."""

    def merged(self, records: Iterable[MetadataRecord]) -> Sequence[MetadataRecord]:
        """The records of a base file that says the same as all these, oldest first."""

    def replacing(self, records: Iterable[MetadataRecord]) -> Sequence[MetadataRecord] | None:
        """Of these, oldest first, those that replace whatever was said before of their keys; None
        where what was said has to be known."""

    def verify(self, records: Iterable[MetadataRecord], seen: SeenTable) -> Iterator[Discrepancy]:
        """Where the table is not as the records say."""


@runtime_checkable
class DefinedPartition(Protocol):
    """A partition that Hudi has a definition of beside it."""

    def definition(self, whole: WholeTable) -> Mapping[str, Any]:
        """The entry under its name in the definitions of indexes, for one that is made."""


def file_group(partition: MetadataPartition, number: int, shard: str | None = None) -> FileGroupId:
    """One of a partition's file groups, or of a shard of it."""
    prefix = partition.file_id_prefix if shard is None else f"{partition.file_id_prefix}-{shard}"
    return FileGroupId(partition.name, f"{prefix}-{number:04}-0")


def shard_of(partition: MetadataPartition, group: FileGroupId) -> str | None:
    """The shard that a file group belongs to; None in a partition without any.

    The name of a shard has no hyphen, and may be empty.
    """
    behind = group.file_id.removeprefix(f"{partition.file_id_prefix}-").split("-")
    return behind[0] if len(behind) == _PARTS_IN_SHARD else None


def group_number(key: str, groups: int) -> int:
    """Which of so many file groups a key belongs to: Java's hash of its text.

    Source: Hudi's HoodieTableMetadataUtil.mapRecordKeyToFileGroupIndex.
    """
    if groups == 1:
        return 0
    units: bytes | memoryview[int] = (
        key.encode() if key.isascii() else memoryview(key.encode("utf-16-le")).cast("H")
    )
    code: int = sum(map(mul, units, _powers(len(units)))) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >> 31 else code
    return abs(signed) % groups


@lru_cache(maxsize=256)
def _powers(count: int) -> tuple[int, ...]:
    """What each of so many units counts in Java's hash of a text."""
    return tuple(pow(31, exponent, 1 << 32) for exponent in reversed(range(count)))
