"""Reads of a table as frames: snapshots, base files alone, what a range of commits wrote.

What they read is planned by `tideline.hudi.read`; nothing is read before Spark runs the query.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession

from tideline.hudi.read.incremental import plan_incremental
from tideline.hudi.read.point_in_time import Point, point_in_time
from tideline.hudi.read.snapshot import plan_read_optimized, plan_snapshot
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import PARTITION_PATH, RECORD_KEY
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.spark.read.data_source import FORMAT, register
from tideline.spark.read.execute_scan import execute_choice, execute_scan
from tideline.spark.read.query import refusals_named
from tideline.spark.read.slice_choice import SliceChoice
from tideline.spark.session.spark_session import spark_session


def snapshot(spark: SparkSession, table: HoodieTable, as_of: Point | None = None) -> DataFrame:
    """The table's rows, as of an instant time, a datetime or an ISO timestamp when given.

    The frame keeps to the files of the moment of this call, regardless of later commits. Raises
    as `table_as_of`.
    """
    return execute_scan(spark, table, plan_snapshot(table, as_of))


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The rows for which a condition holds, and the timeline by which they are read.

    A table with meta columns gives record key and partition path of each as they are stored.
    """

    frame: DataFrame
    timeline: ActiveTimeline
    choice: SliceChoice | None = None

    def groups(self) -> frozenset[FileGroupId] | None:
        """File groups that have all rows which the frame has given so far; None for any."""
        return None if self.choice is None else self.choice.groups_read()


def find_rows(spark: SparkSession | None, table: HoodieTable, where: str | Column) -> FoundRows:
    """The rows for which a condition holds, in SQL or as a column expression. No session given, one
    is opened for the table. Raises ConfigError for a condition that Spark refuses."""
    spark = spark or spark_session(locations=[table.location])
    scan = plan_snapshot(table)
    choice = SliceChoice(table, scan.without_indexes())
    with refusals_named("condition", where):
        rows = execute_choice(spark, choice).filter(where)
    if table.config.populate_meta_fields:
        rows = rows.select(RECORD_KEY, PARTITION_PATH)
    return FoundRows(rows, scan.timeline, choice)


def read_optimized(spark: SparkSession, table: HoodieTable) -> DataFrame:
    """The rows of the base files alone.

    Of a merge-on-read table that is what the last compaction of each file group left. A copy on
    write table is its base files.
    """
    return execute_scan(spark, table, plan_read_optimized(table))


def incremental(
    spark: SparkSession,
    table: HoodieTable,
    after: Point,
    until: Point | None = None,
    *,
    deletes: bool = False,
) -> DataFrame:
    """Rows whose `_hoodie_commit_time` is later than `after` and not later than `until`.

    Without `until`, up to the newest commit that no pending write precedes. In tables of versions 8
    and 9 both are about the times at which commits completed, and without `until` nothing is left
    out. Deleted rows and older versions of a row do not appear; with `deletes` those that are gone
    do, and `_change_type` says so (`net_changes`). Raises ConfigError when the files of that range
    have been cleaned since, UnsupportedTableError for a table without meta columns.
    """
    if not deletes:
        return execute_scan(spark, table, plan_incremental(table, after, until))
    register(spark)
    options = {
        **dict(table.location.options),
        "deletes": "true",
        "after": str(point_in_time(table, after)),
    }
    if until is not None:
        options["until"] = str(point_in_time(table, until))
    return spark.read.format(FORMAT).options(**options).load(table.location.uri)
