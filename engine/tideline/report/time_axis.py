"""The axis of times of a chart: date, hour and zone can be read from it at any span. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

_SPAN_MS_MIN = 10_000
_MINUTE_MS, _HOUR_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000
_TICKS = 6
_FORMATS = (
    (6 * _MINUTE_MS, "%H:%M:%S"),
    (2 * _DAY_MS, "%H:%M"),
    (12 * _DAY_MS, "%b %-d, %H:%M"),
    (300 * _DAY_MS, "%b %-d"),
    (4 * 365 * _DAY_MS, "%b %Y"),
)
"""How ticks are written at spans up to so many milliseconds."""
_FORMAT_BEYOND = "%Y"


def time_axis(times_ms: Sequence[int]) -> dict[str, Any]:
    """The channel `x` of a Vega-Lite chart whose field `t` has `times_ms`, in UTC.

    Ticks that show hours alone have the dates in the axis's title.
    """
    # A narrower axis would have ticks at fractions of a second.
    missing_ms = max(0, _SPAN_MS_MIN - (max(times_ms) - min(times_ms)))
    first_ms = (min(times_ms) - missing_ms // 2) // 1_000 * 1_000
    last_ms = -(-(max(times_ms) + missing_ms // 2) // 1_000) * 1_000
    span_ms = last_ms - first_ms
    axis = {
        "format": next(
            (pattern for limit, pattern in _FORMATS if span_ms <= limit), _FORMAT_BEYOND
        ),
        "tickCount": _TICKS,
        "labelOverlap": True,
        "title": _title(first_ms, last_ms),
        "titleFontWeight": "normal",
    }
    return {
        "field": "t",
        "type": "temporal",
        "scale": {"type": "utc", "domain": [_date_time(first_ms), _date_time(last_ms)]},
        "axis": axis,
    }


def at_utc(at_ms: int) -> str:
    """A moment for people: `2026-01-31 08:00 UTC`."""
    return f"{_moment(at_ms):%Y-%m-%d %H:%M} UTC"


def _title(first_ms: int, last_ms: int) -> str:
    first, last = (f"{_moment(at_ms):%Y-%m-%d}" for at_ms in (first_ms, last_ms))
    return f"{first}, UTC" if first == last else f"{first} to {last}, UTC"


def _date_time(at_ms: int) -> dict[str, Any]:
    """A moment as Vega-Lite's DateTime."""
    at = _moment(at_ms)
    names = {"year": at.year, "month": at.month, "date": at.day, "hours": at.hour}
    return {**names, "minutes": at.minute, "seconds": at.second, "utc": True}


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
