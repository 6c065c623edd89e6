"""Points in time as people write them, as instant times of a table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from math import floor

from tideline.errors import ConfigError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.hudi.timeline.zone import TimelineZone

Point = Instant | InstantTime | date | str | int
"""An instant, or a moment (a datetime is a date as well), or either as text; 0 is before all."""
BEGINNING = InstantTime("0" * 17)
"""Before every instant of any table."""


def point_in_time(table: HoodieTable, given: Point) -> InstantTime:
    """The instant time meant by `given` for a table. Raises as parse_point_in_time.

    Where the zone of its instants is not declared, a time with an offset has the timeline listed.
    """

    def zone() -> TimelineZone:
        if table.instants.zone_is_declared:
            return table.instants.zone
        return table.instants.known_zone(table.timeline()).reading_zone

    return parse_point_in_time(given, zone)


def parse_point_in_time(given: Point, zone: Callable[[], TimelineZone]) -> InstantTime:
    """An instant time from one, from a date or datetime, or from text or a number that is either.

    Text is an instant time (`20240105100000000`) or ISO 8601 (`2024-01-05`, `2024-01-05 10:00:00`,
    `2024-01-05T10:00:00.5+01:00`). A date is its first moment. Without an offset these are the
    table's own digits; with one they are a moment in its `zone`. Zeros alone are before everything.
    Raises ConfigError for anything else.
    """
    if isinstance(given, Instant):
        return given.time
    if isinstance(given, InstantTime):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        given = str(given)
    if isinstance(given, str):
        text = given.strip()
        if is_instant_time(text):
            return InstantTime(text)
        if text and not text.strip("0"):
            return BEGINNING
        try:
            given = datetime.fromisoformat(text)
        except ValueError:
            given = text
    if isinstance(given, date) and not isinstance(given, datetime):
        given = datetime.combine(given, time())
    if not isinstance(given, datetime):
        raise ConfigError(
            "not a time: write an instant time like 20240105100000000 or 2024-01-05T10:00:00",
            value=given,
        )
    if given.tzinfo is not None:
        return zone().instant_at(floor(given.timestamp()) * 1000 + given.microsecond // 1000)
    return InstantTime(f"{given:%Y%m%d%H%M%S}{given.microsecond // 1000:03d}".zfill(17))
