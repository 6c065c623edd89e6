"""Waits that double, up to a limit."""

from __future__ import annotations

import math

_DOUBLINGS_MAX = 64


def doubled(first: float, times: int, most: float = math.inf) -> float:
    """A wait that has doubled so many times, up to `most`."""
    return min(most, first * 2.0 ** min(times, _DOUBLINGS_MAX))
