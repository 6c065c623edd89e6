"""Which file groups commits changed, and what these were right before and right after.

1. Commits count in the order in which they took effect: by their times, or where instants say when
   they completed, by that. Compaction, log compaction and clustering change no row.
2. Of each commit the file groups that it wrote to or replaced are looked at, as the timeline showed
   them without it and with it.
3. Both must be there: what a clean has removed is refused, naming the earliest time to begin after.
   So are ranges that begin in the archive, and those in which the table was restored: a restore
   takes commits away that a consumer may have seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.hudi.read.history import built_on, load_view, replaced_by, whole_versions
from tideline.hudi.read.incremental import readable_commits
from tideline.hudi.read.point_in_time import Point, point_in_time
from tideline.hudi.table.file_group import FileGroupId, FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime

_WITHOUT_CHANGES = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})

Slices = Mapping[FileGroupId, FileSlice]
Versions = Mapping[FileGroupId, frozenset[InstantTime]]


@dataclass(frozen=True, slots=True)
class CommitStep:
    """One commit: slices of the file groups it changed, as two timelines show them."""

    instant: Instant
    before: Slices
    after: Slices
    timeline_before: ActiveTimeline
    timeline_after: ActiveTimeline


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """The commits of a range. `until` is where it really ends, to begin after the next time;
    `timeline` is the table's at that moment."""

    after: InstantTime
    until: InstantTime
    timeline: ActiveTimeline
    steps: tuple[CommitStep, ...]


def plan_changes(table: HoodieTable, after: Point, until: Point | None = None) -> ChangePlan:
    """The commits in (after, until], each with what it changed.

    Raises ConfigError naming the earliest beginning when what commits built on is gone, and
    UnsupportedTableError for tables without meta columns and ranges with a restore.
    """
    if not table.config.populate_meta_fields:
        raise UnsupportedTableError(
            "changes of a table without meta columns cannot be found", table=table.uri
        )
    read_commit = cache(table.read_commit)
    begin = point_in_time(table, after)
    end = None if until is None else point_in_time(table, until)

    def partitions(timeline: ActiveTimeline) -> frozenset[str]:
        commits = _commits(table, timeline, begin, end)
        return frozenset(
            group.partition for instant in commits for group in _changed(read_commit(instant))
        )

    timeline, whole = load_view(table, partitions)
    commits = _commits(table, timeline, begin, end)
    _refuse_archived(table, timeline, begin)
    _refuse_restored(table, timeline, begin, end)
    if not commits:
        return ChangePlan(begin, begin, timeline, ())
    listing = table.list_files(partitions(timeline))
    planned = [
        _step(table, timeline, listing, read_commit(instant), instant) for instant in commits
    ]
    versions = whole_versions(table, timeline, whole)
    for step in reversed(planned):
        gone = _gone(step, read_commit(step.instant), versions)
        if gone is not None:
            raise ConfigError(
                f"changes up to {step.instant.time} can no longer be found: {gone} has been "
                f"cleaned; the earliest time to begin after is {_time(step.instant)}",
                table=table.uri,
                instant=begin,
            )
    return ChangePlan(begin, _time(commits[-1]), timeline, tuple(planned))


def _commits(
    table: HoodieTable, timeline: ActiveTimeline, begin: InstantTime, end: InstantTime | None
) -> list[Instant]:
    """Those of the range in the order in which they took effect."""
    if table.layout.timeline.has_completion_times:
        commits = timeline.of(*COMMIT_ACTIONS).completed()
        begin = _completion(commits, begin)
        end = None if end is None else _completion(commits, end)
    else:
        commits = readable_commits(table, timeline)
    found = [one for one in commits if begin < _time(one) and (end is None or _time(one) <= end)]
    return sorted(found, key=_time)


def _completion(commits: ActiveTimeline, time: InstantTime) -> InstantTime:
    """A time at which a commit was requested stands for the time at which it completed."""
    return next((_time(one) for one in commits if one.time == time), time)


def _time(instant: Instant) -> InstantTime:
    """When a commit took effect."""
    return instant.completed_at or instant.time


def _shown(timeline: ActiveTimeline, time: InstantTime, *, has_completions: bool) -> ActiveTimeline:
    """What had happened by then."""
    return timeline.completed_by(time) if has_completions else timeline.up_to(time)


def _step(
    table: HoodieTable,
    timeline: ActiveTimeline,
    listing: Mapping[str, tuple[tuple[str, int], ...]],
    metadata: CommitMetadata,
    instant: Instant,
) -> CommitStep:
    changed = frozenset(_changed(metadata))
    has_completions = table.layout.timeline.has_completion_times
    earlier = [
        _time(one)
        for one in timeline.of(*COMMIT_ACTIONS).completed()
        if _time(one) < _time(instant)
    ]
    after = _shown(timeline, _time(instant), has_completions=has_completions)
    before = (
        _shown(timeline, max(earlier), has_completions=has_completions)
        if earlier
        else timeline.before(timeline.start or instant.time)
    )
    touched = {partition: listing[partition] for partition in {one.partition for one in changed}}

    def slices(shown: ActiveTimeline) -> Slices:
        view = table.view_of(touched, shown)
        return {
            piece.group: piece
            for partition in view.partitions
            for piece in view.latest_slices(partition)
            if piece.group in changed
        }

    return CommitStep(instant, slices(before), slices(after), before, after)


def _changed(metadata: CommitMetadata) -> list[FileGroupId]:
    """The file groups whose rows a commit may have changed."""
    if metadata.operation_type in _WITHOUT_CHANGES or metadata.compacted:
        return []
    return [*(group for group, _ in built_on(metadata)), *replaced_by(metadata)]


def _gone(step: CommitStep, metadata: CommitMetadata, versions: Versions) -> str | None:
    """What a step needs and is not there: a path or a file group."""
    if not _changed(metadata):
        return None
    for group, version in built_on(metadata):
        piece = step.before.get(group)
        if version is not None and not _is_whole(piece, versions):
            return str(group)
    for group in replaced_by(metadata):
        if not _is_whole(step.before.get(group), versions):
            return str(group)
    replaced = set(replaced_by(metadata))
    for stats in metadata.partition_to_write_stats.values():
        for stat in stats:
            group = FileGroupId(stat.partition_path or "", stat.file_id or "")
            piece = step.after.get(group)
            if group not in replaced and stat.path and not _holds(piece, stat.path, versions):
                return stat.path
    return None


def _is_whole(piece: FileSlice | None, versions: Versions) -> bool:
    return piece is not None and piece.base_instant in versions.get(piece.group, ())


def _holds(piece: FileSlice | None, path: str, versions: Versions) -> bool:
    return (
        piece is not None
        and _is_whole(piece, versions)
        and path in {file.path for file in piece.files}
    )


def _refuse_archived(table: HoodieTable, timeline: ActiveTimeline, begin: InstantTime) -> None:
    """Where commits after the beginning may have been archived."""
    if timeline.start is None or begin >= timeline.start or not timeline.has_archive:
        return
    raise ConfigError(
        "the range begins before the active timeline; the earliest time to begin after is "
        f"{timeline.start}",
        table=table.uri,
        instant=begin,
    )


def _refuse_restored(
    table: HoodieTable, timeline: ActiveTimeline, begin: InstantTime, end: InstantTime | None
) -> None:
    for restore in timeline.of(Action.RESTORE).completed().after(begin):
        if end is None or restore.time <= end:
            raise UnsupportedTableError(
                f"the table was restored at {restore.time}, which takes commits away: read it as "
                "a whole, and go on after that",
                table=table.uri,
                instant=restore.time,
            )
