"""What the checks look at: the newest metadata, the files in the table's folder, its manifests.

1. The metadata is read, then the folder is listed: a file that the metadata names was there before.
   What the listing lacks is looked for alone, since files may lie elsewhere.
2. The manifests of branches and tags are read whole, those of other snapshots for their files only;
   each once, however many snapshots share it.

A service that deletes files during the check can make some seem missing: a file is missing only
where the newest metadata still leads to its snapshot (`is_listed`).

Memory is a hash and a size per file in the folder, and two hashes per file of branches and tags.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tideline.errors import UnsupportedTableError
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.services.file_place import FilePlaces
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.table_operations import Loaded


class CheckedTable(Protocol):
    """What a check needs of a table."""

    @property
    def io(self) -> FileIO: ...

    def load(self) -> Loaded:
        """The newest metadata."""


@dataclass(slots=True)
class Inspection:
    """A table of this moment, and the sizes of the files in its folder by a hash of the place."""

    operations: CheckedTable
    io: FileIO
    metadata: TableMetadata
    places: FilePlaces
    _sizes: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, operations: CheckedTable) -> Inspection:
        """Load the newest metadata and list the folder. Raises as a table is opened."""
        loaded, io = operations.load(), operations.io
        seen = cls(operations, io, loaded.metadata, FilePlaces(io))
        for uri, info in io.list(loaded.metadata.location):
            seen._sizes[seen.key(uri)] = info.size_bytes
        return seen

    def heads(self) -> tuple[Snapshot, ...]:
        """The snapshots that branches and tags lead to, main's first."""
        wanted: list[int | None] = [self.metadata.current_snapshot_id]
        wanted += [ref.snapshot_id for ref in self.metadata.refs.values()]
        found = (self.metadata.snapshot(number) for number in dict.fromkeys(wanted))
        return tuple(snapshot for snapshot in found if snapshot is not None)

    def others(self) -> Iterator[Snapshot]:
        """The other snapshots that the table keeps: reading as of a time needs them."""
        heads = {snapshot.snapshot_id for snapshot in self.heads()}
        return (
            snapshot for snapshot in self.metadata.snapshots if snapshot.snapshot_id not in heads
        )

    def key(self, uri: str) -> int:
        """A file in few bytes, however its location is spelled."""
        return hash(self.places.of(uri))

    def size_bytes(self, uri: str) -> int | None:
        """The size of a file, None when it is not there. Raises UnsupportedTableError for a place
        that is not read."""
        listed = self._sizes.get(self.key(uri))
        return self.io.size_bytes(uri) if listed is None else listed

    def is_outside(self, uri: str) -> bool:
        """Whether a file lies where nothing is read."""
        try:
            self.io.placed(uri)
        except UnsupportedTableError:
            return True
        return False

    def is_listed(self, snapshot_id: int) -> bool:
        """Whether the newest metadata still has a snapshot: it may have expired by now."""
        return self.operations.load().metadata.snapshot(snapshot_id) is not None
