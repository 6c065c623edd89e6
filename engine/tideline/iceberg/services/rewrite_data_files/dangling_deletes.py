"""Delete files that apply to no data file any more (Iceberg's `remove-dangling-deletes`).

A delete file is dangling when

1. it names the only data file it is about, and that one is not live;
2. it is of one partition, and every live data file there is younger than it (position deletes), or
   as young or younger (equality deletes), or there is none;
3. it is an equality delete file for all partitions, and that holds for all data files.

No data file can come later that it would apply to: a new file is as old only as the files whose
rows it takes over.
"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.iceberg.commit.file_identity import PartitionKey, partition_key
from tideline.iceberg.manifest.manifest_entry import (
    DataFile,
    FileContent,
    ManifestContent,
    ManifestEntry,
)
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.delete_index import referenced_data_file
from tideline.iceberg.scan.manifests import snapshot_manifests
from tideline.iceberg.scan.plan import live_entries
from tideline.iceberg.table.file_io import FileIO


def find_dangling_deletes(
    io: FileIO, metadata: TableMetadata, snapshot: Snapshot
) -> tuple[DataFile, ...]:
    """The dangling delete files of a snapshot. Memory holds delete files and partitions.

    Raises CorruptTableError and StorageUnavailableError.
    """
    deletes = list(_entries(io, snapshot, ManifestContent.DELETES, with_metrics=True))
    if not deletes:
        return ()
    named = {referenced_data_file(entry.data_file) for entry in deletes}
    live: set[str] = set()
    oldest_in: dict[PartitionKey, int] = {}
    for entry in _entries(io, snapshot, ManifestContent.DATA, with_metrics=False):
        file, number = entry.data_file, entry.sequence_number or 0
        key = partition_key(file)
        oldest_in[key] = min(number, oldest_in.get(key, number))
        if file.file_path in named:
            live.add(file.file_path)
    everywhere = {spec.spec_id for spec in metadata.partition_specs if spec.is_unpartitioned}
    oldest_of_all = min(oldest_in.values(), default=None)

    def is_dangling(entry: ManifestEntry) -> bool:
        file = entry.data_file
        path = referenced_data_file(file)
        if path is not None:
            return path not in live
        is_equality = file.content is FileContent.EQUALITY_DELETES
        is_global = is_equality and file.spec_id in everywhere
        oldest = oldest_of_all if is_global else oldest_in.get(partition_key(file))
        number = entry.sequence_number or 0
        return oldest is None or number < oldest or (is_equality and number == oldest)

    return tuple(entry.data_file for entry in deletes if is_dangling(entry))


def _entries(
    io: FileIO, snapshot: Snapshot, content: ManifestContent, *, with_metrics: bool
) -> Iterator[ManifestEntry]:
    manifests = [
        manifest
        for manifest in snapshot_manifests(io, snapshot)
        if manifest.content is content and manifest.may_have_live_files
    ]
    return live_entries(io, manifests, with_metrics=with_metrics)
