"""Snapshot reads: the table as of its newest commit, or as of an earlier instant.

1. Load the timeline; what is not completed does not exist.
2. Take the newest slice of every file group, as of the instant asked for: its base file, and its
   log where there is one. A read-optimised read takes the newest base file and leaves logs out.
3. An older instant can only be read while the files it consisted of are still there: else a reader
   gets an error, and not the rows that happen to be left.

The meta columns come first, as in Hudi's own reads.
Source: Hudi's HoodieFileIndex, BaseFileOnlyRelation, TimelineUtils.validateTimestampAsOf.
"""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession

from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import META_COLUMNS
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.spark.read.history import check_files_kept, load_view
from tideline.spark.read.point_in_time import point_in_time
from tideline.spark.read.table_scan import TableScan, execute_scan, scan_schema, split_slices
from tideline.spark.session.spark_session import spark_session


def snapshot(
    spark: SparkSession, table: HoodieTable, as_of: InstantTime | datetime | str | None = None
) -> DataFrame:
    """The table's rows, as of an instant time, a datetime or an ISO timestamp when given.

    The frame keeps to the files of the moment of this call, regardless of later commits. Raises
    ConfigError for an `as_of` that is no time or whose files are gone.
    """
    return execute_scan(spark, table, plan_snapshot(table, as_of))


def rows_matching(spark: SparkSession | None, table: HoodieTable, where: str | Column) -> DataFrame:
    """The rows for which a condition holds, in SQL or as a column expression, as they were written:
    without the meta columns. No session given, one is opened for the table."""
    spark = spark or spark_session(locations=[table.location])
    return snapshot(spark, table).filter(where).drop(*META_COLUMNS)


def read_optimized(spark: SparkSession, table: HoodieTable) -> DataFrame:
    """The rows of the base files alone.

    Of a merge-on-read table that is what the last compaction of each file group left. A copy on
    write table is its base files.
    """
    return execute_scan(spark, table, plan_read_optimized(table))


def plan_snapshot(
    table: HoodieTable, as_of: InstantTime | datetime | str | None = None
) -> TableScan:
    """The files and columns of a snapshot. Raises as `snapshot` does."""
    time = None if as_of is None else point_in_time(table, as_of)
    timeline, view = load_view(table)
    if time is not None:
        check_files_kept(table, timeline, view, time)
    files, slices = split_slices(
        piece for partition in view.partitions for piece in view.latest_slices(partition, time)
    )
    as_it_was = timeline if time is None else timeline.up_to(time)
    schema = scan_schema(table, as_it_was)
    return TableScan(timeline, schema, files, slices=slices, until=time)


def plan_read_optimized(table: HoodieTable) -> TableScan:
    """The newest base file of every file group that has one, without what its log changed."""
    timeline, view = load_view(table)
    files, slices = split_slices(
        FileSlice(file.group, file.instant, file)
        for partition in view.partitions
        for file in view.latest_base_files(partition)
    )
    return TableScan(timeline, scan_schema(table, timeline), files, slices=slices)
