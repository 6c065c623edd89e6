"""The partition `files`: which files a table has, by its partitions.

A record has a key and a map. The key `__all_partitions__` has the names of the partitions, every
other key is a partition, `.` for that of a table without partitions, and has the files that were
added to it with their sizes, and those that were deleted.

A commit adds the files that it wrote, with the sizes they have now; what it replaced stays until it
is cleaned. A clean deletes files, and partitions that it emptied. What a rollback takes back is
taken out of the metadata table instead; it adds the logs that stay, those of commands among them.

Records are merged in the order they were written. Of a file:

1. A deletion of a listed file removes it; of one that is not listed it is kept, for readers that
   merge logs before they look at the base file.
2. Of two sizes the larger counts, for files only grow.

Source: Hudi's HoodieTableMetadataUtil.combineFileSystemMetadata,
convertMetadataToFilesPartitionRecords.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tideline.bounded.parsing import faults_named
from tideline.errors import CorruptTableError
from tideline.hudi.metadata_table.partition import (
    Discrepancy,
    SeenTable,
    StoredRecords,
    StoredSizes,
    TableChange,
    Upkeep,
    WholeTable,
)
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.table.file_group import LogFile, join_path, split_path
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.table.table_config import FILES
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action

ALL_PARTITIONS = "__all_partitions__"

_PARTITION_LIST, _FILE_LIST = 1, 2
_WITHOUT_PARTITIONS = "."


@dataclass(frozen=True, slots=True)
class FileState:
    """What a record says of a file, or of a partition, which has no size."""

    size_bytes: int
    is_deleted: bool = False


DELETED = FileState(0, is_deleted=True)


@dataclass(frozen=True, slots=True)
class FilesRecord:
    """What is said of one key. Without `states` the key itself is deleted."""

    key: str
    states: Mapping[str, FileState] | None = field(hash=False)

    @classmethod
    def parse(cls, record: MetadataRecord) -> FilesRecord:
        """Raises CorruptTableError for a record of another partition, or of another form."""
        content = record.content
        if content is None:
            return cls(record.key, None)
        with faults_named("records of a metadata table are not understood", path=record.path):
            states = content["filesystemMetadata"]
            if states is None or content["type"] not in (_PARTITION_LIST, _FILE_LIST):
                raise CorruptTableError("a record of another kind in `files`")
            found = {
                name: FileState(state["size"], state["isDeleted"]) for name, state in states.items()
            }
        return cls(record.key, found)

    def stored(self) -> MetadataRecord:
        """As it is written."""
        if self.states is None:
            return MetadataRecord(self.key, None)
        states = {
            name: {"size": state.size_bytes, "isDeleted": state.is_deleted}
            for name, state in sorted(self.states.items())
        }
        kind = _PARTITION_LIST if self.key == ALL_PARTITIONS else _FILE_LIST
        return MetadataRecord(self.key, {"type": kind, "filesystemMetadata": states})


@dataclass(frozen=True, slots=True)
class ListedFiles:
    """The state of every file, by partition; `names` is the state of the partitions."""

    names: Mapping[str, FileState] = field(default_factory=dict)
    states: Mapping[str, Mapping[str, FileState]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[FilesRecord]) -> ListedFiles:
        """What records say together, oldest first."""
        merged: dict[str, dict[str, FileState]] = {}
        for record in records:
            if record.states is None:
                merged.pop(record.key, None)
                continue
            known = merged.setdefault(record.key, {})
            for name, state in record.states.items():
                _merge(known, name, state)
        names = merged.pop(ALL_PARTITIONS, {})
        return cls(
            {_partition_of(key): state for key, state in names.items()},
            {_partition_of(key): states for key, states in merged.items()},
        )

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions of the table, sorted."""
        return tuple(sorted(name for name, state in self.names.items() if not state.is_deleted))

    def files(self, partition: str) -> tuple[tuple[str, int], ...]:
        """Names and sizes in bytes of a partition's files."""
        states = self.states.get(partition, {})
        return tuple(
            (name, state.size_bytes) for name, state in states.items() if not state.is_deleted
        )

    def listing(
        self, partitions: Iterable[str] | None = None
    ) -> Mapping[str, tuple[tuple[str, int], ...]]:
        """The files of these partitions, or of all."""
        wanted = self.partitions if partitions is None else sorted(set(partitions))
        return {partition: self.files(partition) for partition in wanted}

    def records(self) -> Iterator[FilesRecord]:
        """Everything in as few records as possible, nothing of what is deleted."""
        names = {key_of_files(name): FileState(0) for name in self.partitions}
        yield FilesRecord(ALL_PARTITIONS, names)
        for partition in sorted(self.states):
            live = {name: FileState(size) for name, size in self.files(partition)}
            if live:
                yield FilesRecord(key_of_files(partition), live)


class FilesPartition:
    """`files`, which has one file group."""

    name = FILES
    file_id_prefix = FILES
    is_in_every_table = True
    may_be_empty = False
    may_lack_files = False

    def look_up(self, records: Iterable[MetadataRecord]) -> ListedFiles:
        """The files that records list, oldest first. Raises CorruptTableError."""
        return ListedFiles.of(map(FilesRecord.parse, records))

    def groups_for(self, records: int) -> int:  # noqa: ARG002
        return 1

    def hashed(self, key: str) -> str:
        return key

    def initial(self, whole: WholeTable) -> tuple[MetadataRecord, ...]:
        """All files by a listing of the folder. Those of replaced groups and older slices are among
        them, until they are cleaned."""
        states = {
            partition: {
                name: FileState(size_bytes)
                for name, size_bytes in files
                if (file := parse_data_file(partition, name, size_bytes)) is not None
                and whole.timeline.is_committed(file.instant)
            }
            for partition, files in whole.table.files.listing().items()
        }
        return _stored(ListedFiles(dict.fromkeys(states, FileState(0)), states).records())

    def changes(
        self,
        change: TableChange,
        stored: StoredRecords | None = None,  # noqa: ARG002 -- no record depends on others
    ) -> tuple[MetadataRecord, ...]:
        """Raises CorruptTableError for a file of unknown size."""
        added = _written(change.written) if change.written is not None else ()
        gone = _removed(change.deleted, change.emptied)
        return _stored((*added, *_appended(change.appended), *gone))

    def upkeep(self, whole: WholeTable, sizes: StoredSizes) -> Upkeep:  # noqa: ARG002
        return Upkeep("nothing", "a record for each partition that it touches")

    def merged(self, records: Iterable[MetadataRecord]) -> tuple[MetadataRecord, ...]:
        return _stored(self.look_up(records).records())

    def replacing(self, records: Iterable[MetadataRecord]) -> None:
        """Files that are listed together are added to those from before."""

    def verify(self, records: Iterable[MetadataRecord], seen: SeenTable) -> Iterator[Discrepancy]:
        """Files that readers with a metadata table miss, and files that are listed and gone."""
        listed = self.look_up(records)
        yield from _not_listed(listed, seen)
        yield from _listed_and_gone(listed, seen)


FILES_PARTITION = FilesPartition()


def key_of_files(partition: str) -> str:
    """The key of the record with the files of a partition."""
    return partition or _WITHOUT_PARTITIONS


def _stored(records: Iterable[FilesRecord]) -> tuple[MetadataRecord, ...]:
    return tuple(record.stored() for record in records)


def _written(metadata: CommitMetadata) -> Iterator[FilesRecord]:
    """The records of a commit, a compaction, a clustering or a replacement."""
    names = sorted(metadata.partition_to_write_stats)
    yield FilesRecord(ALL_PARTITIONS, {key_of_files(name): FileState(0) for name in names})
    for name in names:
        sizes: dict[str, int] = {}
        for stat in metadata.partition_to_write_stats[name]:
            written = {stat.path: stat.file_size_in_bytes} if stat.path else {}
            for path, size_bytes in {**written, **(stat.cdc_stats or {})}.items():
                if size_bytes <= 0:
                    raise CorruptTableError("a commit wrote an empty file", path=path)
                file_name = split_path(path)[1]
                sizes[file_name] = max(size_bytes, sizes.get(file_name, 0))
        yield FilesRecord(
            key_of_files(name), {file: FileState(size) for file, size in sizes.items()}
        )


def _appended(logs: Mapping[str, int]) -> Iterator[FilesRecord]:
    """The records of logs that a rollback leaves, by path."""
    by_partition: dict[str, dict[str, FileState]] = {}
    for path, size_bytes in sorted(logs.items()):
        partition, name = split_path(path)
        by_partition.setdefault(partition, {})[name] = FileState(size_bytes)
    for partition, files in by_partition.items():
        yield FilesRecord(key_of_files(partition), files)


def _removed(deleted: Iterable[str], emptied: Iterable[str]) -> Iterator[FilesRecord]:
    """The records of a clean that deleted these paths, and emptied these partitions."""
    by_partition: dict[str, dict[str, FileState]] = {}
    for path in sorted(deleted):
        partition, name = split_path(path)
        by_partition.setdefault(partition, {})[name] = DELETED
    for partition, files in by_partition.items():
        yield FilesRecord(key_of_files(partition), files)
    if gone := {key_of_files(name): DELETED for name in emptied}:
        yield FilesRecord(ALL_PARTITIONS, gone)


def _not_listed(listed: ListedFiles, seen: SeenTable) -> Iterator[Discrepancy]:
    """Files of the table that readers with a metadata table do not see, or see too short."""
    for partition in seen.view.partitions:
        sizes = dict(listed.files(partition))
        groups = seen.view.all_file_groups(partition)
        for file in (
            file for group in groups for file_slice in group.slices for file in file_slice.files
        ):
            size_bytes = sizes.get(file.name)
            if size_bytes == file.size_bytes:
                continue
            if size_bytes is None and seen.is_missing(file.path):
                continue  # cleaned since it was listed
            if size_bytes is None and isinstance(file, LogFile) and not seen.counts(file):
                continue
            found = "does not list it" if size_bytes is None else f"says {size_bytes:,} bytes"
            message = (
                f"{found}: readers with a metadata table miss rows of this file of "
                f"{file.size_bytes:,} bytes"
            )
            yield Discrepancy(message, file.path, file.instant)


def _listed_and_gone(listed: ListedFiles, seen: SeenTable) -> Iterator[Discrepancy]:
    """Files that are listed and not there; a clean under way may have just deleted some."""
    if len(seen.timeline.of(Action.CLEAN).pending()):
        return
    for partition, files in listed.listing().items():
        for name, size_bytes in files:
            file = parse_data_file(partition, name, size_bytes)
            if file is None or not seen.timeline.is_committed(file.instant):
                continue
            path = join_path(partition, name)
            if path not in seen.paths and seen.is_missing(path):
                message = "lists a file that is not there: readers with a metadata table may fail"
                yield Discrepancy(message, path, file.instant)


def _partition_of(key: str) -> str:
    return "" if key == _WITHOUT_PARTITIONS else key


def _merge(known: dict[str, FileState], name: str, state: FileState) -> None:
    before = known.get(name)
    if before is None or before.is_deleted:
        known[name] = state
    elif state.is_deleted:
        del known[name]
    else:
        known[name] = max(before, state, key=lambda file_state: file_state.size_bytes)
