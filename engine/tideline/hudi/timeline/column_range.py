"""The range of a column in one file: its bounds, and how many of its values are null.

A task that writes a file knows the ranges of its columns and sends them along with the file's stat;
the metadata table's statistics are made of them. Bounds are as files store them, in the units of
the column's type: days of a date, units since the epoch of a time, the digits of a decimal.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from math import isfinite, isnan
from typing import Any

Bound = bool | int | float | str | bytes


class ValueKind(IntEnum):
    """Types of columns that have an order, by the numbers that Hudi stores.

    Source: Hudi's ValueType (1.2).
    """

    NULL = 1
    BOOLEAN = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BYTES = 8
    FIXED = 9
    DECIMAL = 10
    UUID = 11
    DATE = 12
    TIME_MILLIS = 13
    TIME_MICROS = 14
    TIMESTAMP_MILLIS = 15
    TIMESTAMP_MICROS = 16
    TIMESTAMP_NANOS = 17
    LOCAL_TIMESTAMP_MILLIS = 18
    LOCAL_TIMESTAMP_MICROS = 19
    LOCAL_TIMESTAMP_NANOS = 20


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type of values; a decimal has its precision and scale, such as `10,2`."""

    kind: ValueKind
    digits: str | None = None

    @classmethod
    def decimal(cls, precision: int, scale: int) -> ValueType:
        return cls(ValueKind.DECIMAL, f"{precision},{scale}")

    @property
    def scale(self) -> int:
        """Digits after the point of a decimal."""
        return int((self.digits or "0,0").partition(",")[2])


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """What one file, or several, hold of a column.

    A value that is not null lies between `least` and `greatest`, which are None where all are null.
    NaN is greater than all numbers, as in Spark. `values` counts nulls as well. `size_bytes` is
    what the column takes in a base file, `plain_bytes` the same before compression.
    """

    type: ValueType
    least: Bound | None
    greatest: Bound | None
    values: int
    nulls: int
    size_bytes: int = 0
    plain_bytes: int = 0

    def to_json_object(self) -> list[Any]:
        """As it travels with a stat from a task to the driver."""
        bounds = [_printed(bound) for bound in (self.least, self.greatest)]
        counts = [self.values, self.nulls, self.size_bytes, self.plain_bytes]
        return [self.type.kind.value, self.type.digits, *bounds, *counts]

    @classmethod
    def from_json_object(cls, content: list[Any]) -> ColumnRange:
        kind, digits, least, greatest, *counts = content
        value_type = ValueType(ValueKind(kind), digits)
        return cls(value_type, _parsed(least), _parsed(greatest), *counts)


_TIMES = (
    ValueKind.TIME_MICROS,
    ValueKind.TIMESTAMP_MILLIS,
    ValueKind.TIMESTAMP_MICROS,
    ValueKind.TIMESTAMP_NANOS,
    ValueKind.LOCAL_TIMESTAMP_MILLIS,
    ValueKind.LOCAL_TIMESTAMP_MICROS,
    ValueKind.LOCAL_TIMESTAMP_NANOS,
)
_FROM: Mapping[ValueKind, tuple[ValueKind, ...]] = {
    ValueKind.INT: (
        ValueKind.LONG,
        ValueKind.FLOAT,
        ValueKind.DOUBLE,
        ValueKind.DATE,
        ValueKind.TIME_MILLIS,
    ),
    ValueKind.LONG: (ValueKind.FLOAT, ValueKind.DOUBLE, *_TIMES),
    ValueKind.FLOAT: (ValueKind.DOUBLE,),
    ValueKind.BYTES: (ValueKind.FIXED,),
    ValueKind.FIXED: (ValueKind.BYTES,),
    ValueKind.STRING: (ValueKind.UUID,),
    ValueKind.UUID: (ValueKind.STRING,),
}
"""The kinds that bounds of a kind are read as."""

_FLOAT, _BITS = struct.Struct("<f"), struct.Struct("<i")
_LEAST_BITS = -(2**31)

ColumnRanges = Mapping[str, ColumnRange]
"""Ranges by the names of columns."""


def retyped(
    found: ColumnRange, wanted: ValueType, *, room_of_floats: int = 1
) -> ColumnRange | None:
    """The range with its bounds in another type, None where they mean nothing there.

    Columns widen; and older statistics say of a number neither what it counts nor its unit. Hudi
    reads the digits of a float as a double: 0.1 is less than the float was. So bounds of floats are
    `room_of_floats` further apart there, as many numbers of four bytes; of less than none they are
    bounds that values reach.
    """
    if found.type == wanted:
        return found
    if found.least is None or found.greatest is None:
        return replace(found, type=wanted)
    if wanted.kind is ValueKind.DECIMAL:
        if found.type.kind is not ValueKind.DECIMAL:
            return None
        least, greatest = (
            _rescaled(bound, found.type.scale, wanted.scale)
            for bound in (found.least, found.greatest)
        )
        if least is None or greatest is None:
            return None
        return replace(found, type=wanted, least=least, greatest=greatest)
    if wanted.kind not in _FROM.get(found.type.kind, ()):
        return None
    if found.type.kind is ValueKind.FLOAT:
        below = _next_float(float(found.least), -room_of_floats)
        above = _next_float(float(found.greatest), room_of_floats)
        return replace(found, type=wanted, least=below, greatest=above)
    if wanted.kind in (ValueKind.FLOAT, ValueKind.DOUBLE):
        return replace(found, type=wanted, least=float(found.least), greatest=float(found.greatest))
    return replace(found, type=wanted)


def united(ranges: Iterable[ColumnRange], value_type: ValueType) -> ColumnRange:
    """The range of all values together, of a column that has this type now.

    Files that were written before a column was widened have bounds of the narrower type.
    """
    found = list(ranges)
    known = [item for item in found if item.least is not None and item.greatest is not None]
    least = [item.least for item in known if item.least is not None]
    greatest = [item.greatest for item in known if item.greatest is not None]
    return ColumnRange(
        value_type,
        min(least, key=ordered) if least else None,
        max(greatest, key=ordered) if greatest else None,
        sum(item.values for item in found),
        sum(item.nulls for item in found),
        sum(item.size_bytes for item in found),
        sum(item.plain_bytes for item in found),
    )


def ordered(bound: Bound) -> tuple[bool, Any]:
    """A key that sorts bounds of one type as Spark does: text by its bytes, NaN last."""
    if isinstance(bound, float):
        return isnan(bound), 0.0 if isnan(bound) else bound
    return False, bound.encode() if isinstance(bound, str) else bound


def _rescaled(bound: Bound, scale: int, wanted: int) -> int | None:
    """A decimal with another number of digits behind the point; None where some are lost."""
    if not isinstance(bound, int):
        return None
    if wanted >= scale:
        factor: int = 10 ** (wanted - scale)
        return bound * factor
    divisor: int = 10 ** (scale - wanted)
    return None if bound % divisor else bound // divisor


def _next_float(value: float, step: int) -> float:
    """The number of four bytes so many below or above another. Digits that stand for this one lie
    between its neighbours."""
    if not isfinite(value):
        return value
    (bits,) = _BITS.unpack(_FLOAT.pack(value))
    place = bits if bits >= 0 else _LEAST_BITS - bits
    moved = place + step
    found: float = _FLOAT.unpack(_BITS.pack(moved if moved >= 0 else _LEAST_BITS - moved))[0]
    return found


def _printed(bound: Bound | None) -> Any:
    if isinstance(bound, bytes):
        return {"bytes": base64.b64encode(bound).decode()}
    return bound


def _parsed(bound: Any) -> Bound | None:
    return base64.b64decode(bound["bytes"]) if isinstance(bound, dict) else bound
