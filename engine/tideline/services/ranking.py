"""Which of several services runs first: the one that saves most for what it takes. Pure.

The benefit is in bytes that a scan no longer reads (`Benefit.benefit_bytes`), the cost in seconds
of processor cores (`ResourceUsage.core_seconds`). Before a first run the cost is taken from the
bytes and objects it handles, at the pace that this process was measured at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

Work = TypeVar("Work")

BYTES_MOVED_PER_CORE_SECOND = 50_000_000
"""Bytes read and written of a service that moves rows."""
OBJECTS_PER_CORE_SECOND = 500
"""Files that are read, written, listed or deleted."""
CORE_SECONDS_MIN = 0.05
"""What a run takes that has next to nothing to do."""


def default_core_seconds(bytes_moved: int, objects: int) -> float:
    """What handling so many bytes and objects takes, for want of past runs."""
    seconds = bytes_moved / BYTES_MOVED_PER_CORE_SECOND + objects / OBJECTS_PER_CORE_SECOND
    return round(max(seconds, CORE_SECONDS_MIN), 3)


def benefit_per_core_second(benefit_bytes: int, core_seconds: float) -> float:
    """How good an investment a run is, in bytes that a scan no longer reads per core-second."""
    return benefit_bytes / max(core_seconds, CORE_SECONDS_MIN)


def ranked(
    works: Sequence[Work],
    rate: Callable[[Work], float | None],
    follows: Callable[[Work, Work], bool],
) -> tuple[Work, ...]:
    """The works in the order in which to do them.

    1. None goes before one that it follows: `follows(one, other)`.
    2. Of those that may go next, one whose `rate` is unknown goes first, so that it becomes known;
       then the highest rate.
    3. Of equal ones the first as given.
    """
    left = list(works)
    done: list[Work] = []
    while left:
        # Should they all follow each other, the order given decides.
        free = [item for item in left if not _has_to_wait(item, left, follows)] or left
        best = max(free, key=lambda item: _worth(rate(item)))
        left.remove(best)
        done.append(best)
    return tuple(done)


def _has_to_wait(work: Work, left: Sequence[Work], follows: Callable[[Work, Work], bool]) -> bool:
    return any(other is not work and follows(work, other) for other in left)


def _worth(rate: float | None) -> float:
    return math.inf if rate is None else rate
