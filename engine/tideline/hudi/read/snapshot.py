"""The plan of a snapshot: the table as of its newest commit, or as of an earlier instant.

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

from tideline.hudi.read.history import check_files_kept, load_view
from tideline.hudi.read.point_in_time import point_in_time
from tideline.hudi.read.table_scan import TableScan, scan_schema, split_slices
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant_time import InstantTime


def plan_snapshot(
    table: HoodieTable, as_of: InstantTime | datetime | str | None = None
) -> TableScan:
    """The files and columns of a snapshot, as of an instant when given.

    Raises ConfigError for an `as_of` that is no time or whose files are gone.
    """
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
