"""What a row of `column_stats` says of the values of a file, where it is certain to be right.

Which rows are, `certain_rows` says. Hudi compares text of logs by the units of UTF-16, while
footers and Arrow do by bytes: a bound holds in both orders unless it has certain characters. Early
days and times may be those of another calendar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.hudi.file_group.column_ranges import value_type
from tideline.hudi.metadata_table.certain_rows import is_certain, text_bounds
from tideline.hudi.metadata_table.column_row import ColumnRow
from tideline.hudi.timeline.column_range import Bound, ColumnRange, ValueKind, retyped

_ORDERED = (
    types.is_int32,
    types.is_int64,
    types.is_boolean,
    types.is_string,
    types.is_date32,
    types.is_timestamp,
    types.is_decimal128,
)
_FIRST_SAME_DAY = -25_567
"""1900-01-01: from here on the calendars agree in days, and in times of all zones."""
_UNITS_PER_DAY = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_EXACT = Context(prec=100)


def has_known_order(data_type: pa.DataType) -> bool:
    """Whether the bounds of a column of this type are used."""
    return any(matches(data_type) for matches in _ORDERED)


def known_values(
    row: ColumnRow, data_type: pa.DataType, *, is_log: bool
) -> Sequence[pc.Expression] | None:
    """What a row says of all values of a column of this type in its file, as `RowFilter.may_hold`
    takes it; None where it says nothing that is certain."""
    found = _in_type(row, data_type)
    if found is None or not 0 <= found.nulls < found.values:
        return None
    if found.least is None or found.greatest is None:
        return None
    if not is_certain(replace(row, range=found), is_log=is_log):
        return None
    column = pc.field(row.column)
    try:
        bounds = _bounds(found, data_type, is_exact=row.is_tight)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    if not bounds:
        return None
    within = column.is_valid()
    for is_least, bound in bounds:
        within &= column >= bound if is_least else column <= bound
    return [within, column.is_null()] if found.nulls else [within]


def _in_type(row: ColumnRow, data_type: pa.DataType) -> ColumnRange | None:
    """The range where it is one of values of the column's type as it is now."""
    wanted = value_type(data_type) if has_known_order(data_type) else None
    if wanted is None:
        return None
    kind = row.range.type.kind
    is_widened = (kind, wanted.kind) == (ValueKind.INT, ValueKind.LONG)
    if kind is not wanted.kind and not is_widened:
        return None
    if types.is_timestamp(data_type) and not row.has_type:
        return None
    return retyped(row.range, wanted)


def _number(bound: Bound | None) -> int:
    assert isinstance(bound, int)
    return bound


def _bounds(
    found: ColumnRange, data_type: pa.DataType, *, is_exact: bool
) -> list[tuple[bool, pa.Scalar]]:
    """The least value and the greatest one, each with whether it is the least; those that hold in
    the order of Arrow. Raises what Arrow raises for values that are not of the type."""
    least, greatest = found.least, found.greatest
    if isinstance(least, str) and isinstance(greatest, str):
        ends = zip((True, False), text_bounds(least, greatest, is_exact=is_exact), strict=True)
        return [(side, pa.scalar(text, data_type)) for side, text in ends if text is not None]
    if types.is_string(data_type) or _number(least) > _number(greatest):
        return []
    if _number(least) < _first_sure(data_type):
        return []
    return [(True, _scalar(least, data_type)), (False, _scalar(greatest, data_type))]


def _first_sure(data_type: pa.DataType) -> float:
    """The least number that is the same value in every calendar."""
    if types.is_date32(data_type):
        return _FIRST_SAME_DAY
    if types.is_timestamp(data_type):
        return _FIRST_SAME_DAY * _UNITS_PER_DAY[data_type.unit]
    return float("-inf")


def _scalar(bound: Any, data_type: pa.DataType) -> pa.Scalar:
    if types.is_decimal128(data_type):
        return pa.scalar(Decimal(bound).scaleb(-data_type.scale, _EXACT), data_type)
    if types.is_date32(data_type):
        return pa.scalar(bound, pa.int32()).cast(data_type)
    if types.is_timestamp(data_type):
        return pa.scalar(bound, pa.int64()).cast(data_type)
    return pa.scalar(bound, data_type)
