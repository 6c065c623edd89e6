"""The partition transforms for single values (spec, "Partition Transforms" and Appendix B).

For whole columns there are vectorised ones; these serve literals of filters, and need no Arrow.
"""

from __future__ import annotations

import decimal
import uuid
from typing import Any

from tideline.formats.murmur3 import murmur3
from tideline.iceberg.metadata.field_type import Decimal, PrimitiveType
from tideline.iceberg.metadata.partition_spec import Transform
from tideline.iceberg.scan.literal_value import WIDE

_PER_SECOND = {
    "timestamp": 10**6,
    "timestamptz": 10**6,
    "timestamp_ns": 10**9,
    "timestamptz_ns": 10**9,
}


def partition_value(transform: Transform, type_: PrimitiveType, value: Any) -> Any:
    """The transform of a value that is not null. Raises ValueError for one that is not known."""
    match transform.name:
        case "identity":
            return value
        case "void":
            return None
        case "bucket" if transform.width:
            return (murmur3(_hash_bytes(type_, value)) & 0x7FFFFFFF) % transform.width
        case "truncate" if transform.width:
            return _truncated(type_, value, transform.width)
        case "hour":
            return value // (_PER_SECOND[str(type_)] * 3600)
    days = value if str(type_) == "date" else value // (_PER_SECOND[str(type_)] * 86_400)
    match transform.name:
        case "day":
            return days
        case "month":
            year, month = _year_and_month(days)
            return (year - 1970) * 12 + month - 1
        case "year":
            return _year_and_month(days)[0] - 1970
    raise ValueError(f"{transform} is not a known transform")


def _hash_bytes(type_: PrimitiveType, value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(type_, Decimal):
        unscaled = _unscaled(type_, value)
        size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
        return unscaled.to_bytes(size, "big", signed=True)
    if isinstance(value, int):
        micros = value // 1000 if str(type_).endswith("_ns") else value
        return micros.to_bytes(8, "little", signed=True)
    return bytes(value)


def _truncated(type_: PrimitiveType, value: Any, width: int) -> Any:
    if isinstance(type_, Decimal):
        unscaled = _unscaled(type_, value)
        return decimal.Decimal(unscaled - unscaled % width).scaleb(-type_.scale, WIDE)
    return value - value % width if isinstance(value, int) else value[:width]


def _unscaled(type_: Decimal, value: decimal.Decimal) -> int:
    return int(value.scaleb(type_.scale, WIDE))


def _year_and_month(days: int) -> tuple[int, int]:
    """Of a day counted from 1970, in the proleptic Gregorian calendar.

    Counts in eras of 400 years that begin in March, so that a leap day ends a year.
    """
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    return era * 400 + year_of_era + (month <= 2), month
