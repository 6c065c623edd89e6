"""Whether rows of replaced files were deleted after the rewrite had read them.

Such a delete names a replaced file, or all files of its partition. Were it ignored, the rows would
come back in the files that replace them (spec, "Scan Planning", says which deletes apply to which
files).

1. Walk back from the branch's newest snapshot to the one the rewrite started from. When it is not
   among the ancestors, nothing can be said, so nothing may be committed.
2. Of each snapshot in between, read the manifests of deletes it wrote itself. Snapshots of
   operation `replace` are left out: what they add deletes no row that was not deleted before.
3. A delete conflicts when it may apply to a replaced file. An equality delete does not when it
   applies to the new files just as well: they take over a sequence number lower than its own, and
   stay in the partitions of the old ones, or it is for all partitions.
4. When rows move to another partitioning, a younger equality delete of that one conflicts too: it
   would delete rows there that it did not delete where they were.
5. A rewrite that gives way is void also where another writer has changed rows of the same
   partitions: it is at work there, and would fail where this commit met its next one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from tideline.iceberg.commit.changed_partitions import changed_by, first_changed
from tideline.iceberg.commit.file_identity import PartitionKey, partition_key
from tideline.iceberg.commit.replacement import RewriteFiles
from tideline.iceberg.manifest.manifest_entry import (
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
)
from tideline.iceberg.manifest.manifest_reading import entries_of, manifests_of
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.delete_index import DELETE_PATH_FIELD_ID, referenced_data_file
from tideline.iceberg.table.file_io import FileIO


def find_conflict(io: FileIO, metadata: TableMetadata, rewrite: RewriteFiles) -> str | None:
    """Why `rewrite` must not be committed on top of `metadata`, None when nothing is against it."""
    head = metadata.ref_snapshot(rewrite.branch)
    if head is None:
        return f"branch {rewrite.branch} no longer exists"
    since = snapshots_since(metadata, head, rewrite.starting_snapshot_id)
    if since is None:
        return (
            f"snapshot {rewrite.starting_snapshot_id}, which was rewritten, is not an ancestor of "
            f"snapshot {head.snapshot_id} that branch {rewrite.branch} leads to now"
        )
    if rewrite.gives_way:
        replaced_files = (*rewrite.removed_data, *rewrite.removed_deletes)
        file = first_changed(changed_by(io, since), replaced_files)
        if file is not None:
            return f"another writer changes rows in the partition of {file.file_path}"
    if metadata.format_version < 2 or not rewrite.removed_data:
        return None
    replaced = DeleteTargets(rewrite.removed_data, metadata)
    for snapshot in since:
        for entry in _new_deletes(io, snapshot):
            path = replaced.harmed_by(entry, rewrite)
            if path is not None:
                return (
                    f"snapshot {snapshot.snapshot_id} deletes rows of the replaced file {path} "
                    f"with {entry.data_file.file_path}"
                )
    return None


def snapshots_since(
    metadata: TableMetadata, head: Snapshot, starting_snapshot_id: int
) -> tuple[Snapshot, ...] | None:
    """The snapshots after the starting one up to `head`; None when it is no ancestor of `head`."""
    since: list[Snapshot] = []
    for snapshot in metadata.ancestors(head.snapshot_id):
        if snapshot.snapshot_id == starting_snapshot_id:
            return tuple(since)
        since.append(snapshot)
    return None


def _new_deletes(io: FileIO, snapshot: Snapshot) -> Iterator[ManifestEntry]:
    if snapshot.operation == "replace":
        return
    for manifest in manifests_of(io, snapshot):
        is_new = manifest.added_snapshot_id == snapshot.snapshot_id
        if manifest.content is ManifestContent.DELETES and is_new:
            for entry in entries_of(io, manifest):
                if entry.snapshot_id == snapshot.snapshot_id and entry.status is EntryStatus.ADDED:
                    yield entry


def _outnumbers(delete: ManifestEntry, sequence_number: int | None) -> bool:
    """Whether it is an equality delete that deletes from data files of this sequence number."""
    return (
        delete.data_file.content is FileContent.EQUALITY_DELETES
        and sequence_number is not None
        and delete.sequence_number is not None
        and delete.sequence_number > sequence_number
    )


class DeleteTargets:
    """Data files by path and by partition: which of them a delete applies to."""

    def __init__(self, files: Iterable[DataFile], metadata: TableMetadata) -> None:
        self._metadata = metadata
        self._paths: set[str] = set()
        self._by_partition: dict[PartitionKey, list[bytes]] = {}
        for file in files:
            self._paths.add(file.file_path)
            self._by_partition.setdefault(partition_key(file), []).append(file.file_path.encode())
        for paths in self._by_partition.values():
            paths.sort()

    def harmed_by(self, delete: ManifestEntry, rewrite: RewriteFiles) -> str | None:
        """A replaced file whose rows would be visible, or not, though they were not, or were."""
        file = delete.data_file
        hit = self.hit_by(file)
        if not _outnumbers(delete, rewrite.sequence_number):
            return hit
        new_specs = {data_file.spec_id for data_file in rewrite.added_data}
        moves = bool(new_specs) and new_specs != {
            data_file.spec_id for data_file in rewrite.removed_data
        }
        if not moves or self._metadata.spec(file.spec_id).is_unpartitioned:
            return None
        return hit or (next(iter(self._paths)) if file.spec_id in new_specs else None)

    def hit_by(self, delete: DataFile) -> str | None:
        """One of the files that a delete file may delete rows of."""
        only = referenced_data_file(delete)
        if only is not None:
            return only if only in self._paths else None
        if delete.content is FileContent.EQUALITY_DELETES:
            if self._metadata.spec(delete.spec_id).is_unpartitioned:
                return next(iter(self._paths), None)
            found = self._by_partition.get(partition_key(delete))
            return found[0].decode() if found else None
        return self._between(self._by_partition.get(partition_key(delete), []), delete)

    @staticmethod
    def _between(paths: list[bytes], delete: DataFile) -> str | None:
        lower, upper = _path_bounds(delete)
        start = 0 if lower is None else bisect_left(paths, lower)
        if start == len(paths) or (upper is not None and paths[start] > upper):
            return None
        return paths[start].decode()


def _path_bounds(file: DataFile) -> tuple[bytes | None, bytes | None]:
    """The first and the last path that a position delete file names, where the manifest has bounds.

    Bounds outside ASCII are not used: writers in Java order such strings otherwise than bytes.
    """
    lower = (file.lower_bounds or {}).get(DELETE_PATH_FIELD_ID)
    upper = (file.upper_bounds or {}).get(DELETE_PATH_FIELD_ID)
    if lower is not None and upper is not None and lower == upper:
        return lower, upper
    return _ascii(lower), _ascii(upper)


def _ascii(bound: bytes | None) -> bytes | None:
    return bound if bound is not None and bound.isascii() else None
