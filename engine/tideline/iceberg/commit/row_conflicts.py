"""Whether a change of rows still does what it was made for, beside what others committed since.

Each snapshot since the one that the change read is looked at, in the manifests it wrote itself:

1. Files that the change deletes rows of must still be there.
2. No other delete may apply to them: rows that the change keeps, or replaces, would be back.
3. No rows may have come that the change would have selected, had they been there: with the same
   keys, or matching its condition. Writers that want `snapshot` isolation leave these alone.

Snapshots of operation `replace` add and delete no rows; a deletion vector that one of them adds is
a conflict as any other, because a data file has one at most. Where the chain of snapshots is broken
nothing can be said, and the change is made again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tideline.iceberg.commit.validation import DeleteTargets, snapshots_since
from tideline.iceberg.manifest.manifest_entry import (
    DataFile,
    EntryStatus,
    ManifestContent,
    ManifestEntry,
)
from tideline.iceberg.manifest.manifest_reading import entries_of, manifests_of
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.pruning import FilePruning
from tideline.iceberg.table.file_io import FileIO


@dataclass(frozen=True, slots=True)
class ReadState:
    """What a change of rows was made from: a snapshot, None for a branch without any, and the files
    that it deletes rows of. `pruning` says which files of the partition specs `spec_ids`, with the
    columns of a schema, may have rows that it selects, None: any; with `ignores_new` rows that came
    since are left alone."""

    snapshot_id: int | None
    targets: tuple[DataFile, ...] = ()
    pruning: FilePruning | None = None
    spec_ids: frozenset[int] = frozenset()
    schema_id: int | None = None
    ignores_new: bool = False

    def may_select(self, file: DataFile, metadata: TableMetadata) -> bool:
        """Whether a file of the table, as it is now, may have rows that the change selects."""
        if self.pruning is None or file.spec_id not in self.spec_ids:
            return True
        # Bounds may be of a type that the column has since.
        if metadata.current_schema_id != self.schema_id:
            return True
        return self.pruning.file_may_match(file)


def find_row_conflict(
    io: FileIO, metadata: TableMetadata, head: Snapshot | None, state: ReadState
) -> str | None:
    """Why a change of rows must be made again, None when nothing is against it. Raises what reading
    manifests raises."""
    since = _since(metadata, head, state.snapshot_id)
    if since is None:
        return "the snapshot that was read is not among those of the branch"
    targets = DeleteTargets(state.targets, metadata)
    paths = {file.file_path for file in state.targets}
    for snapshot in since:
        moves_rows = snapshot.operation != "replace"
        for content, entry in _own_entries(io, snapshot):
            file = entry.data_file
            if entry.status is EntryStatus.DELETED:
                if content is ManifestContent.DATA and file.file_path in paths:
                    return f"snapshot {snapshot.snapshot_id} removed {file.file_path}"
            elif content is ManifestContent.DELETES:
                path = targets.hit_by(file) if moves_rows or file.is_deletion_vector else None
                if path is not None:
                    return f"snapshot {snapshot.snapshot_id} deletes rows of {path}"
            elif moves_rows and not state.ignores_new and state.may_select(file, metadata):
                return f"snapshot {snapshot.snapshot_id} added rows in {file.file_path}"
    return None


def _since(
    metadata: TableMetadata, head: Snapshot | None, base_id: int | None
) -> tuple[Snapshot, ...] | None:
    if head is None:
        return () if base_id is None else None
    if base_id is not None:
        return snapshots_since(metadata, head, base_id)
    found = tuple(metadata.ancestors(head.snapshot_id))
    return found if found[-1].parent_snapshot_id is None else None


def _own_entries(io: FileIO, snapshot: Snapshot) -> Iterator[tuple[ManifestContent, ManifestEntry]]:
    for manifest in manifests_of(io, snapshot):
        if manifest.added_snapshot_id == snapshot.snapshot_id:
            for entry in entries_of(io, manifest):
                if entry.snapshot_id == snapshot.snapshot_id:
                    yield manifest.content, entry
