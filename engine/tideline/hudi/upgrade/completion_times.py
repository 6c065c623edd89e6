"""When the instants of layout 1, whose names do not say it, completed. Pure.

Their objects say when they were written, but a copied table has objects as old as its copy: all of
its instants would have completed after all of them were requested, and logs would go to the wrong
slices. So an object's time is believed where the requested object of the same instant is as old as
its name says; any other instant completed just after it was requested, which orders instants as
layout 1 does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.zone import TimelineZone

BEGUN_WITHIN_MS = 600_000
"""How much later than its name says a requested object may be."""

Named = tuple[InstantTime, Action]
"""An instant by its time and its action when completed."""


@dataclass(frozen=True, slots=True)
class StateTimes:
    """When the first object of an instant was made, and that which completed it."""

    begun_ms: int | None
    completed_ms: int | None


def completion_times(
    times: Mapping[Named, StateTimes], zone: TimelineZone, taken: Iterable[InstantTime] = ()
) -> dict[Named, InstantTime]:
    """A completion time for each instant, later than its request; no two are the same, and none is
    among those `taken`."""
    used = set(taken)
    found: dict[Named, InstantTime] = {}
    for name in sorted(times):
        at = _completed(name[0], times[name], zone)
        while at in used:
            at = zone.next_time(0, at)
        used.add(at)
        found[name] = at
    return found


def _completed(time: InstantTime, of: StateTimes, zone: TimelineZone) -> InstantTime:
    earliest = zone.next_time(0, time)
    if of.begun_ms is None or of.completed_ms is None:
        return earliest
    late_ms = of.begun_ms - zone.epoch_ms(time)
    if not -1000 <= late_ms <= BEGUN_WITHIN_MS or of.completed_ms < of.begun_ms:
        return earliest
    return max(earliest, zone.instant_at(of.completed_ms))
