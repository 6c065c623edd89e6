"""Appends to a file slice: rows and deletes as blocks of new log files, the base file unread.

1. Rows and deletes are separated; of several rows with one key the last counts, filled up by the
   others in a table with partial updates. Stored rows fill it up when the log is read.
2. Rows become data blocks, cut where they are large; a file ends once it is large enough. Deletes
   come last, with the ordering values they carry.
3. A marker names each file before it exists. A file is one object, made only if its name is free.
   Where logs are named after their slice, that is the next version after the slice's newest log
   file. Another writer may append concurrently and take that name; then the next one is tried.
4. Where they are named after the instant that writes them the name is this writer's alone, and a
   rollback deletes the file like any other, so that its marker is looked for again afterwards
   (tideline.hudi.file_group.marked_file).

Died after the marker: the rollback has a name with nothing behind it, or a file, whole or (in a
local folder) cut short. It is deleted, or, named after its slice, gets a command block, and readers
skip what is there.
Source: Hudi's HoodieAppendHandle, HoodieLogFormatWriter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tideline.clock import Clock, SystemClock
from tideline.errors import ConflictError
from tideline.hudi.file_group.column_ranges import ranges_of_rows
from tideline.hudi.file_group.handle_context import HandleContext
from tideline.hudi.file_group.marked_file import require_marked
from tideline.hudi.file_group.meta_columns import constant_column, with_meta_columns
from tideline.hudi.file_group.record_merge import IncomingRows
from tideline.hudi.file_group.row_fold import one_of_each_key
from tideline.hudi.keys.virtual_key import column_at
from tideline.hudi.log.data_block import encode_data_block
from tideline.hudi.log.delete_block import encode_delete_block
from tideline.hudi.table.file_group import FileSlice, LogFile
from tideline.hudi.table.markers import Marker, MarkerKind, create_marker, delete_marker
from tideline.hudi.table.properties import MergeMode
from tideline.hudi.table.schema import FILE_NAME, META_COLUMNS
from tideline.hudi.timeline.column_range import ColumnRanges
from tideline.hudi.timeline.commit_metadata import RuntimeStats, WriteStat
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.object_store import AlreadyExists, ObjectStore

_SYSTEM_CLOCK = SystemClock()
_NAMES_TRIED_MAX = 1_000


def append_log_files(
    ctx: HandleContext,
    store: ObjectStore,
    file_slice: FileSlice,
    slice_instant: InstantTime,
    incoming: pa.Table,
    *,
    clock: Clock = _SYSTEM_CLOCK,
) -> tuple[WriteStat, ...]:
    """Append `incoming` to the logs of `file_slice`; one stat per log file.

    `slice_instant` is the instant of the slice, which may be that of a pending compaction (see
    `AppendTarget`). No row, no file.
    Raises InvalidDataError for rows that do not fit the schema, StorageUnavailableError.
    """
    started_s = clock.monotonic_s()
    rows = one_of_each_key(ctx, IncomingRows.of(ctx.stored_schema, incoming))
    log_instant = ctx.log_instant(slice_instant)
    stats = []
    logs = slice_logs(file_slice, log_instant)
    for content in _contents(ctx, file_slice, rows):
        log = put_log_file(ctx, store, file_slice, log_instant, content.body, logs)
        logs = (*logs, log)
        elapsed_ms = round((clock.monotonic_s() - started_s) * 1000)
        stat = log_stat(file_slice, log_instant, logs, elapsed_ms)
        stats.append(
            replace(
                stat,
                num_writes=content.rows,
                num_update_writes=content.rows,
                num_deletes=content.deletes,
                column_ranges=log_ranges(ctx, content.batches),
            )
        )
    return tuple(stats)


def log_ranges(ctx: HandleContext, batches: Sequence[pa.RecordBatch]) -> ColumnRanges | None:
    """The ranges of a log file's columns that are indexed, by its rows; deletes are none."""
    return ranges_of_rows(batches, ctx.indexed_columns) if ctx.indexed_columns is not None else None


def slice_logs(file_slice: FileSlice, log_instant: InstantTime) -> tuple[LogFile, ...]:
    """The slice's log files whose names carry `log_instant`, oldest first."""
    return tuple(log for log in file_slice.log_files if log.instant == log_instant)


def put_log_file(
    ctx: HandleContext,
    store: ObjectStore,
    file_slice: FileSlice,
    log_instant: InstantTime,
    body: bytes,
    logs: Sequence[LogFile],
) -> LogFile:
    """Make `body` the slice's next log file after `logs`, marker first.

    Dying between the two leaves a marker without a file; its rollback finds nothing to undo.
    """
    group = file_slice.group
    version = max((log.version for log in logs), default=0)
    for _ in range(_NAMES_TRIED_MAX):
        version += 1
        log = LogFile(
            group.partition, group.file_id, log_instant, version, ctx.write_token, len(body)
        )
        kind = MarkerKind.APPEND if ctx.logs_name_slice else MarkerKind.CREATE
        marker = Marker(group.partition, log.name, kind)
        create_marker(store, ctx.instant, marker)
        # Every block names the instant, so a repeated request knows its own object.
        outcome = store.put_if_absent(log.path, body, token=str(ctx.instant))
        if not isinstance(outcome, AlreadyExists) or _holds(store, log.path, body):
            if kind is MarkerKind.CREATE:
                require_marked(ctx, store, marker)
            return log
        delete_marker(store, ctx.instant, marker)
    raise ConflictError(
        "other writers keep taking the names of this file group's next log file",
        table=ctx.table,
        instant=ctx.instant,
        path=log.path,
    )


def _holds(store: ObjectStore, path: str, body: bytes) -> bool:
    """Whether the object that is there already is ours, of a request whose reply was lost."""
    info = store.head(path)
    return info is not None and info.size_bytes == len(body) and store.get(path) == body


def log_stat(
    file_slice: FileSlice, log_instant: InstantTime, logs: Sequence[LogFile], elapsed_ms: int
) -> WriteStat:
    """The stat of the last of `logs`, without row counts.

    As Hudi sees it, a pending compaction has begun a slice of its own, without a base file yet.
    """
    base = file_slice.base_file
    log = logs[-1]
    return WriteStat(
        file_id=log.file_id,
        path=log.path,
        prev_commit=str(log_instant),
        total_write_bytes=log.size_bytes,
        partition_path=log.partition,
        file_size_in_bytes=log.size_bytes,
        runtime_stats=RuntimeStats(total_upsert_time=elapsed_ms),
        log_version=log.version,
        base_file=base.name if base is not None and base.instant == log_instant else "",
        log_files=tuple(item.name for item in logs),
    )


@dataclass(frozen=True, slots=True)
class _Content:
    """What goes into one log file."""

    body: bytes
    rows: int
    deletes: int
    batches: tuple[pa.RecordBatch, ...] = ()
    """The rows as they are stored, where their ranges are wanted."""


def _contents(
    ctx: HandleContext, file_slice: FileSlice, incoming: IncomingRows
) -> Iterator[_Content]:
    """The contents of the log files, in order; the deletes are in the last one."""
    kept = incoming.take(np.flatnonzero(~incoming.deletes)) if incoming.deletes.any() else incoming
    blocks: list[bytes] = []
    batches: list[pa.RecordBatch] = []
    size_bytes = rows = 0
    for part, first_row in _block_rows(ctx, kept):
        if size_bytes >= ctx.logs.file_size_bytes_max:
            yield _Content(b"".join(blocks), rows, 0, tuple(batches))
            blocks, batches, size_bytes, rows = [], [], 0, 0
        stored = _stored_rows(ctx, file_slice, part, first_row)
        blocks.append(_data_block(ctx, stored))
        if ctx.indexed_columns is not None:
            batches.append(stored)
        size_bytes += len(blocks[-1])
        rows += len(part)
    deleted = incoming.take(np.flatnonzero(incoming.deletes))
    if len(deleted):
        blocks.append(_delete_blocks(ctx, file_slice, deleted))
    if blocks:
        yield _Content(b"".join(blocks), rows, len(deleted), tuple(batches))


def _block_rows(ctx: HandleContext, rows: IncomingRows) -> Iterator[tuple[IncomingRows, int]]:
    """The rows of each data block, and the number of the first one."""
    if not len(rows):
        return
    row_bytes = max(1.0, (rows.rows.nbytes + rows.keys.nbytes) / len(rows))
    length = max(1, int(ctx.logs.block_size_bytes_max / row_bytes))
    for start in range(0, len(rows), length):
        yield rows.slice(start, min(length, len(rows) - start)), start


def _stored_rows(
    ctx: HandleContext, file_slice: FileSlice, part: IncomingRows, first_row: int
) -> pa.RecordBatch:
    # Hudi numbers log records from 1.
    numbers = np.arange(first_row + 1, first_row + 1 + len(part))
    rows = with_meta_columns(ctx, file_slice.partition, part.keys, part.rows, numbers)
    if ctx.populate_meta_fields:
        names = constant_column(file_slice.file_id, rows.num_rows)
        rows = rows.add_column(len(META_COLUMNS) - 1, FILE_NAME, names)
    return rows


def _data_block(ctx: HandleContext, rows: pa.RecordBatch) -> bytes:
    return encode_data_block(
        ctx.logs.format,
        pa.Table.from_batches([rows]),
        ctx.log_schema_json,
        ctx.instant,
        codec=ctx.parquet.codec,
    )


def _delete_blocks(ctx: HandleContext, file_slice: FileSlice, deleted: IncomingRows) -> bytes:
    ordering: list[pa.Array] = []
    if ctx.merge_mode is MergeMode.EVENT_TIME_ORDERING:
        ordering = [column_at(deleted.rows, name) for name in ctx.ordering_fields]
    return encode_delete_block(
        deleted.keys, file_slice.partition, ordering, ctx.instant, ctx.log_schema_json
    )
