"""What services do to the rows of file slices, in one task of any engine.

- `compact_slice`: merged rows of a slice to the next base file of its file group;
- `compact_log`: merged log of a slice to one more log file;
- `cluster_slices`: merged rows of several slices, in order, to new file groups.

Source: Hudi's HoodieCompactor, LogCompactionExecutionHelper, MultipleSparkJobExecutionStrategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tideline.clock import Clock, SystemClock
from tideline.formats.log_block import HeaderKey
from tideline.hudi.file_group.append_handle import (
    log_ranges,
    log_stat,
    put_log_file,
    slice_logs,
)
from tideline.hudi.file_group.file_settings import FileSettings
from tideline.hudi.file_group.file_slice_merge import FileSliceMerge, SliceContext
from tideline.hudi.file_group.handle_context import HandleContext
from tideline.hudi.file_group.row_order import RowOrder
from tideline.hudi.file_group.stored_rows_handle import RewrittenFile, rewrite_rows, spread_rows
from tideline.hudi.log.data_block import encode_data_block
from tideline.hudi.log.delete_block import encode_delete_block
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.markers import MarkerKind
from tideline.hudi.table.meta_column import FILE_NAME
from tideline.hudi.table.schema_resolver import read_schema_json
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import NO_PREVIOUS_COMMIT, RuntimeStats, WriteStat
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.parquet.column_encoding import decoded
from tideline.storage.object_store import ObjectStore

_SYSTEM_CLOCK = SystemClock()
_OUTPUT_BATCH_ROWS = 262_144

GiveUp = Callable[[], None]
"""Asked before every batch that is read; raises where the run has to end."""


def never() -> None:
    """Of a run that only ends with its rows."""


@dataclass(frozen=True, slots=True)
class RewriteContext:
    """How slices are read and files written by one run of a service; pickled to tasks."""

    handle: HandleContext
    slices: SliceContext

    @classmethod
    def of(
        cls,
        table: HoodieTable,
        timeline: ActiveTimeline,
        instant: InstantTime,
        schema_json: str,
        files: FileSettings,
    ) -> RewriteContext:
        """The context of a run at `instant`; rows get the columns of `schema_json`.

        That is the schema before the run's instant, by which its files are read later. Log blocks
        count that `timeline` shows as committed.
        """
        schema = read_schema_json(schema_json, table.config)
        slices = SliceContext.of(table, timeline, schema, schemas=timeline.before(instant))
        return cls(HandleContext.of(table, instant, schema, files, slices.history), slices)

    def for_task(self, task_partition: int, stage: int, attempt: int) -> RewriteContext:
        """With the write token of a task."""
        return replace(self, handle=self.handle.for_task(task_partition, stage, attempt))

    def with_file_size(self, size_bytes_max: int) -> RewriteContext:
        """With another maximum size of new base files."""
        parquet = replace(self.handle.parquet, file_size_bytes_max=size_bytes_max)
        return replace(self, handle=replace(self.handle, parquet=parquet))


def compact_slice(
    ctx: RewriteContext,
    store: ObjectStore,
    file_slice: FileSlice,
    *,
    clock: Clock = _SYSTEM_CLOCK,
    give_up: GiveUp = never,
) -> WriteStat:
    """Write the next base file of the slice's file group, even if no row is left.

    Raises CorruptTableError for missing or unreadable files, StorageUnavailableError, and what
    `give_up` does.
    """
    started_s = clock.monotonic_s()
    merge = FileSliceMerge(store, file_slice, ctx.slices, _columns(ctx), keeps_dictionaries=True)
    base = file_slice.base_file
    file = rewrite_rows(
        ctx.handle,
        store,
        file_slice.group.partition,
        file_slice.group.file_id,
        _asked(merge.batches(), give_up),
        kind=MarkerKind.CREATE if base is None else MarkerKind.MERGE,
    )
    seen = merge.counters
    return WriteStat(
        file_id=file.file_id,
        path=file.path,
        prev_commit=str(base.instant) if base else NO_PREVIOUS_COMMIT,
        num_writes=file.rows,
        num_update_writes=seen.updated,
        num_inserts=seen.inserted,
        num_deletes=seen.deleted,
        total_write_bytes=file.size_bytes,
        partition_path=file_slice.group.partition,
        total_log_records=seen.log_records,
        total_log_files_compacted=seen.log_files,
        total_log_size_compacted=seen.log_bytes,
        total_updated_records_compacted=seen.merged_keys,
        total_log_blocks=seen.log_blocks,
        total_corrupt_log_block=seen.corrupt_blocks,
        total_rollback_blocks=seen.rollback_blocks,
        file_size_in_bytes=file.size_bytes,
        runtime_stats=RuntimeStats(total_upsert_time=_elapsed_ms(clock, started_s)),
        prev_base_file=ctx.handle.prev_base_file(base),
        column_ranges=file.column_ranges,
    )


def compact_log(
    ctx: RewriteContext,
    store: ObjectStore,
    file_slice: FileSlice,
    *,
    clock: Clock = _SYSTEM_CLOCK,
    give_up: GiveUp = never,
) -> tuple[WriteStat, ...]:
    """Append the merged log as one log file that stands for the blocks merged; deletes are kept.

    Nothing is written for a slice none of whose blocks count, nor for one with rows of some columns
    only: one block has no word for the columns that a row leaves to the base file. Raises as
    `compact_slice`.
    """
    started_s = clock.monotonic_s()
    give_up()
    merge = FileSliceMerge(store, file_slice, ctx.slices)
    selected = merge.select_blocks()
    if not selected.instants:
        return ()
    log = merge.merged_log()
    if log.has_partial_rows:
        return ()
    stands_for = {HeaderKey.COMPACTED_BLOCK_TIMES: ",".join(map(str, selected.instants))}
    handle = ctx.handle
    kept, gone = np.flatnonzero(~log.deletes), np.flatnonzero(log.deletes)
    rows = log.rows.take(pa.array(kept))
    blocks = []
    if len(kept) or not len(gone):
        blocks.append(
            encode_data_block(
                handle.logs.format,
                pa.Table.from_batches([rows]),
                handle.log_schema_json,
                handle.instant,
                codec=handle.parquet.codec,
                headers=stands_for,
            )
        )
    if len(gone):
        ordering = [values.take(pa.array(gone)) for values in log.ordering]
        blocks.append(
            encode_delete_block(
                log.keys.take(pa.array(gone)),
                file_slice.group.partition,
                ordering,
                handle.instant,
                handle.log_schema_json,
                headers=stands_for,
            )
        )
    log_instant = handle.log_instant(file_slice.base_instant)
    logs = slice_logs(file_slice, log_instant)
    logs = (*logs, put_log_file(handle, store, file_slice, log_instant, b"".join(blocks), logs))
    stat = log_stat(file_slice, log_instant, logs, _elapsed_ms(clock, started_s))
    counts = replace(stat, num_writes=len(kept), num_update_writes=len(kept), num_deletes=len(gone))
    return (replace(counts, column_ranges=log_ranges(handle, [rows])),)


def cluster_slices(
    ctx: RewriteContext,
    store: ObjectStore,
    slices: Sequence[FileSlice],
    file_id_prefix: str,
    *,
    order: RowOrder | None = None,
    clock: Clock = _SYSTEM_CLOCK,
    give_up: GiveUp = never,
) -> tuple[WriteStat, ...]:
    """Write all rows of slices of one partition to new file groups `<prefix>-<k>`.

    With an order the rows are held in memory while they are sorted. Raises as `compact_slice`.
    """
    started_s = clock.monotonic_s()
    batches = read_slices(ctx, store, slices, give_up=give_up)
    if order is not None:
        batches = sorted_rows(batches, order)
    partition = slices[0].group.partition
    files = spread_rows(ctx.handle, store, partition, file_id_prefix, batches)
    return clustering_stats(files, partition, _elapsed_ms(clock, started_s))


def read_slices(
    ctx: RewriteContext,
    store: ObjectStore,
    slices: Iterable[FileSlice],
    *,
    give_up: GiveUp = never,
) -> Iterator[pa.RecordBatch]:
    """The merged rows of slices, one after another, without the file name column."""
    for file_slice in slices:
        merge = FileSliceMerge(
            store, file_slice, ctx.slices, _columns(ctx), keeps_dictionaries=True
        )
        yield from _asked(merge.batches(), give_up)


def sorted_rows(batches: Iterable[pa.RecordBatch], order: RowOrder) -> Iterator[pa.RecordBatch]:
    """The rows in order; all of them are held in memory."""
    held = list(batches)
    if not held:
        return
    table = pa.Table.from_batches([plain_rows(batch) for batch in held])
    indices = order.indices(table)
    for start in range(0, len(indices), _OUTPUT_BATCH_ROWS):
        rows = table.take(indices.slice(start, _OUTPUT_BATCH_ROWS))
        yield from rows.combine_chunks().to_batches()


def plain_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows without dictionaries."""
    columns = [decoded(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def clustering_stats(
    files: Iterable[RewrittenFile], partition: str, elapsed_ms: int
) -> tuple[WriteStat, ...]:
    """Stats of new file groups whose rows were stored before."""
    return tuple(
        WriteStat(
            file_id=file.file_id,
            path=file.path,
            prev_commit=NO_PREVIOUS_COMMIT,
            num_writes=file.rows,
            num_inserts=file.rows,
            total_write_bytes=file.size_bytes,
            partition_path=partition,
            file_size_in_bytes=file.size_bytes,
            runtime_stats=RuntimeStats(total_create_time=elapsed_ms),
            column_ranges=file.column_ranges,
        )
        for file in files
    )


def _asked(batches: Iterator[pa.RecordBatch], give_up: GiveUp) -> Iterator[pa.RecordBatch]:
    give_up()
    for batch in batches:
        yield batch
        give_up()


def _columns(ctx: RewriteContext) -> list[str]:
    """Everything but the file name, which a new file has its own of."""
    return [name for name in ctx.slices.full_schema.names if name != FILE_NAME]


def _elapsed_ms(clock: Clock, started_s: float) -> int:
    return round((clock.monotonic_s() - started_s) * 1000)
