"""Whole numbers near the least one, cut by `truncate`: Java wraps around there.

A column of longs may have been one of ints when its files were placed, so both are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tideline.iceberg.metadata.field_type import FieldType, PrimitiveType
from tideline.iceberg.metadata.partition_spec import Transform
from tideline.iceberg.scan.literal_value import INTEGER_BITS

_INT_BITS = INTEGER_BITS["int"]
_ORDERED_WIDTH_MAX = 1 << (_INT_BITS - 2)


@dataclass(frozen=True, slots=True)
class WrappedValues:
    """The values from `first` to `last`, which all become `image`, a large number."""

    first: int
    last: int
    image: int


def truncated_number(value: int, width: int, bits: int) -> int:
    """As Java computes it: with a width above half of what an int holds it wraps around for large
    numbers as well."""
    rest = _java_rest(_wrapped(_java_rest(value, width) + width, bits), width)
    return _wrapped(value - rest, bits)


def number_images(type_: PrimitiveType, value: int, width: int) -> list[int]:
    """What a value of a column may have become."""
    return [truncated_number(value, width, bits) for bits in _widths(type_) if _fits(value, bits)]


def wrapped_values(type_: PrimitiveType, width: int) -> Sequence[WrappedValues] | None:
    """The values of a column of whole numbers that wrap around; None where `truncate` does not keep
    the order of the others either."""
    if width > _ORDERED_WIDTH_MAX:
        return None
    found = []
    for bits in _widths(type_):
        first = -(1 << (bits - 1))
        rest = first % width
        if rest:
            image = truncated_number(first, width, bits)
            found.append(WrappedValues(first, first - rest + width - 1, image))
    return found


def may_differ(transform: Transform, kind: FieldType, image: Any) -> bool:
    """Whether rows with this partition value may be in another partition as well, where their files
    were placed before the column became one of longs."""
    if transform.name != "truncate" or str(kind) != "long" or image is None:
        return False
    width = transform.width or 1
    reaches_out = image < -(1 << (_INT_BITS - 1)) <= image + width
    return reaches_out or width > _ORDERED_WIDTH_MAX


def _widths(type_: PrimitiveType) -> tuple[int, ...]:
    return tuple(bits for bits in INTEGER_BITS.values() if bits <= INTEGER_BITS[str(type_)])


def _fits(value: int, bits: int) -> bool:
    return value == _wrapped(value, bits)


def _java_rest(value: int, width: int) -> int:
    """The remainder with the sign of the value."""
    rest = abs(value) % width
    return -rest if value < 0 else rest


def _wrapped(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half
