"""Incremental reads where instants say when they completed: a range of completion times.

1. Commits complete one after another, so that the range needs no end but now: what is pending
   will complete after everything that has.
2. The table as of the end of the range is what commits that completed by then make of it. Of the
   file groups that commits in the range wrote, its slices are read, merged, and rows selected by
   the requested times of these commits, which rows carry.
3. Archived commits may have completed in the range as well; the history says which. Where the last
   archival is older than the beginning, none has, and it is not read.

Source: Hudi's IncrementalQueryAnalyzer, MergeOnReadIncrementalRelationV2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial

from tideline.hudi.read.asked_range import AskedRange
from tideline.hudi.read.history import (
    FilesGone,
    built_on,
    load_view,
    whole_versions,
    written_by,
)
from tideline.hudi.read.table_scan import CommitRange, TableScan, scan_schema, split_slices
from tideline.hudi.table.file_group import FileGroupId, FileSlice
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.timeline_as_of import archived_after
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant
from tideline.hudi.timeline.instant_time import InstantTime


def plan_by_completion(table: HoodieTable, asked: AskedRange) -> TableScan | FilesGone:
    """The files and commits that completed in the range; or that its files have been cleaned."""
    read_commit = cache(table.commits.read)
    meant = cache(partial(asked.meant, table))

    @cache
    def archived(timeline: ActiveTimeline) -> dict[InstantTime, InstantTime]:
        return archived_after(table, timeline, meant(timeline).begin)

    def shown(timeline: ActiveTimeline) -> ActiveTimeline:
        end = meant(timeline).end
        return timeline if end is None else timeline.completed_by(end)

    def partitions(timeline: ActiveTimeline) -> frozenset[str] | None:
        """Those whose files have to be listed, None for all."""
        if archived(timeline):
            return None
        written = written_by(read_commit, _in_range(shown(timeline), meant(timeline).begin))
        return frozenset(group.partition for group in written)

    timeline, view = load_view(table, partitions, shown)
    begin, before = meant(timeline).begin, archived(timeline)
    commits = _in_range(shown(timeline), begin)
    if before and asked.end is not None:
        why = "the range begins before the active timeline, where no end can be given; leave it out"
        return FilesGone(why, begin)
    times = before | {commit.time: commit.completed_at or begin for commit in commits}
    if not times:
        return TableScan(timeline, scan_schema(table, timeline), (), CommitRange(begin, begin))
    newest = max(times.values())
    if before:
        newest_slices = [
            file_slice for name in view.partitions for file_slice in view.latest_slices(name)
        ]
    else:
        written = written_by(read_commit, commits)
        whole = whole_versions(table, timeline, view)
        kept = _kept_slices(view, whole, written)
        gone = kept if isinstance(kept, str) else None
        for instant in _in_range(timeline, newest):
            gone = gone or _gone_below(read_commit(instant), shown(timeline), whole, written)
        if isinstance(kept, str) or gone is not None:
            return FilesGone.of_rows(newest, gone)
        newest_slices = kept
    files, slices = split_slices(newest_slices)
    commit_range = CommitRange(begin, newest, frozenset(times))
    schema = scan_schema(table, shown(timeline))
    return TableScan(shown(timeline), schema, files, commit_range, slices)


def plan_as_of_now(
    table: HoodieTable, begin: InstantTime, end: InstantTime
) -> TableScan | FilesGone:
    """Of the rows as they are now, those that commits after `begin` and up to `end` wrote."""
    scan = plan_by_completion(table, AskedRange(begin, is_exact=True))
    if isinstance(scan, FilesGone) or scan.commits is None or scan.commits.times is None:
        return scan
    later = {instant.time for instant in _in_range(scan.timeline, end)}
    later |= archived_after(table, scan.timeline, end).keys()
    return replace(scan, commits=replace(scan.commits, until=end, times=scan.commits.times - later))


def _in_range(timeline: ActiveTimeline, begin: InstantTime) -> list[Instant]:
    """The commits that completed after `begin`, in that order."""
    completed = {
        instant: instant.completed_at
        for instant in timeline.of(*COMMIT_ACTIONS).completed()
        if instant.completed_at is not None and instant.completed_at > begin
    }
    return sorted(completed, key=lambda instant: (completed[instant], instant))


def _kept_slices(
    view: FileSystemView,
    whole: Mapping[FileGroupId, frozenset[InstantTime]],
    written: Mapping[FileGroupId, str],
) -> list[FileSlice] | str:
    """The slices of the file groups that were written; or a newest file of one that is gone."""
    newest = {
        file_slice.group: file_slice
        for partition in view.partitions
        for file_slice in view.latest_slices(partition)
        if file_slice.group in written
        and file_slice.base_instant in whole.get(file_slice.group, ())
    }
    for group, path in written.items():
        file_slice = newest.get(group)
        if file_slice is None or path not in {file.path for file in file_slice.files}:
            return path
    return list(newest.values())


def _gone_below(
    later: CommitMetadata,
    shown: ActiveTimeline,
    whole: Mapping[FileGroupId, frozenset[InstantTime]],
    written: Mapping[FileGroupId, str],
) -> str | None:
    """The file of a version of the range that is gone and that a commit after the range built on:
    what is left of it may be logs alone."""
    for group, version in built_on(later):
        is_shown = version is not None and shown.is_committed(version)
        if group in written and is_shown and version not in whole.get(group, ()):
            return written[group]
    return None
