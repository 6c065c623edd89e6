"""Which file groups commits changed, and what these were right before and right after.

1. Commits count in the order in which they took effect: by their times, or where instants say when
   they completed, by that. Compaction, log compaction and clustering change no row.
2. Of each commit the file groups that it wrote to or replaced are looked at, as the timeline showed
   them without it and with it.
3. Both must be there: what a clean has removed is refused, naming the earliest time to begin after.
   So are ranges with archived commits, and those in which the table was restored: a restore takes
   commits away that a consumer may have seen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.hudi.read.asked_range import AskedRange
from tideline.hudi.read.history import built_on, load_view, replaced_by, whole_versions
from tideline.hudi.read.incremental import commits_in, effective_time
from tideline.hudi.read.taken_back import taken_back
from tideline.hudi.table.file_group import FileGroupId, FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.timeline_as_of import archived_after
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime

T = TypeVar("T")

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


def plan_changes(
    table: HoodieTable, asked: AskedRange, only: Collection[str] | None = None
) -> ChangePlan:
    """The commits of a range, each with what it changed, in all partitions or these.

    Raises ConfigError naming the earliest beginning when what commits built on is gone, and
    UnsupportedTableError for tables without meta columns and ranges with a restore.
    """
    if not table.config.populate_meta_fields:
        raise UnsupportedTableError(
            "changes of a table without meta columns cannot be found: read its rows",
            table=table.uri,
        )

    @cache
    def read_commit(instant: Instant) -> CommitMetadata:
        metadata = table.commits.read(instant)
        return metadata if only is None else _narrowed(metadata, only)

    @cache
    def commits_of(timeline: ActiveTimeline) -> list[Instant]:
        meant = asked.meant(table, timeline)
        return commits_in(table, timeline, meant.begin, meant.end)

    def partitions(timeline: ActiveTimeline) -> frozenset[str]:
        commits = commits_of(timeline)
        return frozenset(
            group.partition for instant in commits for group in _changed(read_commit(instant))
        )

    timeline, whole = load_view(table, partitions)
    meant, commits = asked.meant(table, timeline), commits_of(timeline)
    begin = meant.begin
    _refuse_archived(table, timeline, begin)
    _refuse_restored(table, timeline, begin, meant.end)
    if not commits:
        return ChangePlan(begin, begin, timeline, ())
    listing = table.files.listing(partitions(timeline))
    planned = [
        _step(table, timeline, listing, read_commit(instant), instant) for instant in commits
    ]
    versions = whole_versions(table, timeline, whole)
    for step in reversed(planned):
        gone = _gone(step, read_commit(step.instant), versions)
        if gone is not None:
            raise ConfigError(
                f"changes up to {step.instant.time} can no longer be found: {gone} has been "
                f"cleaned; the earliest time to begin after is {effective_time(step.instant)}",
                table=table.uri,
                instant=begin,
            )
    return ChangePlan(begin, effective_time(commits[-1]), timeline, tuple(planned))


def changes_rows(metadata: CommitMetadata) -> bool:
    """Whether a commit is none of those that leave every row as it is."""
    return not metadata.compacted and metadata.operation_type not in _WITHOUT_CHANGES


def _narrowed(metadata: CommitMetadata, only: Collection[str]) -> CommitMetadata:
    """What a commit did in some partitions."""
    replaced = metadata.partition_to_replace_file_ids
    return replace(
        metadata,
        partition_to_write_stats=_of(metadata.partition_to_write_stats, only),
        partition_to_replace_file_ids=None if replaced is None else _of(replaced, only),
    )


def _of(by_partition: Mapping[str, T], only: Collection[str]) -> dict[str, T]:
    return {name: found for name, found in by_partition.items() if name in only}


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
        effective_time(candidate)
        for candidate in timeline.of(*COMMIT_ACTIONS).completed()
        if effective_time(candidate) < effective_time(instant)
    ]
    after = _shown(timeline, effective_time(instant), has_completions=has_completions)
    before = (
        _shown(timeline, max(earlier), has_completions=has_completions)
        if earlier
        else timeline.of()
    )
    touched = {
        partition: listing[partition]
        for partition in {file_group_id.partition for file_group_id in changed}
    }

    def slices(shown: ActiveTimeline) -> Slices:
        view = table.files.view_of(touched, shown)
        return {
            file_slice.group: file_slice
            for partition in view.partitions
            for file_slice in view.latest_slices(partition)
            if file_slice.group in changed
        }

    return CommitStep(instant, slices(before), slices(after), before, after)


def _changed(metadata: CommitMetadata) -> list[FileGroupId]:
    """The file groups whose rows a commit may have changed."""
    if not changes_rows(metadata):
        return []
    return [*(group for group, _ in built_on(metadata)), *replaced_by(metadata)]


def _gone(step: CommitStep, metadata: CommitMetadata, versions: Versions) -> str | None:
    """What a step needs and is not there: a path or a file group."""
    if not _changed(metadata):
        return None
    for group, version in built_on(metadata):
        file_slice = step.before.get(group)
        if version is not None and not _is_whole(file_slice, versions):
            return str(group)
    for group in replaced_by(metadata):
        if not _is_whole(step.before.get(group), versions):
            return str(group)
    replaced = set(replaced_by(metadata))
    for stats in metadata.partition_to_write_stats.values():
        for stat in stats:
            group = FileGroupId(stat.partition_path or "", stat.file_id or "")
            file_slice = step.after.get(group)
            if group not in replaced and stat.path and not _holds(file_slice, stat.path, versions):
                return stat.path
    return None


def _is_whole(file_slice: FileSlice | None, versions: Versions) -> bool:
    return file_slice is not None and file_slice.base_instant in versions.get(file_slice.group, ())


def _holds(file_slice: FileSlice | None, path: str, versions: Versions) -> bool:
    return (
        file_slice is not None
        and _is_whole(file_slice, versions)
        and path in {file.path for file in file_slice.files}
    )


def _refuse_archived(table: HoodieTable, timeline: ActiveTimeline, begin: InstantTime) -> None:
    """Where commits after the beginning may have been archived."""
    if table.layout.timeline.has_completion_times:
        earliest = max(archived_after(table, timeline, begin).values(), default=begin)
    elif timeline.has_archive:
        earliest = timeline.start or begin
    else:
        earliest = begin
    if begin < earliest:
        raise ConfigError(
            "the range begins before the active timeline; the earliest time to begin after is "
            f"{earliest}",
            table=table.uri,
            instant=begin,
        )


def _refuse_restored(
    table: HoodieTable, timeline: ActiveTimeline, begin: InstantTime, end: InstantTime | None
) -> None:
    for restore in timeline.of(Action.RESTORE).completed():
        done = effective_time(restore)
        if begin < done and (end is None or done <= end):
            raise UnsupportedTableError(
                f"the table was restored at {restore.time}, which takes commits away: read it as "
                "a whole, and continue after that",
                table=table.uri,
                instant=restore.time,
            )
    lost = None if end is None else taken_back(table, timeline, end)
    if lost is not None:
        raise UnsupportedTableError(
            f"the table was restored at {lost.restore.time}, which took back what it was at the "
            "end of this range: read it as a whole, and continue after that",
            table=table.uri,
            instant=lost.restore.time,
            value=end,
        )
