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
from itertools import groupby
from operator import itemgetter

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tideline.hudi.file_group.cluster_work import PART_BYTES_MAX, SplitGroup, TaskSlices, cut_groups
from tideline.hudi.file_group.row_order import RowOrder
from tideline.hudi.file_group.slice_rewrite import (
    RewriteContext,
    cluster_slices,
    clustering_stats,
    read_slices,
)
from tideline.hudi.file_group.split_sort import (
    Route,
    SplitFile,
    routed_rows,
    sample_slice,
    sorted_parts,
    split_files,
    split_routes,
)
from tideline.hudi.file_group.stored_rows_handle import spread_rows
from tideline.hudi.services.engine import RowArrangement, ServiceWork
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.spark.arrow_blocks import tuples_of, unpacked, unpacked_rows
from tideline.spark.services.compaction import run_rewrites
from tideline.spark.services.tasks import numbered, time_limit
from tideline.spark.task_errors import carried_errors, raised_errors
from tideline.spark.write.tasks import SPARK_STAT_SCHEMA, bound_to_task, stat_batch
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore

_FILE, _PART, _BLOCK = "file", "part", "block"
_BLOCK_SCHEMA = f"{_FILE} int, {_PART} int, {_BLOCK} binary"
_ARROW_BLOCK_SCHEMA = pa.schema([(_FILE, pa.int32()), (_PART, pa.int32()), (_BLOCK, pa.binary())])


def cluster_groups(
    spark: SparkSession,
    table: HoodieTable,
    work: ServiceWork,
    arrangement: RowArrangement,
    *,
    part_bytes_max: int = PART_BYTES_MAX,
) -> tuple[WriteStat, ...]:
    """Rewrite the groups; raises what a task raised."""
    context = RewriteContext.of(
        table, work.timeline, work.instant, work.schema_json, work.config.files
    )
    if arrangement.target_file_bytes is not None:
        context = context.with_file_size(arrangement.target_file_bytes)
    order = (
        RowOrder(arrangement.sort_columns, arrangement.layout) if arrangement.sort_columns else None
    )
    cut = cut_groups(
        arrangement.groups,
        is_ordered=order is not None,
        instant=work.instant,
        part_bytes_max=part_bytes_max,
    )
    whole = [(task_slices, order) for task_slices in cut.whole]
    stats = run_rewrites(spark, table, work, context, whole, _cluster)
    if cut.split and order is not None:
        with time_limit(spark, work), raised_errors():
            stats += _cluster_by_shuffle(spark, table.location, context, cut.split, order)
    return stats


def _cluster(
    context: RewriteContext, store: ObjectStore, item: tuple[TaskSlices, RowOrder | None]
) -> Iterable[WriteStat]:
    task_slices, order = item
    return cluster_slices(
        context, store, task_slices.slices, task_slices.file_id_prefix, order=order
    )


def _cluster_by_shuffle(
    spark: SparkSession,
    location: StoreLocation,
    context: RewriteContext,
    groups: Sequence[SplitGroup],
    order: RowOrder,
) -> tuple[WriteStat, ...]:
    slices = [
        (number, file_slice) for number, group in enumerate(groups) for file_slice in group.slices
    ]
    sample = SampleSlices(location, context, slices, order.columns, groups)
    samples: dict[int, list[pa.Table]] = {}
    for row in numbered(spark, len(slices)).mapInArrow(sample, _BLOCK_SCHEMA).collect():
        samples.setdefault(row[_FILE], []).append(unpacked(row[_BLOCK]))
    routes = split_routes(groups, order, samples)
    files = split_files(groups, routes)
    rows = numbered(spark, len(slices)).mapInArrow(
        RouteSlices(location, context, slices, routes), _BLOCK_SCHEMA
    )
    arranged = rows.repartitionById(len(files), F.col(_FILE)).sortWithinPartitions(_FILE, _PART)
    answers = arranged.mapInArrow(WriteParts(location, context, files), SPARK_STAT_SCHEMA).collect()
    return tuple(WriteStat.from_report(json.loads(row[0])) for row in answers)


@dataclass(frozen=True, slots=True)
class SampleSlices:
    """Task function: a sample of a slice, under the number of its group."""

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
                    group, file_slice = self.slices[number]
                    rows = sample_slice(
                        self.context, store, file_slice, self.groups[group], self.columns
                    )
                    yield _block(group, 0, rows)


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
                    group, file_slice = self.slices[number]
                    for rows in read_slices(self.context, store, (file_slice,)):
                        for file, part, routed in routed_rows(rows, self.routes[group]):
                            yield _block(file, part, routed)


@dataclass(frozen=True, slots=True)
class WriteParts:
    """Task function: blocks sorted by (file, part) -> files, each part sorted on its own."""

    location: StoreLocation
    context: RewriteContext
    files: Sequence[SplitFile]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context, store = bound_to_task(self.context), self.location.open()
        with carried_errors():
            for number, found in groupby(tuples_of(batches), key=itemgetter(0)):
                file = self.files[number]
                rows = sorted_parts(_parts(found), file.order)
                written = spread_rows(
                    context.handle, store, file.partition, file.file_id_prefix, rows
                )
                yield stat_batch(clustering_stats(written, file.partition, 0))


def _parts(blocks: Iterator[tuple[int, int, bytes]]) -> Iterator[Iterator[pa.RecordBatch]]:
    for _, part in groupby(blocks, key=itemgetter(1)):
        yield unpacked_rows(block for _, _, block in part)


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
