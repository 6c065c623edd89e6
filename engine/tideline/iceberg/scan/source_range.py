"""From a range of partition values back to the values of the column they were made of.

What a transform forgets is unknown then. Every transform keeps null and only null as null, but
`void`, which forgets everything.
"""

from __future__ import annotations

import decimal
from dataclasses import replace
from typing import Any

from tideline.formats.calendar_days import day_number
from tideline.iceberg.metadata.field_type import Decimal, PrimitiveType
from tideline.iceberg.metadata.partition_spec import Transform
from tideline.iceberg.scan.literal_value import INTEGER_BITS, WIDE
from tideline.iceberg.scan.partition_value import PER_SECOND
from tideline.iceberg.scan.value_range import UNKNOWN, ValueRange
from tideline.iceberg.scan.wrapped_truncate import wrapped_values

_TIMES = frozenset({"year", "month", "day", "hour"})


def source_range(transform: Transform, type_: PrimitiveType, known: ValueRange) -> ValueRange:
    """What is known of a column of type `type_` whose transformed values are in the range."""
    name = transform.name
    if name == "identity":
        return known
    if name == "void" or not transform.is_known:
        return UNKNOWN
    if name in _TIMES:
        return _time_range(name, type_, known)
    if name == "truncate" and transform.width:
        if str(type_) in INTEGER_BITS:
            return _number_range(type_, known, transform.width)
        upper = None if known.upper is None else _last(type_, known.upper, transform.width)
        return replace(known, upper=upper)
    return replace(known, lower=None, upper=None)


def _time_range(name: str, type_: PrimitiveType, known: ValueRange) -> ValueRange:
    lower, upper = known.lower, known.upper
    if lower is not None:
        # Early writers rounded times before 1970 up instead of down.
        is_exact = lower > 0 or (name == "day" and str(type_) == "date")
        lower = _start(name, type_, lower if is_exact else lower - 1)
    if upper is not None:
        upper = _start(name, type_, upper + 1) - 1
    return replace(known, lower=lower, upper=upper)


def _start(name: str, type_: PrimitiveType, number: int) -> int:
    """The first value of a year, month, day or hour, which are counted from 1970."""
    if name == "hour":
        return number * 3600 * PER_SECOND[str(type_)]
    days = number
    if name == "year":
        days = day_number(1970 + number, 1, 1)
    elif name == "month":
        days = day_number(1970 + number // 12, number % 12 + 1, 1)
    return days if str(type_) == "date" else days * 86_400 * PER_SECOND[str(type_)]


def _number_range(type_: PrimitiveType, known: ValueRange, width: int) -> ValueRange:
    wrapped = wrapped_values(type_, width)
    if wrapped is None:
        return replace(known, lower=None, upper=None)
    lower, upper = known.lower, known.upper
    inside = [
        item
        for item in wrapped
        if (lower is None or lower <= item.image) and (upper is None or item.image <= upper)
    ]
    if inside and lower == upper:
        return replace(known, lower=inside[0].first, upper=inside[0].last)
    greatest = (1 << (INTEGER_BITS[str(type_)] - 1)) - 1
    last = None if upper is None or upper + width > greatest else upper + width - 1
    return replace(known, lower=None if inside else lower, upper=last)


def _last(type_: PrimitiveType, value: Any, width: int) -> Any:
    """The greatest value that is cut to this one; None where there is none."""
    if isinstance(type_, Decimal):
        return WIDE.add(value, decimal.Decimal(width - 1).scaleb(-type_.scale))
    return None
