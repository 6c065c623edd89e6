"""A filter in SQL as an expression of Arrow, for the part where both select the same rows.

1. NaN equals itself and is more than any other number, as in Spark and DuckDB; Arrow compares it as
   false.
2. Null is unknown, and `NOT` of unknown is unknown.
3. A value is taken as the column's type has it: whole numbers, decimals that lose no digit, days
   and times in ISO 8601, a time without a zone in UTC. What would need a conversion of the column
   is not taken: engines differ in these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.errors import ConfigError
from tideline.formats.column_choice import no_such_column
from tideline.formats.filter import (
    And,
    Constant,
    Filter,
    Literal,
    LiteralKind,
    Not,
    Operator,
    Or,
    Predicate,
)
from tideline.formats.filter_parser import parse_filter
from tideline.formats.text_order import text_after

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?")
_UNKNOWN = pa.scalar(None, pa.bool_())


class UnsuitedValueError(ConfigError):
    """A value that its column is not compared with: an engine that converts columns may do it."""


def sql_expression(text: str, schema: pa.Schema) -> pc.Expression:
    """The rows of `schema` for which a condition in SQL is true.

    Raises ConfigError for a text that is no such condition, names of columns that are not there and
    values that do not suit them.
    """
    return filter_expression(parse_filter(text), schema)


def filter_expression(parsed: Filter, schema: pa.Schema) -> pc.Expression:
    """The same, of a filter."""
    match parsed:
        case And(left, right):
            return filter_expression(left, schema) & filter_expression(right, schema)
        case Or(left, right):
            return filter_expression(left, schema) | filter_expression(right, schema)
        case Not(operand):
            return ~filter_expression(operand, schema)
        case Constant(value):
            return pc.scalar(value)
    return _predicate(parsed, schema)


def _predicate(predicate: Predicate, schema: pa.Schema) -> pc.Expression:
    column, kind = _column(predicate.column, schema)
    if predicate.operator is Operator.IS_NULL:
        return column.is_null()
    if predicate.operator is Operator.NOT_NULL:
        return column.is_valid()
    if predicate.operator in (Operator.IS_NAN, Operator.NOT_NAN):
        if not types.is_floating(kind):
            raise _unsuited(predicate.column, kind, "NaN")
        is_nan = column.is_valid() & pc.is_nan(column)
        return is_nan if predicate.operator is Operator.IS_NAN else ~is_nan
    if types.is_floating(kind):
        # Numbers as they are written are doubles: 0.1 is not what a FLOAT has for it.
        column, kind = column.cast(pa.float64()), pa.float64()
    values = [_value(literal, predicate.column, kind) for literal in predicate.values]
    if predicate.operator is Operator.IN:
        return _listed(column, values, kind)
    if predicate.operator is Operator.STARTS_WITH:
        if not types.is_string(kind) and not types.is_large_string(kind):
            raise _unsuited(predicate.column, kind, "LIKE")
        return _beginning(column, values[0], kind)
    found = _COMPARISONS[predicate.operator](column, values[0])
    if types.is_floating(kind) and predicate.operator in _ABOVE:
        return found | pc.is_nan(column)
    return found


def _beginning(column: pc.Expression, prefix: pa.Scalar, kind: pa.DataType) -> pc.Expression:
    text = prefix.as_py()
    # By their range whole files are ruled out.
    found = pc.starts_with(column, text) & (column >= prefix)
    after = text_after(text)
    return found if after is None else found & (column < pa.scalar(after, kind))


def _listed(column: pc.Expression, values: list[pa.Scalar], kind: pa.DataType) -> pc.Expression:
    found = sorted(value.as_py() for value in values)
    listed = column.isin(pa.array(found, kind))
    if types.is_floating(kind) and 0.0 in found:
        # Arrow tells 0.0 and -0.0 apart here.
        listed = listed | (column == pa.scalar(0.0, kind))
    lowest, highest = pa.scalar(found[0], kind), pa.scalar(found[-1], kind)
    # By their range whole files are ruled out.
    in_range = (column >= lowest) & (column <= highest)
    return in_range & pc.if_else(column.is_valid(), listed, _UNKNOWN)


_COMPARISONS: Mapping[Operator, Callable[[Any, Any], pc.Expression]] = {
    Operator.LESS: lambda column, value: column < value,
    Operator.LESS_OR_EQUAL: lambda column, value: column <= value,
    Operator.GREATER: lambda column, value: column > value,
    Operator.GREATER_OR_EQUAL: lambda column, value: column >= value,
    Operator.EQUAL: lambda column, value: column == value,
    Operator.NOT_EQUAL: lambda column, value: column != value,
}
_ABOVE = (Operator.GREATER, Operator.GREATER_OR_EQUAL)


def _column(name: str, schema: pa.Schema) -> tuple[pc.Expression, pa.DataType]:
    """The column of a name, or the member of a struct with dots between; case does not matter where
    only one is meant."""
    if name in schema.names:
        return pc.field(name), schema.field(name).type
    fields: list[pa.Field] = list(schema)
    path: list[str] = []
    kind: pa.DataType | None = None
    for part in name.split("."):
        exact = [item for item in fields if item.name == part]
        found = exact or [item for item in fields if item.name.lower() == part.lower()]
        if len(found) != 1:
            raise no_such_column([name], schema.names)
        path.append(found[0].name)
        kind = found[0].type
        fields = list(kind.fields) if types.is_struct(kind) else []
    assert kind is not None, "a name has a part"
    return pc.field(*path), kind


def _value(literal: Literal, column: str, kind: pa.DataType) -> pa.Scalar:
    try:
        found = _python_value(literal, kind)
        if found is not None:
            return pa.scalar(found, kind)
    except (pa.ArrowException, InvalidOperation, OverflowError, ValueError) as error:
        raise _unsuited(column, kind, literal.text) from error
    raise _unsuited(column, kind, literal.text)


def _python_value(literal: Literal, kind: pa.DataType) -> Any:
    """None for a value of another type than the column's."""
    text, is_text = literal.text, literal.kind is LiteralKind.STRING
    if literal.kind is LiteralKind.NUMBER:
        if types.is_integer(kind):
            return int(text)
        if types.is_floating(kind):
            return float(text)
        return Decimal(text) if types.is_decimal(kind) else None
    if literal.kind is LiteralKind.BOOLEAN:
        return text == "true" if types.is_boolean(kind) else None
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return bytes.fromhex(text) if literal.kind is LiteralKind.BINARY else None
    if types.is_date(kind) and (is_text or literal.kind is LiteralKind.DATE):
        return date.fromisoformat(text) if _DAY.fullmatch(text) else None
    if types.is_timestamp(kind) and literal.kind is not LiteralKind.TIME:
        return _moment(text, kind) if _MOMENT.fullmatch(text) else None
    is_word = types.is_string(kind) or types.is_large_string(kind)
    return text if is_word and is_text else None


def _moment(text: str, kind: pa.DataType) -> datetime | None:
    found = datetime.fromisoformat(text)
    if kind.tz is not None:
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return None if found.tzinfo is not None else found


def _unsuited(column: str, kind: pa.DataType, value: str) -> UnsuitedValueError:
    form = next((form for suits, form in _FORMS if suits(kind)), None)
    way = "is not compared in this way" if form is None else f"is compared with {form}"
    return UnsuitedValueError(f"a column of type {kind} {way}", value=f"{column}: {value}")


_FORMS: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (lambda kind: types.is_string(kind) or types.is_large_string(kind), "a text in quotes"),
    (types.is_integer, "a whole number, without quotes"),
    (lambda kind: types.is_floating(kind) or types.is_decimal(kind), "a number, without quotes"),
    (types.is_boolean, "true or false"),
    (types.is_date, "a day such as '2026-11-30'"),
    (
        lambda kind: types.is_timestamp(kind) and kind.tz is None,
        "a time without a zone, such as '2026-11-30 10:00:00'",
    ),
    (types.is_timestamp, "a time such as '2026-11-30 10:00:00+01:00', or in UTC without a zone"),
    (lambda kind: types.is_binary(kind) or types.is_fixed_size_binary(kind), "bytes: X'CAFE'"),
)
"""What values of a type are written as."""
