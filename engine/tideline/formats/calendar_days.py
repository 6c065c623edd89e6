"""Days of the proleptic Gregorian calendar in any year, as numbers counted from 1970.

Python's own dates end with the year 9999 and begin with the year 1; Spark, Hudi and Iceberg have
neither end. The calendar repeats every 400 years, so a day is looked up in those around 1970.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

_EPOCH = date(1970, 1, 1)
_ERA_YEARS, _ERA_DAYS = 400, 146_097


@dataclass(frozen=True, slots=True)
class FarTime:
    """A date, or a moment with its time of day and zone, in a year that Python does not have.

    `day` counts from 1970; `clock` is empty for a date.
    """

    day: int
    clock: str = ""

    def isoformat(self, sep: str = "T") -> str:
        """As Python's dates and moments spell themselves, with a sign before the year."""
        return iso_day(self.day) + (f"{sep}{self.clock}" if self.clock else "")

    def __str__(self) -> str:
        return self.isoformat(" ")


def civil_day(number: int) -> tuple[int, int, int]:
    """Year, month and day; the year before 1 is 0."""
    eras, rest = divmod(number, _ERA_DAYS)
    day = _EPOCH + timedelta(days=rest)
    return day.year + _ERA_YEARS * eras, day.month, day.day


def day_number(year: int, month: int, day: int) -> int:
    """The opposite of `civil_day`. Raises ValueError for a day that no month has."""
    eras, rest = divmod(year, _ERA_YEARS)
    return (date(rest + _ERA_YEARS, month, day) - _EPOCH).days + (eras - 1) * _ERA_DAYS


def iso_day(number: int) -> str:
    """As ISO 8601, and Spark, write it: years of more than four digits and those before 0 have a
    sign."""
    year, month, day = civil_day(number)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"
