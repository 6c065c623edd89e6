"""Incremental reads: the rows that a range of commits wrote, as the last of them left these.

1. The range ends before the oldest pending write: were that to complete later, a consumer that had
   read past it would never see its rows. Pending clustering and compaction write no new rows.
2. The commits in the range say which file groups they wrote; of each its slice as of the end of the
   range is read, merged, and none when it was replaced within the range. Rows are selected by their
   own commit time.
3. Where the range begins before the active timeline the files come from the table as of the end of
   the range, which holds the same rows.

Where instants say when they completed it is otherwise: `incremental_by_completion`.
Source: Hudi's IncrementalRelation, TimelineUtils.handleHollowCommitIfNeeded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.formats.avro import decode_container
from tideline.hudi.read.asked_range import AskedRange
from tideline.hudi.read.history import (
    FilesGone,
    find_files_gone,
    has_archive,
    load_view,
    whole_versions,
    written_by,
)
from tideline.hudi.read.incremental_by_completion import plan_as_of_now, plan_by_completion
from tideline.hudi.read.point_in_time import Point
from tideline.hudi.read.table_scan import (
    CommitRange,
    TableScan,
    scan_schema,
    split_slices,
)
from tideline.hudi.table.file_group import FileGroupId, FileSlice, split_path
from tideline.hudi.table.file_system_view import FileSystemView, parse_data_file
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime


def plan_incremental(table: HoodieTable, after: Point, until: Point | None = None) -> TableScan:
    """The files and commits of an incremental read.

    `commits.until` of the result is where the range really ends, to be `after` the next time.
    Raises ConfigError for files of the range that have been cleaned since.
    """
    return _found(table, _planned(table, AskedRange.of(table, after, until)))


def plan_between(table: HoodieTable, after: InstantTime, until: InstantTime) -> TableScan:
    """The rows of a range that ends where `newest_readable` did or a commit took effect, for a
    stream.

    Where the range begins in the archive, or files of its end have been cleaned, rows are as they
    are now: what later commits wrote over is left out, and comes with these.
    """
    planned = _planned(table, AskedRange(after, until, is_exact=True))
    if isinstance(planned, TableScan):
        return planned
    if table.layout.timeline.has_completion_times:
        return _found(table, plan_as_of_now(table, after, until))
    scan = _found(table, _planned(table, AskedRange(after, is_exact=True)))
    return replace(scan, commits=CommitRange(after, until))


def newest_readable(table: HoodieTable) -> InstantTime | None:
    """Up to where every commit is there: none will appear at or before this time. None without
    commits."""
    timeline = table.timeline()
    if not table.layout.timeline.has_completion_times:
        newest = readable_commits(table, timeline).last()
        return None if newest is None else newest.time
    commits = timeline.of(*COMMIT_ACTIONS).completed()
    return max((commit.completed_at for commit in commits if commit.completed_at), default=None)


def commits_in(
    table: HoodieTable, timeline: ActiveTimeline, begin: InstantTime, end: InstantTime | None
) -> list[Instant]:
    """The commits that took effect after `begin` and up to `end`, in the order in which they did:
    by their times, or where instants say when they completed, by that."""
    if table.layout.timeline.has_completion_times:
        commits = timeline.of(*COMMIT_ACTIONS).completed()
    else:
        commits = readable_commits(table, timeline)
    found = [
        commit
        for commit in commits
        if begin < effective_time(commit) and (end is None or effective_time(commit) <= end)
    ]
    return sorted(found, key=effective_time)


def effective_time(instant: Instant) -> InstantTime:
    """When a completed instant took effect."""
    return instant.completed_at or instant.time


def readable_commits(table: HoodieTable, timeline: ActiveTimeline) -> ActiveTimeline:
    """The completed commits that no pending write precedes."""
    commits = timeline.of(*COMMIT_ACTIONS).completed()
    pending = first_pending_write(table, timeline)
    return commits if pending is None else commits.before(pending.time)


def first_pending_write(table: HoodieTable, timeline: ActiveTimeline) -> Instant | None:
    """The oldest that brings rows, as clustering and compaction do not."""
    pending = timeline.of(*COMMIT_ACTIONS).pending()
    return next((instant for instant in pending if not _is_clustering(table, instant)), None)


def _found(table: HoodieTable, planned: TableScan | FilesGone) -> TableScan:
    if isinstance(planned, FilesGone):
        raise planned.error(table)
    return planned


def _planned(table: HoodieTable, asked: AskedRange) -> TableScan | FilesGone:
    if not table.config.populate_meta_fields:
        raise UnsupportedTableError(
            "a table without meta columns cannot be read incrementally", table=table.uri
        )
    if table.layout.timeline.has_completion_times:
        return plan_by_completion(table, asked)
    begin, end = asked.begin, asked.end
    read_commit = cache(table.commits.read)

    def partitions(timeline: ActiveTimeline) -> frozenset[str] | None:
        """Those whose files have to be listed, None for all."""
        if _begins_before(table, timeline, begin):
            return None
        written = written_by(read_commit, _commits_of_range(table, timeline, begin, end))
        return frozenset(group.partition for group in written)

    timeline, view = load_view(table, partitions)
    commits = _commits_of_range(table, timeline, begin, end)
    newest = commits.last()
    if _ends_before(table, timeline, begin, end) and (newest is None or newest.time != end):
        return FilesGone.archived(end or begin)
    if newest is None:
        return TableScan(timeline, scan_schema(table, timeline), (), CommitRange(begin, begin))
    kept: list[FileSlice] | FilesGone
    if _begins_before(table, timeline, begin):
        kept = find_files_gone(table, timeline, view, newest.time) or [
            file_slice
            for partition in view.partitions
            for file_slice in view.latest_slices(partition, newest.time)
            if file_slice.log_files or file_slice.base_instant > begin
        ]
    else:
        written = written_by(read_commit, commits)
        versions = whole_versions(table, timeline, view)
        kept = _kept_slices(table, view, versions, written, newest.time)
    if isinstance(kept, FilesGone):
        return kept
    files, slices = split_slices(kept)
    schema = scan_schema(table, timeline.up_to(newest.time))
    commit_range = CommitRange(begin, newest.time)
    return TableScan(timeline, schema, files, commit_range, slices, until=newest.time)


def _commits_of_range(
    table: HoodieTable, timeline: ActiveTimeline, begin: InstantTime, end: InstantTime | None
) -> ActiveTimeline:
    commits = readable_commits(table, timeline).after(begin)
    return commits if end is None else commits.up_to(end)


def _begins_before(table: HoodieTable, timeline: ActiveTimeline, begin: InstantTime) -> bool:
    """Whether commits later than `begin` may be archived."""
    return timeline.start is not None and begin < timeline.start and has_archive(table)


def _ends_before(
    table: HoodieTable, timeline: ActiveTimeline, begin: InstantTime, end: InstantTime | None
) -> bool:
    """Whether commits up to the end of the range, its last as well, may be archived."""
    is_older = end is not None and timeline.start is not None and begin < end < timeline.start
    return is_older and _begins_before(table, timeline, begin)


def _is_clustering(table: HoodieTable, instant: Instant) -> bool:
    """Whether a pending replacecommit has a plan, which only clustering has.

    One that cannot be read may be an overwrite, whose rows a consumer must not miss.
    """
    if instant.action is not Action.REPLACECOMMIT:
        return False
    try:
        body = table.timelines.read(instant.in_state(State.REQUESTED))
        return bool(body) and decode_container(body).get("clusteringPlan") is not None
    except (ObjectNotFoundError, CorruptTableError):
        # Not found, it is just being completed or rolled back: the next read sees which.
        return False


def _kept_slices(
    table: HoodieTable,
    view: FileSystemView,
    versions: Mapping[FileGroupId, frozenset[InstantTime]],
    written: Mapping[FileGroupId, str],
    end: InstantTime,
) -> list[FileSlice] | FilesGone:
    """The slices as of `end` of the file groups that were written; `versions` are all there."""
    for group, path in written.items():
        data_file = parse_data_file(*split_path(path), 0)
        version = data_file and table.layout.names.slice_instant(data_file)
        if version is None or version not in versions.get(group, ()):
            return FilesGone.of_rows(end, path)
    return [
        file_slice
        for partition in view.partitions
        for file_slice in view.latest_slices(partition, end)
        if file_slice.group in written
    ]
