"""Points in time as people write them, as instant times of a table."""

from __future__ import annotations

from datetime import UTC, datetime

from tideline.errors import ConfigError
from tideline.timeline.instant_time import InstantTime, is_instant_time

BEGINNING = InstantTime("0" * 17)
"""Before every instant of any table."""


def parse_point_in_time(given: InstantTime | datetime | str, timezone: str) -> InstantTime:
    """An instant time from one, from a datetime, or from text that is either.

    Text is an instant time (`20240105100000000`) or ISO 8601 (`2024-01-05`, `2024-01-05 10:00:00`,
    `2024-01-05T10:00:00.5+01:00`). Without an offset it is meant in the table's own `timezone`:
    `UTC`, or `LOCAL`, which is this machine's. Zeros alone are before everything. Raises
    ConfigError for anything else.
    """
    if isinstance(given, InstantTime):
        return given
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
    if not isinstance(given, datetime):
        raise ConfigError(
            "not a time: write an instant time like 20240105100000000 or 2024-01-05T10:00:00",
            value=given,
        )
    if given.tzinfo is not None:
        given = given.astimezone(UTC if timezone == "UTC" else None)
    return InstantTime(f"{given:%Y%m%d%H%M%S}{given.microsecond // 1000:03d}".zfill(17))
