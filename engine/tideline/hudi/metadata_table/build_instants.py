"""Instants at which partitions are made: of zeros and a number, before all of the table's own."""

from __future__ import annotations

from collections.abc import Iterable

from tideline.hudi.timeline.instant_time import MILLIS_DIGITS, InstantTime

LAST_BUILD = InstantTime("0" * 14 + "999")
"""Partitions are built at instants of zeros and a number up to this."""


def may_be_build(time: InstantTime) -> bool:
    """Whether a partition may be built at this instant: one of zeros, or a suffixed one, which
    Hudi takes in version 6."""
    return time <= LAST_BUILD or len(str(time)) > MILLIS_DIGITS


def free_build(taken: Iterable[InstantTime], first: InstantTime) -> InstantTime | None:
    """An instant above all that are taken, so that no file has the name of one before; where there
    is none, one that is free."""
    known = {*taken}
    numbers = [int(str(t)) for t in known if t <= LAST_BUILD and len(str(t)) == MILLIS_DIGITS]
    least, last = int(str(first)), int(str(LAST_BUILD))
    next_one = max([*numbers, least - 1]) + 1
    free = (InstantTime(f"{number:017}") for number in (next_one, *range(least, last + 1)))
    return next((time for time in free if time <= LAST_BUILD and time not in known), None)
