"""What a table consists of as Arrow tables: its files, its partitions, its commits.

Of Hudi's metadata alone: no data file is opened.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant

_MOMENT = pa.timestamp("ms", "UTC")
_FILES = pa.schema(
    [
        ("partition", pa.string()),
        ("file_id", pa.string()),
        ("instant", pa.string()),
        ("base_file", pa.string()),
        ("log_files", pa.list_(pa.string())),
        ("size_bytes", pa.int64()),
    ]
)
_PARTITIONS = pa.schema(
    [("partition", pa.string()), ("file_groups", pa.int64()), ("size_bytes", pa.int64())]
)
_HISTORY = pa.schema(
    [
        ("instant", pa.string()),
        ("completed_at", _MOMENT),
        ("action", pa.string()),
        ("state", pa.string()),
        ("operation", pa.string()),
        ("files", pa.int64()),
        ("rows_inserted", pa.int64()),
        ("rows_updated", pa.int64()),
        ("rows_deleted", pa.int64()),
    ]
)


def files_table(table: HoodieTable) -> pa.Table:
    """A row for each file group: its newest base file and the logs over it."""
    rows = [
        {
            "partition": file_slice.partition,
            "file_id": file_slice.file_id,
            "instant": str(file_slice.base_instant),
            "base_file": None if file_slice.base_file is None else file_slice.base_file.path,
            "log_files": [log.path for log in file_slice.log_files],
            "size_bytes": file_slice.size_bytes,
        }
        for file_slice in _slices(table)
    ]
    return pa.Table.from_pylist(rows, _FILES)


def partitions_table(table: HoodieTable) -> pa.Table:
    """A row for each partition that has files, by its path."""
    found: dict[str, dict[str, Any]] = {}
    for file_slice in _slices(table):
        row = found.setdefault(
            file_slice.partition,
            {"partition": file_slice.partition, "file_groups": 0, "size_bytes": 0},
        )
        row["file_groups"] += 1
        row["size_bytes"] += file_slice.size_bytes
    return pa.Table.from_pylist([found[path] for path in sorted(found)], _PARTITIONS)


def history_table(table: HoodieTable) -> pa.Table:
    """A row for each instant of the timeline, oldest first; null where a commit says nothing."""
    timeline = table.timeline()
    zone = table.instants.known_zone(timeline).reading_zone
    rows = []
    for instant in timeline:
        row: dict[str, Any] = {
            "instant": str(instant.time),
            "action": str(instant.action),
            "state": str(instant.state),
        }
        if instant.completed_at is not None:
            at = zone.epoch_ms(instant.completed_at)
            row["completed_at"] = datetime.fromtimestamp(at / 1000, UTC)
        if instant.is_completed and instant.action in COMMIT_ACTIONS:
            row |= _counts(table, instant)
        rows.append(row)
    return pa.Table.from_pylist(rows, _HISTORY)


def _slices(table: HoodieTable) -> tuple[FileSlice, ...]:
    return table.files.read_view(table.timeline()).all_latest_slices()


def _counts(table: HoodieTable, instant: Instant) -> dict[str, Any]:
    metadata = table.commits.read(instant)
    stats = metadata.write_stats
    return {
        "operation": metadata.operation_type.lower(),
        "files": len(stats),
        "rows_inserted": sum(stat.num_inserts for stat in stats),
        "rows_updated": sum(stat.num_update_writes for stat in stats),
        "rows_deleted": sum(stat.num_deletes for stat in stats),
    }
