"""The partition transforms for single values (spec, "Partition Transforms" and Appendix B).

For whole columns there are vectorised ones; these serve literals of filters, and need no Arrow.
"""

from __future__ import annotations

import decimal
import uuid
from typing import Any

from tideline.formats.calendar_days import civil_day
from tideline.formats.murmur3 import murmur3
from tideline.iceberg.metadata.field_type import Decimal, PrimitiveType
from tideline.iceberg.metadata.partition_spec import Transform
from tideline.iceberg.scan.literal_value import INTEGER_BITS, WIDE
from tideline.iceberg.scan.wrapped_truncate import truncated_number

PER_SECOND = {
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
            return value // (PER_SECOND[str(type_)] * 3600)
    days = value if str(type_) == "date" else value // (PER_SECOND[str(type_)] * 86_400)
    match transform.name:
        case "day":
            return days
        case "month":
            year, month, _ = civil_day(days)
            return (year - 1970) * 12 + month - 1
        case "year":
            return civil_day(days)[0] - 1970
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
    if isinstance(value, int):
        return truncated_number(value, width, INTEGER_BITS[str(type_)])
    return value[:width]


def _unscaled(type_: Decimal, value: decimal.Decimal) -> int:
    return int(value.scaleb(type_.scale, WIDE))
