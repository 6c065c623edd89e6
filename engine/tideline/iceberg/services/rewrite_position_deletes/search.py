"""Planning a rewrite of position delete files: what a snapshot has of them, about which files.

The live data files of every partition that has position deletes go into the plan (plan.py), because
a delete file about none of them deletes nothing. Reads metadata only.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tideline.clock import Clock, SystemClock
from tideline.iceberg.commit.changed_partitions import changed_lately
from tideline.iceberg.commit.file_identity import PartitionKey, partition_key
from tideline.iceberg.commit.partition_set import PartitionSet
from tideline.iceberg.manifest.manifest_entry import FileContent, ManifestContent
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.manifests import snapshot_manifests
from tideline.iceberg.scan.plan import live_entries
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_position_deletes.plan import (
    DeletePlan,
    LiveData,
    plan_position_deletes,
)
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.table_operations import TableOperations


@dataclass(slots=True)
class DeletePreparation:
    """A plan with what its execution needs."""

    metadata: TableMetadata
    plan: DeletePlan
    live: LiveData


def prepare_position_deletes(
    operations: TableOperations, options: RewriteOptions, *, clock: Clock | None = None
) -> DeletePreparation:
    """Plan on the newest snapshot and change nothing.

    Raises UnsupportedTableError, CorruptTableError and StorageUnavailableError.
    """
    metadata = operations.load().metadata
    now_ms = (clock or SystemClock()).now_ms()
    return search_position_deletes(operations.io, metadata, options, now_ms=now_ms)


def search_position_deletes(
    io: FileIO, metadata: TableMetadata, options: RewriteOptions, *, now_ms: int
) -> DeletePreparation:
    """The same for metadata that was loaded before. Partitions whose rows others changed in place
    lately, as `options` say, are left to them."""
    snapshot, quiet_ms = metadata.snapshot(), options.quiet_for_ms
    changed = changed_lately(io, metadata, snapshot, quiet_ms, now_ms=now_ms)
    manifests = [
        manifest for manifest in snapshot_manifests(io, snapshot) if manifest.may_have_live_files
    ]
    listed = [manifest for manifest in manifests if manifest.content is ManifestContent.DELETES]
    deletes = [
        entry
        for entry in live_entries(io, listed, with_metrics=True)
        if entry.data_file.content is FileContent.POSITION_DELETES
        and partition_key(entry.data_file) not in changed
    ]
    partitions = PartitionSet.of(entry.data_file for entry in deletes)
    wanted = {partition_key(entry.data_file) for entry in deletes}
    live: dict[PartitionKey, dict[str, int]] = defaultdict(dict)
    data = (
        manifest
        for manifest in manifests
        if manifest.content is ManifestContent.DATA and partitions.meets(manifest, metadata)
    )
    for entry in live_entries(io, data, with_metrics=False):
        key = partition_key(entry.data_file)
        if key in wanted:
            live[key][entry.data_file.file_path] = entry.sequence_number or 0
    return DeletePreparation(
        metadata, plan_position_deletes(deletes, live, metadata, options), live
    )
