"""How far local time in a zone is from UTC, for many times at once.

A zone's offset changes no two times within a week, so that a day has one change at most: each day
that occurs is asked for at its two ends, and searched where they differ. The rules are those of the
package `tzdata`, which has the history of zones as Java has it; the machine's own may have another.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

import numpy as np

from tideline.hudi.keys.time_format import DAY, Millis

_EPOCH = datetime(1970, 1, 1)
_SECONDS_PER_DAY = 86_400
_FIXED = re.compile(r"GMT([+-])(\d{1,2})(?::?([0-5]\d))?")
_REGION = re.compile(r"[A-Za-z_]+(/[A-Za-z0-9_+-]+)+")
_HOURS_MAX = 18
_DAYS_MIN, _DAYS_MAX = -719_160, 2_932_895
"""From January 3 of the year 1 to December 30 of 9999; the days beyond are as the nearest."""


@dataclass(frozen=True, slots=True)
class ZoneOffsets:
    """The offsets of one zone."""

    zone: tzinfo

    @staticmethod
    def of(name: str) -> ZoneOffsets | None:
        """The zone of this name; None for one that Java, Spark and Hudi may understand each in its
        own way, and for one that there is not."""
        zone = _zone(name)
        return None if zone is None else ZoneOffsets(zone)

    def of_moments(self, millis: Millis) -> Millis:
        """The offset at every moment."""
        zone = self.zone

        def at(second: int) -> int:
            moment = (_EPOCH + timedelta(seconds=second)).replace(tzinfo=UTC)
            return _seconds(moment.astimezone(zone))

        return _offsets(millis, at)

    def of_local_times(self, millis: Millis) -> Millis:
        """The offset of every local time: the one before a change for times that there are twice,
        and for those that there are not."""
        zone = self.zone

        def at(second: int) -> int:
            return _seconds((_EPOCH + timedelta(seconds=second)).replace(tzinfo=zone))

        return _offsets(millis, at)


@cache
def _zone(name: str) -> tzinfo | None:
    if name in ("UTC", "GMT"):
        return UTC
    fixed = _FIXED.fullmatch(name)
    if fixed is not None:
        length = timedelta(hours=int(fixed[2]), minutes=int(fixed[3] or 0))
        is_offset = length <= timedelta(hours=_HOURS_MAX)
        return timezone(-length if fixed[1] == "-" else length) if is_offset else None
    if _REGION.fullmatch(name) is None:
        return None
    rules = files("tzdata").joinpath("zoneinfo", *name.split("/"))
    if not rules.is_file():
        return None
    with rules.open("rb") as stream:
        return ZoneInfo.from_file(stream, key=name)


def _seconds(moment: datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None, "the time has a zone"
    return round(offset.total_seconds())


def _offsets(millis: Millis, at: Callable[[int], int]) -> Millis:
    if not len(millis):
        return millis
    days = np.clip(millis // DAY, _DAYS_MIN, _DAYS_MAX)
    first_day = int(days.min())
    occurs = np.zeros(int(days.max()) - first_day + 1, np.bool_)
    occurs[days - first_day] = True
    before, after, change = (np.zeros(len(occurs), np.int64) for _ in range(3))
    for number in np.flatnonzero(occurs).tolist():
        start = (first_day + number) * _SECONDS_PER_DAY
        end = start + _SECONDS_PER_DAY - 1
        before[number], after[number] = at(start), at(end)
        change[number] = start if before[number] == after[number] else _change(start, end, at)
    here = days - first_day
    offsets: Millis = np.where(millis < change[here] * 1_000, before[here], after[here]) * 1_000
    return offsets


def _change(start: int, end: int, at: Callable[[int], int]) -> int:
    """The first second after `start` whose offset is the one at `end`."""
    old = at(start)
    while end - start > 1:
        middle = (start + end) // 2
        if at(middle) == old:
            start = middle
        else:
            end = middle
    return end
