"""The plan of a snapshot: the table as of its newest commit, or as of an earlier instant.

1. Load the timeline; what is not completed does not exist.
2. Take the newest slice of every file group, as of the instant asked for: its base file, and its
   log where there is one. A read-optimised read takes the newest base file and leaves logs out.
3. What the table was at a time is `time_travel`'s: it can only be read while the files it consisted
   of are still there. Else a reader gets an error, and not the rows that happen to be left.

The meta columns come first, as in Hudi's own reads.
Source: Hudi's HoodieFileIndex, BaseFileOnlyRelation, TimelineUtils.validateTimestampAsOf.
"""

from __future__ import annotations

from tideline.hudi.read.history import load_view
from tideline.hudi.read.point_in_time import Point
from tideline.hudi.read.table_scan import TableScan, scan_schema, split_slices
from tideline.hudi.read.time_travel import TableThen, table_as_of
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable


def plan_snapshot(table: HoodieTable, as_of: Point | None = None) -> TableScan:
    """The files and columns of a snapshot, as of a time when given.

    Raises as `table_as_of`.
    """
    then = TableThen(*load_view(table)) if as_of is None else table_as_of(table, as_of)
    files, slices = split_slices(then.slices())
    schema = scan_schema(table, then.shown())
    is_newest = as_of is None
    return TableScan(
        then.timeline, schema, files, slices=slices, until=then.until, is_snapshot=is_newest
    )


def plan_read_optimized(table: HoodieTable) -> TableScan:
    """The newest base file of every file group that has one, without what its log changed."""
    timeline, view = load_view(table)
    files, slices = split_slices(
        FileSlice(file.group, file.instant, file)
        for partition in view.partitions
        for file in view.latest_base_files(partition)
    )
    return TableScan(timeline, scan_schema(table, timeline), files, slices=slices)
