"""When the instants of layout 1, whose names do not say it, completed. Pure.

Layout 1 orders commits by when they were requested, and slices of its logs by the instants in their
names. So each counts as completed just after it was requested: before anything that came later, so
that its logs stay in their slices. The times of its objects would say more, where they are its own:
after a copy they are those of the copy, by a store with another clock they are off, and a log would
then be merged into a later slice.
"""

from __future__ import annotations

from collections.abc import Iterable

from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import SECONDS_DIGITS, InstantTime
from tideline.hudi.timeline.zone import TimelineZone

Named = tuple[InstantTime, Action]
"""An instant by its time and its action when completed."""

_JUST_AFTER = "001"


def completion_times(names: Iterable[Named], zone: TimelineZone) -> dict[Named, InstantTime]:
    """A completion time for each instant, later than its request; no two are the same."""
    used: set[InstantTime] = set()
    found: dict[Named, InstantTime] = {}
    for name in sorted(names):
        at = just_after(name[0], zone)
        while at in used:
            at = zone.next_time(0, at)
        used.add(at)
        found[name] = at
    return found


def just_after(time: InstantTime, zone: TimelineZone) -> InstantTime:
    """The next time after this one, and before the next second where it has seconds alone."""
    if len(time.value) == SECONDS_DIGITS:
        return InstantTime(f"{time}{_JUST_AFTER}")
    return zone.next_time(0, time)
