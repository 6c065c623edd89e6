"""What a partition of the metadata table is.

A partition is one class. It says what its records are when it is made, and which ones follow from a
change of the table; how records of one key become one; what is wrong with what it says. How they
are stored is the same for all partitions: the writer has the order of the steps, the file groups,
logs and base files, and the lock (`writer`), the reader finds and decodes them (`reader`). What
else a partition is asked (`look_up`) differs, and is a method of its class alone.

A partition that is not in the `registry` is dropped by the next commit: one that is listed and
not kept up to date would hide rows.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant_time import InstantTime


@dataclass(frozen=True, slots=True)
class TableChange:
    """What an instant changes that is about to complete: files that it wrote, files that it
    deleted, partitions that it emptied."""

    written: CommitMetadata | None = None
    deleted: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Something that a partition says and the table does not have, or the other way round."""

    message: str
    path: str
    instant: InstantTime


@dataclass(frozen=True, slots=True)
class SeenTable:
    """The table as a listing of its folder shows it, for comparison.

    `paths` are those of the listing; `is_missing` looks one up now.
    """

    view: FileSystemView
    timeline: ActiveTimeline
    paths: Container[str]
    is_missing: Callable[[str], bool]


class MetadataPartition(Protocol):
    """One partition of the metadata table."""

    @property
    def name(self) -> str:
        """As the property of the table lists it, and its folder is called."""

    @property
    def groups(self) -> tuple[FileGroupId, ...]:
        """The file groups that it is made of."""

    def initial(self, table: HoodieTable, timeline: ActiveTimeline) -> Sequence[MetadataRecord]:
        """The records of all that is committed by `timeline`, for a partition that is made."""

    def changes(self, change: TableChange) -> Sequence[MetadataRecord]:
        """The records, deletions among them, that follow from a change.

        Raises CorruptTableError for one that they do not follow from.
        """

    def merged(self, records: Iterable[MetadataRecord]) -> Sequence[MetadataRecord]:
        """The records of a base file that says the same as all these, oldest first."""

    def verify(self, records: Iterable[MetadataRecord], seen: SeenTable) -> Iterator[Discrepancy]:
        """Where the table is not as the records say."""


def group_number(key: str, groups: int) -> int:
    """Which of so many file groups a key belongs to: Java's hash of its text.

    Source: Hudi's HoodieTableMetadataUtil.mapRecordKeyToFileGroupIndex.
    """
    units = key.encode("utf-16-le")
    code = 0
    for low, high in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >> 31 else code
    return abs(signed) % groups
