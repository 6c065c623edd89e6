"""Snapshot reads: the table as of its newest commit, or as of an earlier instant.

1. Load the timeline; what is not completed does not exist.
2. Take the newest base file of every file group, as of the instant asked for.
3. An older instant can only be read while the files it consisted of are still there: a reader is
   told so, and is not given the rows that happen to be left.

The meta columns come first, as in Hudi's own reads.
Source: Hudi's BaseFileOnlyRelation, TimelineUtils.validateTimestampAsOf.
"""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from tideline.spark.history import check_files_kept, load_view
from tideline.spark.point_in_time import parse_point_in_time
from tideline.spark.table_scan import TableScan, check_scannable, execute_scan, scan_schema
from tideline.table.hoodie_table import HoodieTable
from tideline.timeline.instant_time import InstantTime


def snapshot(
    spark: SparkSession, table: HoodieTable, as_of: InstantTime | datetime | str | None = None
) -> DataFrame:
    """The table's rows, as of an instant time, a datetime or an ISO timestamp when given.

    The frame keeps to the files of the moment of this call, whatever is committed later. Raises
    ConfigError for an `as_of` that is no time or whose files are gone, UnsupportedTable for a
    merge-on-read table.
    """
    return execute_scan(spark, table, plan_snapshot(table, as_of))


def plan_snapshot(
    table: HoodieTable, as_of: InstantTime | datetime | str | None = None
) -> TableScan:
    """The files and columns of a snapshot. Raises as `snapshot` does."""
    check_scannable(table)
    time = None if as_of is None else parse_point_in_time(as_of, table.config.timeline_timezone)
    timeline, view = load_view(table)
    if time is not None:
        check_files_kept(table, timeline, view, time)
    files = [
        file for partition in view.partitions for file in view.latest_base_files(partition, time)
    ]
    as_it_was = timeline if time is None else timeline.up_to(time)
    return TableScan(timeline, scan_schema(table, as_it_was), tuple(files))
