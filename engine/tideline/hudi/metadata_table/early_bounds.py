"""Bounds of days and times before 1900, with room for readers that count them by another calendar.

Hudi's queries take bounds through Java's dates and times, whose calendar is the Julian one until
1582 and whose zones had other offsets until 1900. A bound comes out as another day there, and a
file that has the value is left out. So bounds as early as that are stored further apart, by more
than the two differ: they hold all values still. In the first version of the index days before the
year 1 are days after it to Hudi, so that bounds are moved no further than to its beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tideline.hudi.timeline.column_range import ColumnRange, ValueKind

_DAYS_APART: Final = 30
_FIRST_SAME_DAY: Final = -25_567
"""1900-01-01."""
_FIRST_YEAR: Final = -719_162
"""0001-01-01."""
_LEAST: Final = -(2**63)
_PER_DAY: Mapping[ValueKind, int] = {
    ValueKind.DATE: 1,
    ValueKind.TIMESTAMP_MILLIS: 86_400_000,
    ValueKind.TIMESTAMP_MICROS: 86_400_000_000,
    ValueKind.TIMESTAMP_NANOS: 86_400_000_000_000,
    ValueKind.LOCAL_TIMESTAMP_MILLIS: 86_400_000,
    ValueKind.LOCAL_TIMESTAMP_MICROS: 86_400_000_000,
    ValueKind.LOCAL_TIMESTAMP_NANOS: 86_400_000_000_000,
}


def with_room(found: ColumnRange, *, has_types: bool) -> ColumnRange:
    """The same range, its bounds further apart where they are early days or times; `has_types` as
    rows of the index have them."""
    per_day = _PER_DAY.get(found.type.kind)
    least, greatest = found.least, found.greatest
    if per_day is None or not isinstance(least, int) or not isinstance(greatest, int):
        return found
    room, sure = _DAYS_APART * per_day, _FIRST_SAME_DAY * per_day
    if least < sure:
        first = _LEAST if has_types else min(least, _FIRST_YEAR * per_day)
        least = max(least - room, first)
    if greatest < sure:
        greatest += room
    return replace(found, least=least, greatest=greatest)
