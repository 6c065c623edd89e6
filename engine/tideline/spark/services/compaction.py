"""Compaction and log compaction on Spark: one task per file slice, rows in Arrow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from tideline.hudi.file_group.slice_rewrite import RewriteContext, compact_log, compact_slice
from tideline.hudi.services.engine import ServiceWork
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.spark.services.tasks import RewriteTask, Work, numbered, time_limit
from tideline.spark.task_errors import raised_errors
from tideline.spark.write.tasks import SPARK_STAT_SCHEMA
from tideline.storage.object_store import ObjectStore


def compact_slices(
    spark: SparkSession,
    table: HoodieTable,
    work: ServiceWork,
    slices: Sequence[FileSlice],
    *,
    only_logs: bool,
) -> tuple[WriteStat, ...]:
    """Merge the slices, the largest first; raises what a task raised."""
    largest_first = sorted(slices, key=_size_bytes, reverse=True)
    context = RewriteContext.of(
        table, work.timeline, work.instant, work.schema_json, work.config.files
    )
    return run_rewrites(
        spark, table, work, context, largest_first, _compact_log if only_logs else _compact
    )


def run_rewrites(
    spark: SparkSession,
    table: HoodieTable,
    work: ServiceWork,
    context: RewriteContext,
    items: Sequence[Any],
    rewrite: Work,
) -> tuple[WriteStat, ...]:
    """One job with a task for each item; raises what a task raised."""
    if not items:
        return ()
    task = RewriteTask(table.location, context, tuple(items), rewrite)
    with time_limit(spark, work), raised_errors():
        answers = numbered(spark, len(items)).mapInArrow(task, SPARK_STAT_SCHEMA).collect()
    return tuple(WriteStat.from_report(json.loads(row[0])) for row in answers)


def _compact(
    context: RewriteContext, store: ObjectStore, file_slice: FileSlice
) -> Iterable[WriteStat]:
    return (compact_slice(context, store, file_slice),)


def _compact_log(
    context: RewriteContext, store: ObjectStore, file_slice: FileSlice
) -> Iterable[WriteStat]:
    return compact_log(context, store, file_slice)


def _size_bytes(file_slice: FileSlice) -> int:
    return file_slice.size_bytes
