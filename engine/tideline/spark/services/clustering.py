"""Clustering on Spark, in at most two jobs for all groups of a plan.

1. Groups that a task can sort in memory, or that need no order: one task each, no shuffle.
2. Larger sorted groups: a sample of the sort columns gives the splits; tasks read slices and send
   the rows of each part on as one block of Arrow bytes; each file's task gets its parts in order,
   sorts one at a time and writes it. Rows never become Spark rows, so that no type is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tideline.hudi.services.engine import RowArrangement, ServiceWork
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.write.cluster_work import PART_BYTES_MAX, SplitGroup, WholePiece, cut_group
from tideline.hudi.write.file_slice_merge import FileSliceMerge
from tideline.hudi.write.row_order import RowOrder
from tideline.hudi.write.slice_rewrite import (
    RewriteContext,
    cluster_slices,
    clustering_stats,
    read_slices,
    sorted_rows,
)
from tideline.hudi.write.stored_rows_handle import spread_rows
from tideline.ordering.sorted_parts import part_numbers, split_keys
from tideline.spark.services.compaction import run_rewrites
from tideline.spark.services.tasks import bound_to_task, numbered, time_limit
from tideline.spark.task_errors import carried_errors, raised_errors
from tideline.spark.write.tasks import SPARK_STAT_SCHEMA, stat_batch
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore

_SAMPLE_ROWS_PER_PART = 2_000
_FILE, _PART, _BLOCK = "file", "part", "block"
_BLOCK_SCHEMA = f"{_FILE} int, {_PART} int, {_BLOCK} binary"
_ARROW_BLOCK_SCHEMA = pa.schema([(_FILE, pa.int32()), (_PART, pa.int32()), (_BLOCK, pa.binary())])
_BLOCK_ROWS_MAX = 262_144


def cluster_groups(
    spark: SparkSession,
    table: HoodieTable,
    work: ServiceWork,
    arrangement: RowArrangement,
    *,
    part_bytes_max: int = PART_BYTES_MAX,
) -> tuple[WriteStat, ...]:
    """Rewrite the groups; raises what a task raised."""
    context = RewriteContext.of(table, work.timeline, work.instant, work.schema_json, work.config)
    if arrangement.target_file_bytes is not None:
        context = context.with_file_size(arrangement.target_file_bytes)
    order = (
        RowOrder(arrangement.sort_columns, arrangement.layout) if arrangement.sort_columns else None
    )
    whole: list[tuple[WholePiece, RowOrder | None]] = []
    split: list[SplitGroup] = []
    for number, group in enumerate(arrangement.groups):
        cut = cut_group(
            group.slices,
            group.output_groups,
            is_ordered=order is not None,
            instant=work.instant,
            group=number,
            part_bytes_max=part_bytes_max,
        )
        if isinstance(cut, SplitGroup):
            split.append(cut)
        else:
            whole += [(piece, order) for piece in cut]
    whole.sort(key=lambda item: sum(one.size_bytes for one in item[0].slices), reverse=True)
    stats = run_rewrites(spark, table, work, context, whole, _cluster)
    if split and order is not None:
        with time_limit(spark, work.seconds_max, work.instant), raised_errors():
            stats += _cluster_by_shuffle(spark, table.location, context, split, order)
    return stats


def _cluster(
    context: RewriteContext, store: ObjectStore, item: tuple[WholePiece, RowOrder | None]
) -> Iterable[WriteStat]:
    piece, order = item
    return cluster_slices(context, store, piece.slices, piece.file_id_prefix, order=order)


def _cluster_by_shuffle(
    spark: SparkSession,
    location: StoreLocation,
    context: RewriteContext,
    groups: Sequence[SplitGroup],
    order: RowOrder,
) -> tuple[WriteStat, ...]:
    slices = [(number, piece) for number, group in enumerate(groups) for piece in group.slices]
    sample = SampleSlices(location, context, slices, order.columns, groups)
    sampled = numbered(spark, len(slices)).mapInArrow(sample, _BLOCK_SCHEMA).collect()
    routes = _routes(groups, order, ((row[_FILE], row[_BLOCK]) for row in sampled))
    files = [(group.slices[0].group.partition, prefix, route.order)
             for group, route in zip(groups, routes, strict=True)
             for prefix in group.file_id_prefixes]  # fmt: skip
    rows = numbered(spark, len(slices)).mapInArrow(
        RouteSlices(location, context, slices, routes), _BLOCK_SCHEMA
    )
    arranged = rows.repartitionById(len(files), F.col(_FILE)).sortWithinPartitions(_FILE, _PART)
    answers = arranged.mapInArrow(WriteParts(location, context, files), SPARK_STAT_SCHEMA).collect()
    return tuple(WriteStat.from_json_object(json.loads(row[0])) for row in answers)


@dataclass(frozen=True, slots=True)
class Route:
    """Which file and part each row of a group goes to: its splits, and its first file's number."""

    order: RowOrder
    splits: pa.Table
    first_file: int
    parts: int


def _routes(
    groups: Sequence[SplitGroup], order: RowOrder, sampled: Iterable[tuple[int, bytes]]
) -> list[Route]:
    samples: dict[int, list[pa.Table]] = {}
    for number, block in sampled:
        samples.setdefault(number, []).append(_unpacked(block))
    routes, first_file = [], 0
    for number, group in enumerate(groups):
        sample = pa.concat_tables(samples[number])
        with_boundaries = order.sampled(sample)
        splits = split_keys(with_boundaries.keys(sample), group.files * group.parts)
        routes.append(Route(with_boundaries, splits, first_file, group.parts))
        first_file += group.files
    return routes


@dataclass(frozen=True, slots=True)
class SampleSlices:
    """Task function: evenly spaced rows of the sort columns of a slice."""

    location: StoreLocation
    context: RewriteContext
    slices: Sequence[tuple[int, FileSlice]]
    columns: tuple[str, ...]
    groups: Sequence[SplitGroup]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = self.location.open()
        with carried_errors():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    group, piece = self.slices[number]
                    merge = FileSliceMerge(store, piece, self.context.slices, self.columns)
                    rows = pa.Table.from_batches(list(merge.batches()), schema=merge.schema)
                    yield _block(group, 0, _thinned(rows, self._rows_wanted(group)))

    def _rows_wanted(self, group: int) -> int:
        found = self.groups[group]
        return max(1, _SAMPLE_ROWS_PER_PART * found.files * found.parts // len(found.slices))


@dataclass(frozen=True, slots=True)
class RouteSlices:
    """Task function: the rows of a slice as blocks, one for each part they belong to."""

    location: StoreLocation
    context: RewriteContext
    slices: Sequence[tuple[int, FileSlice]]
    routes: Sequence[Route]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = self.location.open()
        with carried_errors():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    group, piece = self.slices[number]
                    for rows in read_slices(self.context, store, (piece,)):
                        yield from _routed(pa.Table.from_batches([rows]), self.routes[group])


@dataclass(frozen=True, slots=True)
class WriteParts:
    """Task function: blocks sorted by (file, part) -> files, each part sorted by itself."""

    location: StoreLocation
    context: RewriteContext
    files: Sequence[tuple[str, str, RowOrder]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context, store = bound_to_task(self.context), self.location.open()
        blocks = (row for batch in batches for row in _rows(batch))
        with carried_errors():
            for file, parts in groupby(blocks, key=itemgetter(0)):
                partition, prefix, order = self.files[file]
                rows = _sorted_parts(parts, order)
                written = spread_rows(context.handle, store, partition, prefix, rows)
                yield stat_batch(clustering_stats(written, partition, 0))


def _sorted_parts(
    blocks: Iterator[tuple[int, int, bytes]], order: RowOrder
) -> Iterator[pa.RecordBatch]:
    for _, part in groupby(blocks, key=itemgetter(1)):
        tables = [_unpacked(block) for _, _, block in part]
        yield from sorted_rows((b for table in tables for b in table.to_batches()), order)


def _routed(rows: pa.Table, route: Route) -> Iterator[pa.RecordBatch]:
    numbers = part_numbers(route.order.keys(rows), route.splits)
    order = np.argsort(numbers, kind="stable")
    arranged, ordered = rows.take(pa.array(order)), numbers[order]
    starts = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), rows.num_rows]
    for start, end in pairwise(starts):
        if start < end:
            file, part = divmod(int(ordered[start]), route.parts)
            yield _block(route.first_file + file, part, arranged.slice(start, end - start))


def _thinned(rows: pa.Table, wanted: int) -> pa.Table:
    step = max(1, rows.num_rows // wanted)
    return rows.take(pa.array(np.arange(0, rows.num_rows, step)))


def _block(file: int, part: int, rows: pa.Table) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    columns = [[file], [part], [sink.getvalue().to_pybytes()]]
    arrays = [
        pa.array(column, field.type)
        for column, field in zip(columns, _ARROW_BLOCK_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW_BLOCK_SCHEMA)


def _unpacked(block: bytes) -> pa.Table:
    with pa.ipc.open_stream(block) as reader:
        return reader.read_all()


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)
