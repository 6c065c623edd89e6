"""Scan planning: the data files of a snapshot with the deletes that apply to each.

1. Read the snapshot's manifest list; skip manifests whose partitions cannot match the filter.
2. Index all live delete files of the delete manifests that are left.
3. Stream the data manifests, a few at a time; skip files whose partition or metrics cannot match.
4. Look each file that is left up in the delete index.

Memory holds the delete files, a few manifests, and what the caller keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tideline.errors import CorruptTableError
from tideline.formats.filter import ALL_ROWS, Filter
from tideline.iceberg.manifest.manifest_entry import ManifestContent, ManifestEntry, ManifestFile
from tideline.iceberg.manifest.manifest_file import read_manifest
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.bound_filter import bind
from tideline.iceberg.scan.delete_index import DeleteIndex
from tideline.iceberg.scan.manifests import read_ahead, snapshot_manifests
from tideline.iceberg.scan.pruning import FilePruning, Pruning
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.table.file_io import FileIO


def plan_files(
    io: FileIO,
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    where: Filter = ALL_ROWS,
    *,
    with_nan_counts: bool = False,
    pruning: FilePruning | None = None,
) -> Iterator[FileScanTask]:
    """The files of `snapshot` that may hold rows that `where` selects, in no particular order.

    Of their metrics they have the numbers of NaN, if asked for, and no others. The columns of
    `where` are the table's current ones; `pruning` is asked instead of it. Nothing for a table
    without a snapshot.
    Raises ConfigError for a filter that does not fit the table, and CorruptTableError.
    """
    pruning = pruning or Pruning(bind(where, metadata.schema()), metadata)
    manifests = [
        manifest
        for manifest in snapshot_manifests(io, snapshot)
        if manifest.may_have_live_files and pruning.manifest_may_match(manifest)
    ]
    return _tasks(io, metadata, manifests, pruning, with_nan_counts=with_nan_counts)


def live_entries(
    io: FileIO,
    manifests: Iterable[ManifestFile],
    *,
    with_metrics: bool,
    with_nan_counts: bool = False,
) -> Iterator[ManifestEntry]:
    """The entries of live files, manifest after manifest."""
    for manifest, body in read_ahead(io, manifests):
        yield from read_manifest(
            body,
            manifest,
            with_metrics=with_metrics,
            with_nan_counts=with_nan_counts,
            live_only=True,
        )


def _tasks(
    io: FileIO,
    metadata: TableMetadata,
    manifests: list[ManifestFile],
    pruning: FilePruning,
    *,
    with_nan_counts: bool,
) -> Iterator[FileScanTask]:
    listed = [manifest for manifest in manifests if manifest.content is ManifestContent.DELETES]
    deletes = live_entries(io, listed, with_metrics=True)
    # A delete file's metrics are those of deleted rows, not of rows that the filter selects.
    index = DeleteIndex(
        (
            delete_file
            for delete_file in deletes
            if pruning.partition_may_match(delete_file.data_file)
        ),
        metadata,
    )
    data = [manifest for manifest in manifests if manifest.content is ManifestContent.DATA]
    with_metrics = pruning.needs_metrics or index.needs_data_metrics
    entries = live_entries(io, data, with_metrics=with_metrics, with_nan_counts=with_nan_counts)
    counts: dict[frozenset[tuple[int, int]], Mapping[int, int]] = {}
    for entry in entries:
        if pruning.file_may_match(entry.data_file):
            nans = (entry.data_file.nan_value_counts or {}) if with_nan_counts else {}
            # Most files have none: they share one mapping.
            shared = counts.setdefault(frozenset(nans.items()), nans)
            yield scan_task(entry, index, metadata, shared or None)


def scan_task(
    entry: ManifestEntry,
    index: DeleteIndex,
    metadata: TableMetadata,
    nan_value_counts: Mapping[int, int] | None = None,
) -> FileScanTask:
    """A live data file with the deletes that apply to it. Raises CorruptTableError."""
    file, sequence_number = entry.data_file, entry.sequence_number
    if sequence_number is None:
        message = "a live file has no sequence number, and inherits none"
        raise CorruptTableError(message, table=metadata.location, path=file.file_path)
    deletes = index.deletes_for(file, sequence_number)
    if file.lower_bounds is not None or file.value_counts is not None or nan_value_counts:
        file = replace(file.without_metrics(), nan_value_counts=nan_value_counts)
    return FileScanTask(file, sequence_number, deletes.position, deletes.equality, deletes.vector)
