"""Writes new base files: every incoming row becomes a row of a new file group.

1. A marker names the file before it exists; the partition gets its metadata file.
2. Rows stream through; deletes among them have nothing to delete and are only counted.
3. At the maximum size the next file group `<prefix>-<k>` begins, unless the context forbids it.

Source: Hudi `HoodieCreateHandle`, `CreateHandleFactory`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType

import numpy as np
import pyarrow as pa

from tideline.clock import Clock, SystemClock
from tideline.hudi.file_group.base_file_writer import BaseFileWriter
from tideline.hudi.file_group.handle_context import HandleContext
from tideline.hudi.file_group.marked_file import open_marked_file
from tideline.hudi.file_group.meta_columns import with_meta_columns
from tideline.hudi.file_group.record_merge import IncomingRows
from tideline.hudi.table.markers import MarkerKind
from tideline.hudi.table.partition_metadata import write_partition_metadata
from tideline.hudi.timeline.commit_metadata import NO_PREVIOUS_COMMIT, RuntimeStats, WriteStat
from tideline.storage.object_store import ObjectStore

_SPARE_RECORDS = 2
# Arrow bytes of a row's meta columns but the key: one sequence number, three dictionary indices.
_OTHER_META_BYTES_PER_ROW = 44

_SYSTEM_CLOCK = SystemClock()


def create_base_files(
    ctx: HandleContext,
    store: ObjectStore,
    partition: str,
    file_id_prefix: str,
    batches: Iterable[pa.RecordBatch],
    *,
    clock: Clock = _SYSTEM_CLOCK,
) -> tuple[WriteStat, ...]:
    """Write `batches` to `<file_id_prefix>-0`, `-1`, … of `partition`; one stat per file.

    No batch, no file; nothing but deletes gives one file without rows, as in Hudi. Raises
    InvalidDataError for rows that do not fit the schema, StorageUnavailableError.
    """
    with CreateHandle(ctx, store, partition, file_id_prefix, clock=clock) as handle:
        for batch in batches:
            handle.write(batch)
    return tuple(handle.stats)


class CreateHandle:
    """The sequence of files one bucket's rows go to; the last one is open.

    For callers that keep several buckets open at once; others use `create_base_files`.
    """

    def __init__(
        self,
        ctx: HandleContext,
        store: ObjectStore,
        partition: str,
        file_id_prefix: str,
        *,
        clock: Clock = _SYSTEM_CLOCK,
    ) -> None:
        self.stats: list[WriteStat] = []
        """One per file; complete once the handle is closed."""
        self._ctx = _with_row_groups_inside_files(ctx) if ctx.rolls else ctx
        self._store = store
        self._partition = partition
        self._prefix = file_id_prefix
        self._clock = clock
        self._opened = ExitStack()
        self._writer: BaseFileWriter | None = None
        self._file_id = ""
        self._started_s = 0.0
        self._deletes = 0
        # A file slightly too large does not leave a tiny second one.
        bytes_max = ctx.parquet.file_size_bytes_max * (1 + ctx.parquet.growth)
        spare_bytes = _SPARE_RECORDS * ctx.record_size_estimate_bytes
        self._roll_bytes = max(1.0, bytes_max - spare_bytes)

    def __enter__(self) -> CreateHandle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._finish()
        else:
            self._opened.__exit__(kind, error, trace)

    @property
    def pending_bytes(self) -> int:
        """Arrow bytes held until their row group is written."""
        return self._writer.pending_bytes if self._writer else 0

    def flush(self) -> None:
        """Write what is held as a row group, to free memory."""
        if self._writer is not None:
            self._writer.flush()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows. Raises InvalidDataError for rows that do not fit the schema."""
        if batch.num_rows:
            self._add(IncomingRows.of(self._ctx.stored_schema, batch))

    def _add(self, incoming: IncomingRows) -> None:
        if incoming.deletes.any():
            self._deletes += int(incoming.deletes.sum())
            incoming = incoming.take(np.flatnonzero(~incoming.deletes))
        writer = self._writer or self._open()
        while len(incoming):
            room = self._room(writer, incoming)
            if room == 0:
                self._finish()
                writer = self._open()
                continue
            part = incoming.slice(0, room)
            numbers = np.arange(writer.rows, writer.rows + room)
            writer.write(
                with_meta_columns(self._ctx, self._partition, part.keys, part.rows, numbers)
            )
            writer.add_keys(part.keys)
            incoming = incoming.slice(room)

    def _room(self, writer: BaseFileWriter, incoming: IncomingRows) -> int:
        """How many of the rows still go into this file; at least one into an empty one."""
        if not self._ctx.rolls:
            return len(incoming)
        left_bytes = self._roll_bytes - writer.estimated_bytes
        row_bytes = incoming.rows.nbytes / len(incoming)
        if self._ctx.populate_meta_fields:
            row_bytes += incoming.keys.nbytes / len(incoming) + _OTHER_META_BYTES_PER_ROW
        room = int(max(left_bytes, 0.0) / (max(row_bytes, 1.0) * writer.compression))
        return min(max(room, 0 if writer.rows else 1), len(incoming))

    def _open(self) -> BaseFileWriter:
        self._started_s = self._clock.monotonic_s()
        self._file_id = f"{self._prefix}-{len(self.stats)}"
        self._writer = self._opened.enter_context(
            open_marked_file(
                self._ctx, self._store, self._partition, self._file_id, MarkerKind.CREATE
            )
        )
        write_partition_metadata(self._store, self._partition, self._ctx.instant)
        return self._writer

    def _finish(self) -> None:
        writer, self._writer = self._writer, None
        self._opened.close()
        if writer is None:
            return
        elapsed_ms = round((self._clock.monotonic_s() - self._started_s) * 1000)
        deletes, self._deletes = self._deletes, 0
        self.stats.append(
            WriteStat(
                file_id=self._file_id,
                path=writer.path,
                prev_commit=NO_PREVIOUS_COMMIT,
                num_writes=writer.rows,
                num_inserts=writer.rows,
                num_deletes=deletes,
                total_write_bytes=writer.size_bytes,
                partition_path=self._partition,
                file_size_in_bytes=writer.size_bytes,
                runtime_stats=RuntimeStats(total_create_time=elapsed_ms),
                column_ranges=writer.column_ranges,
            )
        )


def _with_row_groups_inside_files(ctx: HandleContext) -> HandleContext:
    """With row groups no larger than a file may be, so that its size is known in time."""
    settings = ctx.parquet
    bytes_max = min(settings.row_group_bytes_max, settings.file_size_bytes_max)
    return replace(ctx, parquet=replace(settings, row_group_bytes_max=bytes_max))
