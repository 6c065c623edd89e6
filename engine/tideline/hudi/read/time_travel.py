"""The files of the table as it was at a time: what a time means is said in `asked_range`.

Where instants say when they completed, the table as of a time is what had completed by then. Else
commits count by their instants. Either reads the same for ever, or is refused:

1. Before the first commit there was no table, and what the future brings is not known.
2. What has not completed yet may still complete at this time: in layouts without completion times
   whatever was requested by then, in others what completes in these seconds.
3. A restore takes back what the table was between the first commit that it undoes and itself.
4. Files may have been cleaned, and commits archived that say so. A savepoint keeps its files.

Source: Hudi's TimelineUtils.validateTimestampAsOf.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from tideline.errors import ConfigError, ConflictError
from tideline.hudi.read.asked_range import time_meant
from tideline.hudi.read.history import (
    FilesGone,
    find_files_gone,
    find_files_gone_by_completion,
    has_archive,
    load_view,
)
from tideline.hudi.read.incremental import effective_time, first_pending_write
from tideline.hudi.read.point_in_time import Point, point_in_time
from tideline.hudi.read.taken_back import taken_back
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.timeline_as_of import archived_after, timeline_as_of
from tideline.hudi.timeline.active import LISTING_MARGIN_MS, ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.timeline.instant_time import InstantTime

_UNKNOWN_ZONE_MS = 14 * 3_600_000
"""So far ahead of UTC the digits of a table may be."""


@dataclass(frozen=True, slots=True)
class TableThen:
    """The table as it was: `timeline` shows what counts, but for instants later than `until`. As it
    is, without that."""

    timeline: ActiveTimeline
    view: FileSystemView
    until: InstantTime | None = None

    def slices(self) -> Iterable[FileSlice]:
        """The slices of all file groups there were."""
        return (
            file_slice
            for partition in self.view.partitions
            for file_slice in self.view.latest_slices(partition, self.until)
        )

    def shown(self) -> ActiveTimeline:
        """What had happened by then."""
        return self.timeline if self.until is None else self.timeline.up_to(self.until)


def table_as_of(table: HoodieTable, as_of: Point) -> TableThen:
    """The table as of a time.

    Raises ConfigError for what is no time, has no table, is still to come or is gone, and
    ConflictError while a write may still complete at it.
    """
    asked = point_in_time(table, as_of)
    by_completion = table.layout.timeline.has_completion_times

    @cache
    def meant(timeline: ActiveTimeline) -> InstantTime:
        return time_meant(table, timeline, asked)

    @cache
    def shown(timeline: ActiveTimeline) -> ActiveTimeline:
        if not by_completion:
            return timeline
        return timeline_as_of(table, timeline, meant(timeline))

    timeline, view = load_view(table, shown=shown)
    time = meant(timeline)
    gone = _gone(table, timeline, shown(timeline), view, time)
    _refuse_before_first(table, timeline, time)
    _refuse_future(table, timeline, time)
    _refuse_restored(table, timeline, time)
    if gone is not None:
        named = _earliest_readable(table, timeline, time)
        there = "" if named is None else f"; the earliest time to read as of is {named}"
        raise replace(gone, why=f"{gone.why}{there}").error(table)
    _refuse_unfinished(table, timeline, time)
    return TableThen(shown(timeline), view, None if by_completion else time)


def _gone(
    table: HoodieTable,
    timeline: ActiveTimeline,
    shown: ActiveTimeline,
    view: FileSystemView,
    time: InstantTime,
) -> FilesGone | None:
    """What of the table as of a time is gone; `view` is of what is `shown` of the timeline."""
    if table.layout.timeline.has_completion_times:
        return find_files_gone_by_completion(table, timeline, shown, view, time)
    return find_files_gone(table, timeline, view, time)


def _earliest_readable(
    table: HoodieTable, timeline: ActiveTimeline, after: InstantTime
) -> InstantTime | None:
    """The first commit after a time from which on all can be read. What a savepoint keeps may be
    read before it."""
    listing = table.files.listing()
    saved = timeline.savepointed_times()
    commits = sorted(timeline.of(*COMMIT_ACTIONS).completed(), key=effective_time)
    counted = [commit for commit in commits[:-1] if commit.time not in saved] + commits[-1:]
    later = {effective_time(instant) for instant in counted if effective_time(instant) > after}
    if table.layout.timeline.has_completion_times:
        # A commit that was requested before all active ones may have completed after them.
        later |= set(archived_after(table, timeline, after).values())
    times = sorted(later)

    def is_readable(time: InstantTime) -> bool:
        shown = timeline
        if table.layout.timeline.has_completion_times:
            shown = timeline_as_of(table, timeline, time)
        return _gone(table, timeline, shown, table.files.view_of(listing, shown), time) is None

    at = bisect_left(times, True, key=is_readable)
    return times[at] if at < len(times) else None


def _refuse_before_first(table: HoodieTable, timeline: ActiveTimeline, time: InstantTime) -> None:
    """Where nothing is archived; else what is gone says from when on there is something."""
    commits = timeline.of(*COMMIT_ACTIONS).completed()
    first = min(map(effective_time, commits), default=None)
    if (first is not None and first <= time) or has_archive(table):
        return
    message = "the table has no commit yet"
    if first is not None:
        message = f"the table did not exist yet: its first commit is {first}"
    raise ConfigError(message, table=table.uri, value=time)


def _refuse_future(table: HoodieTable, timeline: ActiveTimeline, time: InstantTime) -> None:
    newest, now = timeline.newest_time(), _now(table, timeline)
    if time > now and (newest is None or time > newest):
        message = f"this time is in the future: now it is {now}; leave it out to read what is there"
        raise ConfigError(message, table=table.uri, value=time)


def _now(table: HoodieTable, timeline: ActiveTimeline) -> InstantTime:
    """The present in the table's digits; the latest it can be where their zone is not certain."""
    known = table.instants.known_zone(timeline)
    ahead_ms = 0 if known.knows_age else _UNKNOWN_ZONE_MS
    return known.reading_zone.instant_at(table.clock.now_ms() + ahead_ms)


def _refuse_restored(table: HoodieTable, timeline: ActiveTimeline, time: InstantTime) -> None:
    lost = taken_back(table, timeline, time)
    if lost is not None:
        there = "" if lost.kept is None else f"{lost.kept} or earlier, or "
        raise ConfigError(
            f"the table was restored at {lost.restore.time}, which took back what it was then; "
            f"read as of {there}{lost.done} or later",
            table=table.uri,
            instant=lost.restore.time,
            value=time,
        )


def _refuse_unfinished(table: HoodieTable, timeline: ActiveTimeline, time: InstantTime) -> None:
    if table.layout.timeline.has_completion_times:
        newest = max(map(effective_time, timeline.completed()), default=time)
        pending = timeline.writes().pending().first() if newest < time else None
        settled = table.clock.now_ms() - LISTING_MARGIN_MS
        if (
            pending is None
            or table.instants.known_zone(timeline).reading_zone.epoch_ms(time) < settled
        ):
            return
    else:
        pending = first_pending_write(table, timeline)
        if pending is None or time < pending.time:
            return
    raise ConflictError(
        f"the write that began at {pending.time} has not completed, and may change what the table "
        "was at this time; try again later, or read as of an earlier time",
        table=table.uri,
        instant=pending.time,
        value=time,
    )
