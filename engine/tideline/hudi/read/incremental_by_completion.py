"""Incremental reads where instants say when they completed: a range of completion times.

1. Commits complete one after the other, so that the range needs no end but now: what is pending
   will complete after everything that has. A time at which a commit was requested, as reports and
   rows have it, stands for the time at which that commit completed.
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
from functools import cache

from tideline.errors import ConfigError
from tideline.hudi.read.history import built_on, load_view, whole_versions, written_by
from tideline.hudi.read.point_in_time import BEGINNING
from tideline.hudi.read.table_scan import CommitRange, TableScan, scan_schema, split_slices
from tideline.hudi.table.file_group import FileGroupId, FileSlice
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import LISTING_MARGIN_MS, ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.lsm_history import LsmHistory


def plan_by_completion(
    table: HoodieTable, begin: InstantTime, end: InstantTime | None
) -> TableScan:
    """The files and commits that completed after `begin`, and not after `end` where it is given;
    either may be when a commit was requested and is then when it completed.

    Raises ConfigError when files of the range have been cleaned since.
    """
    read_commit = cache(table.read_commit)

    def shown(timeline: ActiveTimeline) -> ActiveTimeline:
        return timeline if end is None else timeline.completed_by(_completion(table, timeline, end))

    def partitions(timeline: ActiveTimeline) -> frozenset[str] | None:
        """Those whose files have to be listed, None for all."""
        after = _completion(table, timeline, begin)
        if _archived_after(table, timeline, after):
            return None
        written = written_by(read_commit, _in_range(shown(timeline), after))
        return frozenset(group.partition for group in written)

    timeline, view = load_view(table, partitions, shown)
    begin = _completion(table, timeline, begin)
    commits = _in_range(shown(timeline), begin)
    archived = _archived_after(table, timeline, begin)
    if archived and end is not None:
        raise ConfigError(
            "the range begins before the active timeline, where no end can be given; leave it out",
            table=table.uri,
            instant=begin,
        )
    if not commits:
        return TableScan(timeline, scan_schema(table, timeline), (), CommitRange(begin, begin))
    newest = commits[-1].completed_at or begin
    if archived:
        pieces = [piece for name in view.partitions for piece in view.latest_slices(name)]
    else:
        written = written_by(read_commit, commits)
        whole = whole_versions(table, timeline, view)
        for instant in _in_range(timeline, newest):
            _refuse_gone(table, read_commit(instant), shown(timeline), whole, written)
        pieces = _kept_slices(table, view, whole, written, newest)
    files, slices = split_slices(pieces)
    commit_range = CommitRange(begin, newest, archived | {one.time for one in commits})
    schema = scan_schema(table, shown(timeline))
    return TableScan(shown(timeline), schema, files, commit_range, slices)


def plan_by_completion_so_far(
    table: HoodieTable, begin: InstantTime, end: InstantTime
) -> TableScan:
    """The same; where the range begins in the archive, of the rows as they are now, those that
    commits up to `end` wrote."""
    timeline = table.timeline()
    if not _archived_after(table, timeline, _completion(table, timeline, begin)):
        return plan_by_completion(table, begin, end)
    scan = plan_by_completion(table, begin, None)
    if scan.commits is None or scan.commits.times is None:
        return scan
    later = _archived_after(table, scan.timeline, end)
    later |= {one.time for one in _in_range(scan.timeline, end)}
    return replace(scan, commits=replace(scan.commits, until=end, times=scan.commits.times - later))


def _completion(table: HoodieTable, timeline: ActiveTimeline, time: InstantTime) -> InstantTime:
    """When the commit that was requested at `time` completed, `time` itself where there is none."""
    commits = timeline.of(*COMMIT_ACTIONS).completed()
    completed = next((one.completed_at for one in commits if one.time == time), None)
    if completed is None and timeline.has_archive and time != BEGINNING:
        completed = table.archived_completion(time)
    return completed or time


def _archived_after(
    table: HoodieTable, timeline: ActiveTimeline, begin: InstantTime
) -> frozenset[InstantTime]:
    """The archived commits that completed after `begin`."""
    history = table.archived()
    assert isinstance(history, LsmHistory), "layouts with completion times have such an archive"
    written_ms = history.written_ms()
    if written_ms is None or not timeline.has_archive:
        return frozenset()
    if written_ms + LISTING_MARGIN_MS < table.known_zone(timeline).reading_zone.epoch_ms(begin):
        return frozenset()
    return history.commits_completed_after(begin)


def _in_range(timeline: ActiveTimeline, begin: InstantTime) -> list[Instant]:
    """The commits that completed after `begin`, in that order."""
    completed = {
        one: one.completed_at
        for one in timeline.of(*COMMIT_ACTIONS).completed()
        if one.completed_at is not None and one.completed_at > begin
    }
    return sorted(completed, key=lambda one: (completed[one], one))


def _kept_slices(
    table: HoodieTable,
    view: FileSystemView,
    whole: Mapping[FileGroupId, frozenset[InstantTime]],
    written: Mapping[FileGroupId, str],
    end: InstantTime,
) -> list[FileSlice]:
    """The slices of the file groups that were written; their newest files must be there."""
    pieces = {
        piece.group: piece
        for partition in view.partitions
        for piece in view.latest_slices(partition)
        if piece.group in written and piece.base_instant in whole.get(piece.group, ())
    }
    for group, path in written.items():
        piece = pieces.get(group)
        if piece is None or path not in {file.path for file in piece.files}:
            raise _gone(table, end, path)
    return list(pieces.values())


def _refuse_gone(
    table: HoodieTable,
    later: CommitMetadata,
    shown: ActiveTimeline,
    whole: Mapping[FileGroupId, frozenset[InstantTime]],
    written: Mapping[FileGroupId, str],
) -> None:
    """Raise where a commit after the range built on a version of the range that is gone: what is
    left of it may be logs alone."""
    for group, version in built_on(later):
        is_shown = version is not None and shown.is_committed(version)
        if group in written and is_shown and version not in whole.get(group, ()):
            raise _gone(table, shown.newest_time() or version, written[group])


def _gone(table: HoodieTable, end: InstantTime | None, path: str) -> ConfigError:
    return ConfigError(
        f"rows up to {end} can no longer be read: their files have been cleaned; read up to a "
        "later time",
        table=table.uri,
        instant=end,
        path=path,
    )
