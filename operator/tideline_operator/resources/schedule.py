"""Durations, cron expressions and timestamps: scalar values that parse and print themselves.

All times are UTC. Cron expressions have the five usual fields; a day matches when both the day of
the month and the day of the week match, unless both are restricted, when either is enough. Anything
but a bare `*` is a restriction, `*/2` too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from tideline_operator.resources.field import CelRule, matching

_DURATION_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION_MEANING = "a whole number and ms, s, m, h or d, such as 30s or 5m"
_CRON_MEANING = "five fields, minute hour day-of-month month day-of-week, such as '*/15 * * * *'"
_CRON_FIELDS = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of month", 1, 31),
    ("month", 1, 12),
    ("day of week", 0, 7),
)
_CRON_DAYS_SEARCHED = 366 * 8 + 2  # 29 February can be eight years away


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time, written as a whole number and a unit: `30s`, `5m`, `1h`."""

    PATTERN: ClassVar[str] = r"[0-9]{1,9}(ms|s|m|h|d)"
    RULES: ClassVar[tuple[CelRule, ...]] = (
        matching(PATTERN, f"allowed: {_DURATION_MEANING}"),
        CelRule("!self.matches('^0+[a-z]+$')", "allowed: a duration greater than zero"),
    )

    ms: int

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Raises ValueError when `text` is not a duration, or is zero."""
        match = re.fullmatch(cls.PATTERN, text)
        if match is None:
            raise ValueError(f"allowed: {_DURATION_MEANING}")
        ms = int(text.removesuffix(match[1])) * _DURATION_UNITS_MS[match[1]]
        if ms == 0:
            raise ValueError("allowed: a duration greater than zero")
        return cls(ms)

    def __str__(self) -> str:
        for unit in ("d", "h", "m", "s"):
            if self.ms % _DURATION_UNITS_MS[unit] == 0:
                return f"{self.ms // _DURATION_UNITS_MS[unit]}{unit}"
        return f"{self.ms}ms"


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment, printed as RFC 3339 in UTC with milliseconds."""

    FORMAT: ClassVar[str] = "date-time"
    _LAST_MS: ClassVar[int] = 253_402_300_799_999

    ms: int

    @classmethod
    def of_others(cls, ms: int) -> Timestamp:
        """A moment that somebody else says: one that cannot be printed is the next that can."""
        return cls(min(max(ms, 0), cls._LAST_MS))

    @classmethod
    def parse(cls, text: str) -> Timestamp:
        """Raises ValueError when `text` is not an RFC 3339 time with a zone."""
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise ValueError("allowed: an RFC 3339 time with a zone, such as 2026-01-31T08:00:00Z")
        return cls(round(moment.timestamp() * 1000))

    def __str__(self) -> str:
        moment = datetime.fromtimestamp(self.ms // 1000, UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{self.ms % 1000:03d}Z"


@dataclass(frozen=True, slots=True)
class Cron:
    """A five-field cron expression in UTC: minute, hour, day of month, month, day of week."""

    RULES: ClassVar[tuple[CelRule, ...]] = (
        matching(r"\s*[0-9*/,-]+(\s+[0-9*/,-]+){4}\s*", f"allowed: {_CRON_MEANING}"),
    )

    text: str

    @classmethod
    def parse(cls, text: str) -> Cron:
        """Raises ValueError naming the field that is wrong, or when no time ever matches."""
        words = text.split()
        if len(words) != len(_CRON_FIELDS):
            raise ValueError(f"allowed: {_CRON_MEANING}")
        for word, (name, low, high) in zip(words, _CRON_FIELDS, strict=True):
            _cron_values(word, name, low, high)
        cron = cls(" ".join(words))
        if cron.next_after(0) is None:
            raise ValueError("no date ever matches this expression")
        return cron

    def matches(self, ms: int) -> bool:
        """True when the minute of `ms` is one the expression names."""
        moment = datetime.fromtimestamp(ms // 1000, UTC)
        minutes, hours, *days = self._values()
        return (
            moment.minute in minutes and moment.hour in hours and self._matches_day(moment, *days)
        )

    def next_after(self, ms: int) -> int | None:
        """The first matching minute strictly after `ms`; None when there never is one."""
        start = datetime.fromtimestamp(ms // 60_000 * 60, UTC) + timedelta(minutes=1)
        minutes, hours, *days = self._values()
        midnight = start.replace(hour=0, minute=0)
        for _ in range(_CRON_DAYS_SEARCHED):
            if self._matches_day(midnight, *days):
                for hour in sorted(hours):
                    for minute in sorted(minutes):
                        moment = midnight.replace(hour=hour, minute=minute)
                        if moment >= start:
                            return int(moment.timestamp()) * 1000
            midnight += timedelta(days=1)
        return None

    def _values(self) -> list[frozenset[int]]:
        """What each field names."""
        words = zip(self.text.split(), _CRON_FIELDS, strict=True)
        return [_cron_values(word, *field) for word, field in words]

    def _matches_day(
        self,
        moment: datetime,
        dates: frozenset[int],
        months: frozenset[int],
        weekdays: frozenset[int],
    ) -> bool:
        if moment.month not in months:
            return False
        by_date = moment.day in dates
        # 0 and 7 are both Sunday.
        weekday = moment.isoweekday()
        by_weekday = weekday in weekdays or weekday % 7 in weekdays
        date_word, _, weekday_word = self.text.split()[2:]
        if date_word != "*" and weekday_word != "*":
            return by_date or by_weekday
        return by_date and by_weekday

    def __str__(self) -> str:
        return self.text


def _cron_values(word: str, name: str, low: int, high: int) -> frozenset[int]:
    allowed = f"allowed in the {name} field: {low} to {high}, lists, ranges, * and steps (*/n)"
    values: set[int] = set()
    for part in word.split(","):
        match = re.fullmatch(r"(?:\*|([0-9]{1,2})(?:-([0-9]{1,2}))?)(?:/([0-9]{1,2}))?", part)
        if match is None:
            raise ValueError(f"{part!r}: {allowed}")
        step = int(match[3] or 1)
        first = low if match[1] is None else int(match[1])
        # `5/10` means from 5 to the end in steps, as `5-59/10` does.
        open_ended = match[1] is None or (match[2] is None and match[3] is not None)
        last = high if open_ended else int(match[2] or first)
        if step == 0 or not low <= first <= last <= high:
            raise ValueError(f"{part!r}: {allowed}")
        values.update(range(first, last + 1, step))
    return frozenset(values)
