"""What a literal of a filter means for a column: Iceberg's internal value of the column's type.

Integers, decimals, dates and times lie on a grid: a literal between two points of the grid is
represented by the point below it, marked as not exact.
"""

from __future__ import annotations

import decimal
import re
import struct
import uuid
from dataclasses import dataclass
from typing import Any

from tideline.errors import ConfigError
from tideline.formats.calendar_days import day_number
from tideline.formats.filter import Literal, LiteralKind
from tideline.iceberg.metadata.field_type import Decimal, Fixed, PrimitiveType

NANOS_A_DAY = 86_400 * 10**9
INTEGER_BITS = {"int": 32, "long": 64}
WIDE = decimal.Context(prec=100, Emax=10**6, Emin=-(10**6))

_DATE = r"(?P<year>[+-]?\d{4,7})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?"
_ZONE = r"(?P<zone>Z|UTC|[+-]\d{2}(?::?\d{2})?)?"
_MOMENT = re.compile(rf"{_DATE}(?:[T ]{_CLOCK}\s*{_ZONE})?", re.IGNORECASE)
_TIME = re.compile(_CLOCK)
# Nanoseconds in one unit of a type's internal value.
_UNIT_NANOS = {
    "date": NANOS_A_DAY,
    "time": 1000,
    "timestamp": 1000,
    "timestamptz": 1000,
    "timestamp_ns": 1,
    "timestamptz_ns": 1,
}


@dataclass(frozen=True, slots=True)
class LiteralValue:
    """A value, or when not `is_exact` the greatest possible one below the literal.

    `fits` is false for a number that no value of the type can equal.
    """

    value: Any
    is_exact: bool = True
    fits: bool = True


def literal_value(literal: Literal, type_: PrimitiveType, column: str) -> LiteralValue:
    """Raises ConfigError naming the column and its type when the literal means nothing for it."""
    try:
        found = _convert(literal, type_)
    except (ValueError, ArithmeticError):
        found = None
    if found is None:
        raise ConfigError(
            f"the filter compares column {column} of type {type_} with a {literal.kind.value}",
            value=literal.text,
        )
    return found


def _convert(literal: Literal, type_: PrimitiveType) -> LiteralValue | None:
    name = str(type_)
    kind, text = literal.kind, literal.text
    if name in INTEGER_BITS or isinstance(type_, Decimal):
        return _number(literal, type_)
    if name in ("float", "double"):
        return _float(literal, name)
    if name in _UNIT_NANOS:
        return _time(literal, name)
    if name == "boolean":
        return LiteralValue(text.lower() == "true") if text.lower() in ("true", "false") else None
    if kind is LiteralKind.BINARY or kind is LiteralKind.STRING:
        return _characters(literal, type_)
    return None


def _number(literal: Literal, type_: PrimitiveType) -> LiteralValue | None:
    if literal.kind not in (LiteralKind.NUMBER, LiteralKind.STRING):
        return None
    exact = decimal.Decimal(literal.text.strip())
    if not exact.is_finite():
        return None
    if isinstance(type_, Decimal):
        unit = decimal.Decimal(1).scaleb(-type_.scale)
        below = exact.quantize(unit, rounding=decimal.ROUND_FLOOR, context=WIDE)
        fits = len(below.as_tuple().digits) <= type_.precision or not below
        return LiteralValue(below, below == exact, fits)
    whole = int(exact.to_integral_value(rounding=decimal.ROUND_FLOOR, context=WIDE))
    limit = 1 << (INTEGER_BITS[str(type_)] - 1)
    return LiteralValue(whole, whole == exact, -limit <= whole < limit)


def _float(literal: Literal, name: str) -> LiteralValue | None:
    if literal.kind not in (LiteralKind.NUMBER, LiteralKind.STRING):
        return None
    value = float(literal.text)
    if value != value:
        return None
    if name == "float":
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    return LiteralValue(value)


def _time(literal: Literal, name: str) -> LiteralValue | None:
    allowed = {LiteralKind.STRING}
    allowed |= {LiteralKind.TIME} if name == "time" else {LiteralKind.DATE, LiteralKind.TIMESTAMP}
    if literal.kind not in allowed:
        return None
    text = literal.text.strip()
    if name == "time":
        found = _TIME.fullmatch(text)
        nanos = None if found is None else _clock_nanos(found)
    else:
        found = _MOMENT.fullmatch(text)
        nanos = None if found is None else _moment_nanos(found, zoned="tz" in name)
    if nanos is None:
        return None
    value, rest = divmod(nanos, _UNIT_NANOS[name])
    return LiteralValue(value, rest == 0)


def _moment_nanos(found: re.Match[str], *, zoned: bool) -> int | None:
    days = day_number(int(found["year"]), int(found["month"]), int(found["day"]))
    nanos = days * NANOS_A_DAY
    if found["hour"] is None:
        return nanos
    clock = _clock_nanos(found)
    if clock is None or (found["zone"] and not zoned):
        return None
    return nanos + clock - _offset_nanos(found["zone"])


def _clock_nanos(found: re.Match[str]) -> int | None:
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        return None
    fraction = int((found["fraction"] or "").ljust(9, "0"))
    return (hour * 3600 + minute * 60 + second) * 10**9 + fraction


def _offset_nanos(zone: str | None) -> int:
    if zone is None or zone.upper() in ("Z", "UTC"):
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return (-minutes if zone[0] == "-" else minutes) * 60 * 10**9


def _characters(literal: Literal, type_: PrimitiveType) -> LiteralValue | None:
    is_binary = literal.kind is LiteralKind.BINARY
    name = str(type_)
    if name == "string":
        return None if is_binary else LiteralValue(literal.text)
    if name == "uuid":
        return None if is_binary else LiteralValue(uuid.UUID(literal.text))
    if name == "binary" or isinstance(type_, Fixed):
        return LiteralValue(bytes.fromhex(literal.text) if is_binary else literal.text.encode())
    return None
