"""Partitions whose rows other writers change in place: what rewrites give way to.

A writer that replaces data files, or deletes rows of them by position, names these files in its
commit. Were they rewritten meanwhile, it would have to start over, and many writers fail instead.
So where one was at work lately another change is likely to be under way already. Appends and
equality deletes name no file, and deletes by position in files of the same commit none that could
be rewritten: to streams that write such a rewrite is no obstacle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile

from tideline.iceberg.commit.file_identity import ChangedPartitions, PartitionKey, partition_key
from tideline.iceberg.manifest.manifest_entry import (
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from tideline.iceberg.manifest.manifest_reading import entries_of
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.delete_index import DELETE_PATH_FIELD_ID, referenced_data_file
from tideline.iceberg.scan.manifests import snapshot_manifests
from tideline.iceberg.table.file_io import FileIO

_CHANGES = ("overwrite", "delete")


def changed_lately(
    io: FileIO, metadata: TableMetadata, head: Snapshot | None, quiet_for_ms: int, *, now_ms: int
) -> ChangedPartitions:
    """What was changed in place on the way to `head` within that time; 0 asks for nothing.

    Raises CorruptTableError and StorageUnavailableError.
    """
    if head is None or not quiet_for_ms:
        return {}
    since_ms = now_ms - quiet_for_ms
    ancestors = metadata.ancestors(head.snapshot_id)
    return changed_by(io, takewhile(lambda ancestor: ancestor.timestamp_ms >= since_ms, ancestors))


def changed_by(io: FileIO, snapshots: Iterable[Snapshot]) -> ChangedPartitions:
    """What these snapshots changed in place. Raises as `changed_lately` does."""
    changed: dict[PartitionKey, int] = {}
    for snapshot in snapshots:
        for file in _named_by(io, snapshot):
            key = partition_key(file)
            changed[key] = max(changed.get(key, 0), snapshot.timestamp_ms)
    return changed


def first_changed(changed: ChangedPartitions, files: Iterable[DataFile]) -> DataFile | None:
    """The first of `files` that lies in a changed partition."""
    return next((file for file in files if partition_key(file) in changed), None)


def _named_by(io: FileIO, snapshot: Snapshot) -> Iterator[DataFile]:
    if snapshot.operation not in _CHANGES:
        return
    manifests = [
        manifest
        for manifest in snapshot_manifests(io, snapshot)
        if manifest.added_snapshot_id == snapshot.snapshot_id
    ]
    own: set[str] = set()
    for entry in _entries(io, snapshot, manifests, ManifestContent.DATA):
        if entry.status is EntryStatus.DELETED:
            yield entry.data_file
        else:
            own.add(entry.data_file.file_path)
    for entry in _entries(io, snapshot, manifests, ManifestContent.DELETES):
        file = entry.data_file
        is_by_position = file.content is FileContent.POSITION_DELETES
        if is_by_position and entry.status is EntryStatus.ADDED and not _is_about(file, own):
            yield file


def _entries(
    io: FileIO, snapshot: Snapshot, manifests: Iterable[ManifestFile], content: ManifestContent
) -> Iterator[ManifestEntry]:
    """The entries that a snapshot made itself."""
    has_bounds = content is ManifestContent.DELETES
    for manifest in manifests:
        if manifest.content is content:
            for entry in entries_of(io, manifest, with_metrics=has_bounds):
                if entry.snapshot_id == snapshot.snapshot_id:
                    yield entry


def _is_about(delete: DataFile, own: set[str]) -> bool:
    """Whether position deletes are about files of the same commit, by the first and the last path
    that they name: streams write such, for rows that came twice."""
    only = referenced_data_file(delete)
    if only is not None:
        return only in own
    bounds = (delete.lower_bounds or {}, delete.upper_bounds or {})
    paths = [bound.get(DELETE_PATH_FIELD_ID) for bound in bounds]
    return all(path is not None and bytes(path).decode("utf-8", "replace") in own for path in paths)
