"""The filters of a planned query, as conditions on rows in Arrow.

`PlannedFilters.java` prints them: as Spark's sources are given them, values as Spark has them
within. Only what means the same in both is taken over: comparisons with values of whole numbers,
booleans, text, days, times and decimals. A part of what is joined by AND may be left out, for that
selects more rows; null compares as in SQL on both sides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.spark.read.pushed_filters import beginning_with

_COMPARED: Mapping[str, Callable[[pc.Expression, Any], pc.Expression]] = {
    "EqualTo": lambda column, value: column == value,
    "GreaterThan": lambda column, value: column > value,
    "GreaterThanOrEqual": lambda column, value: column >= value,
    "LessThan": lambda column, value: column < value,
    "LessThanOrEqual": lambda column, value: column <= value,
}
_MATCHED: Mapping[str, Callable[..., pc.Expression]] = {
    "StringStartsWith": beginning_with,
    "StringEndsWith": pc.ends_with,
    "StringContains": pc.match_substring,
}
_NEGATED = ("EqualTo", "In", "IsNull", "IsNotNull", *_MATCHED)


def planned_filter(filters: str, schema: pa.Schema) -> pc.Expression | None:
    """What all of the filters together select of rows of this schema, as far as Arrow can say; None
    where it can say nothing. Raises what `json` raises for other text."""
    return _all(_condition(item, schema) for item in json.loads(filters))


def _all(conditions: Any) -> pc.Expression | None:
    found = None
    for condition in conditions:
        if condition is not None:
            found = condition if found is None else found & condition
    return found


def _condition(item: Any, schema: pa.Schema) -> pc.Expression | None:
    if item is None:
        return None
    kind = item["filter"]
    if kind == "And":
        return _all(_condition(part, schema) for part in item["parts"])
    if kind == "Or":
        left, right = (_condition(part, schema) for part in item["parts"])
        return None if left is None or right is None else left | right
    if kind == "Not":
        return _negated(item["parts"][0], schema)
    if item["column"] not in schema.names:
        return None
    return _of_column(kind, item, schema.field(item["column"]).type)


def _negated(item: Any, schema: pa.Schema) -> pc.Expression | None:
    """Null is selected by neither a condition nor its negation."""
    if item is None or item["filter"] not in _NEGATED:
        return None
    if item["filter"] == "In" and None in item["value"]:
        return None
    inner = _condition(item, schema)
    if inner is None or item["filter"] in ("IsNull", "IsNotNull"):
        return None if inner is None else ~inner
    return ~inner & pc.field(item["column"]).is_valid()


def _of_column(kind: str, item: Any, type_: pa.DataType) -> pc.Expression | None:
    column, value = pc.field(item["column"]), item["value"]
    if kind == "IsNull":
        return column.is_null()
    if kind == "IsNotNull":
        return column.is_valid()
    if kind == "In":
        wanted = [part for part in value if part is not None]
        values = [scalar for part in wanted if (scalar := _scalar(part, type_)) is not None]
        if len(values) < len(wanted):
            return None
        return column.isin(pa.array([part.as_py() for part in values], type_)) & column.is_valid()
    if kind == "EqualNullSafe" and value is None:
        return column.is_null()
    scalar = _scalar(value, type_)
    if scalar is None:
        return None
    if kind == "EqualNullSafe":
        return (column == scalar) & column.is_valid()
    if kind in _COMPARED:
        return _COMPARED[kind](column, scalar)
    if kind in _MATCHED and types.is_string(type_):
        return _MATCHED[kind](column, value)
    return None


def _scalar(value: Any, type_: pa.DataType) -> pa.Scalar | None:
    """A value that both compare alike with a column of this type; None for any other."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    try:
        if types.is_boolean(type_):
            return pa.scalar(value, type_) if isinstance(value, bool) else None
        if types.is_signed_integer(type_):
            return pa.scalar(value, type_) if is_number else None
        if types.is_string(type_):
            return pa.scalar(value, type_) if isinstance(value, str) else None
        if types.is_date32(type_):
            return pa.scalar(value, pa.int32()).cast(type_) if is_number else None
        if types.is_timestamp(type_):
            in_microseconds = pa.timestamp("us", type_.tz)
            moment = pa.scalar(value, pa.int64()).cast(in_microseconds) if is_number else None
            return None if moment is None else moment.cast(type_)
        if types.is_decimal128(type_) and isinstance(value, str):
            return pa.scalar(Decimal(value), type_)
    except (pa.ArrowException, ArithmeticError, ValueError, OverflowError):
        return None
    return None
