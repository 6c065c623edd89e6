"""What the partition `files` of a metadata table says: the files of a table, by partition.

Records are merged in the order they were written. Of a file:

1. A deletion of a listed file removes it; of one that is not listed it is kept, for readers that
   merge logs before they look at the base file.
2. Of two sizes the larger counts, for files only grow.

Pure. Source: Hudi's HoodieTableMetadataUtil.combineFileSystemMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tideline.hudi.metadata_table.record import ALL_PARTITIONS, FilesRecord, FileState
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.table_config import FILES

FILES_GROUP = FileGroupId(FILES, "files-0000-0")
"""The one file group of the partition."""

_WITHOUT_PARTITIONS = "."


@dataclass(frozen=True, slots=True)
class FilesPartition:
    """The state of every file, by partition; `names` is the state of the partitions."""

    names: Mapping[str, FileState] = field(default_factory=dict)
    states: Mapping[str, Mapping[str, FileState]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[FilesRecord]) -> FilesPartition:
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
            {partition_of(key): state for key, state in names.items()},
            {partition_of(key): states for key, states in merged.items()},
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
        names = {key_of(name): FileState(0) for name in self.partitions}
        yield FilesRecord(ALL_PARTITIONS, names)
        for partition in sorted(self.states):
            live = {name: FileState(size) for name, size in self.files(partition)}
            if live:
                yield FilesRecord(key_of(partition), live)


def key_of(partition: str) -> str:
    """The key of a partition."""
    return partition or _WITHOUT_PARTITIONS


def partition_of(key: str) -> str:
    """The partition of a key."""
    return "" if key == _WITHOUT_PARTITIONS else key


def _merge(known: dict[str, FileState], name: str, state: FileState) -> None:
    before = known.get(name)
    if before is None or before.is_deleted:
        known[name] = state
    elif state.is_deleted:
        del known[name]
    else:
        known[name] = max(before, state, key=lambda one: one.size_bytes)
