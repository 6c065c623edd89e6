"""What an Iceberg table consists of as Arrow tables: its files, its partitions, its snapshots.

Of metadata and manifests alone: no data file is opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa

from tideline.iceberg.metadata.partition_path import partition_path
from tideline.iceberg.metadata.snapshot import MAIN, Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.read.snapshot_choice import SnapshotChoice
from tideline.iceberg.read.table_rows import missing_files_named
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.table.file_io import FileIO

_PATHS_KEPT = 10_000
_FILES_A_BATCH = 10_000
_FILES = pa.schema(
    [
        ("partition", pa.string()),
        ("file", pa.string()),
        ("format", pa.string()),
        ("rows", pa.int64()),
        ("delete_files", pa.list_(pa.string())),
        ("size_bytes", pa.int64()),
    ]
)
_PARTITIONS = pa.schema(
    [
        ("partition", pa.string()),
        ("files", pa.int64()),
        ("rows", pa.int64()),
        ("size_bytes", pa.int64()),
    ]
)
_HISTORY = pa.schema(
    [
        ("snapshot_id", pa.int64()),
        ("parent_id", pa.int64()),
        ("completed_at", pa.timestamp("ms", "UTC")),
        ("operation", pa.string()),
        ("is_current", pa.bool_()),
        ("files_added", pa.int64()),
        ("files_removed", pa.int64()),
        ("rows_added", pa.int64()),
        ("rows_removed", pa.int64()),
    ]
)


def file_rows(io: FileIO, choice: SnapshotChoice) -> Iterator[dict[str, Any]]:
    """A dict for each data file, with its rows, deleted ones included, and the delete files that
    apply to it. Raises CorruptTableError."""
    metadata = choice.metadata

    @lru_cache(_PATHS_KEPT)
    def path_of(spec_id: int, partition: tuple[Any, ...]) -> str:
        spec = metadata.spec(spec_id)
        return partition_path(spec, partition, metadata.partition_schema(spec))

    with missing_files_named(io):
        for task in plan_files(io, metadata, choice.snapshot):
            file = task.data_file
            yield {
                "partition": path_of(file.spec_id, file.partition),
                "file": file.file_path,
                "format": file.file_format.lower(),
                "rows": file.record_count,
                "delete_files": [delete.file_path for delete in task.deletes],
                "size_bytes": file.file_size_bytes,
            }


def files_table(io: FileIO, choice: SnapshotChoice) -> pa.Table:
    """A row for each data file. Raises as `file_rows`."""
    batches, held = [], []
    for row in file_rows(io, choice):
        held.append(row)
        if len(held) == _FILES_A_BATCH:
            batches.append(pa.RecordBatch.from_pylist(held, _FILES))
            held = []
    batches.append(pa.RecordBatch.from_pylist(held, _FILES))
    return pa.Table.from_batches(batches, _FILES)


def partitions_table(io: FileIO, choice: SnapshotChoice) -> pa.Table:
    """A row for each partition that has files, by its path. Raises as `file_rows`."""
    found: dict[str, dict[str, Any]] = {}
    for file in file_rows(io, choice):
        row = found.setdefault(
            file["partition"],
            {"partition": file["partition"], "files": 0, "rows": 0, "size_bytes": 0},
        )
        row["files"] += 1
        row["rows"] += file["rows"]
        row["size_bytes"] += file["size_bytes"]
    return pa.Table.from_pylist([found[path] for path in sorted(found)], _PARTITIONS)


def history_table(metadata: TableMetadata) -> pa.Table:
    """A row for each snapshot that the table keeps, oldest first; null where one says nothing."""
    main = metadata.ref_snapshot(MAIN)
    ancestors = metadata.ancestors(None if main is None else main.snapshot_id)
    current = {snapshot.snapshot_id for snapshot in ancestors}
    snapshots = sorted(metadata.snapshots, key=lambda snapshot: snapshot.timestamp_ms)
    rows = [
        {
            "snapshot_id": snapshot.snapshot_id,
            "parent_id": snapshot.parent_snapshot_id,
            "completed_at": snapshot.timestamp_ms,
            "operation": snapshot.operation,
            "is_current": snapshot.snapshot_id in current,
            "files_added": _count(snapshot, "added-data-files"),
            "files_removed": _count(snapshot, "deleted-data-files"),
            "rows_added": _count(snapshot, "added-records"),
            "rows_removed": _count(snapshot, "deleted-records"),
        }
        for snapshot in snapshots
    ]
    return pa.Table.from_pylist(rows, _HISTORY)


def _count(snapshot: Snapshot, name: str) -> int | None:
    """What a summary says; writers leave out what is zero, and may say nothing at all."""
    if not snapshot.summary:
        return None
    text = snapshot.summary.get(name, "0")
    return int(text) if text.isdecimal() else None
