"""Filters that Spark pushes into the data source, as conditions on rows in Arrow.

Only what means the same in both is taken over: comparisons with values of whole numbers, booleans,
text and days. Null compares as in SQL on both sides: a row for which a condition is null is none
that it selects.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from tideline.formats.row_filter import RowFilter

_COMPARED: Mapping[type[Filter], Callable[[pc.Expression, Any], pc.Expression]] = {
    EqualTo: lambda column, value: column == value,
    GreaterThan: lambda column, value: column > value,
    GreaterThanOrEqual: lambda column, value: column >= value,
    LessThan: lambda column, value: column < value,
    LessThanOrEqual: lambda column, value: column <= value,
}


def beginning_with(column: pc.Expression, text: str) -> pc.Expression:
    """That a text begins with another, in a form that bounds can contradict."""
    found = pc.starts_with(column, text) & (column >= text)
    least_after = _after_all_with(text)
    return found if least_after is None else found & (column < least_after)


_MATCHED: Mapping[type[Filter], Callable[..., pc.Expression]] = {
    StringStartsWith: beginning_with,
    StringEndsWith: pc.ends_with,
    StringContains: pc.match_substring,
}


def pushed_filter(filters: Iterable[Filter], schema: pa.Schema) -> RowFilter | None:
    """What all of the filters together select of rows of this schema, as far as Arrow can say.

    None where it can say nothing. Spark asks all filters again of the rows that are left.
    """
    found: RowFilter | None = None
    for candidate in filters:
        condition = _condition(candidate, schema)
        if condition is not None:
            found = RowFilter.of(condition, schema).and_also(found)
    return found


def _condition(candidate: Filter, schema: pa.Schema) -> pc.Expression | None:
    if isinstance(candidate, Not):
        child = candidate.child
        # Of null neither is true, in SQL.
        is_plain = isinstance(child, EqualTo) or (isinstance(child, In) and None not in child.value)
        inner = _condition(child, schema) if is_plain else None
        return None if inner is None else ~inner & pc.field(_name(child)).is_valid()
    name = _name(candidate)
    if name is None or name not in schema.names:
        return None
    column, type_ = pc.field(name), schema.field(name).type
    if isinstance(candidate, IsNull):
        return column.is_null()
    if isinstance(candidate, IsNotNull):
        return column.is_valid()
    if isinstance(candidate, In):
        values = [value for value in candidate.value if value is not None]
        if not all(_is_of(value, type_) for value in values):
            return None
        return column.isin(pa.array(values, type_)) & column.is_valid()
    if isinstance(candidate, EqualNullSafe) and candidate.value is None:
        return column.is_null()
    value = getattr(candidate, "value", None)
    if not _is_of(value, type_):
        return None
    if isinstance(candidate, EqualNullSafe):
        return (column == pa.scalar(value, type_)) & column.is_valid()
    if type(candidate) in _COMPARED:
        return _COMPARED[type(candidate)](column, pa.scalar(value, type_))
    if type(candidate) in _MATCHED and types.is_string(type_):
        return _MATCHED[type(candidate)](column, value)
    return None


def _name(candidate: Filter) -> str | None:
    """The column that a filter is about, unless that is a field within one."""
    path: tuple[str, ...] = getattr(candidate, "attribute", ())
    return path[0] if len(path) == 1 else None


def _is_of(value: object, type_: pa.DataType) -> bool:
    """Whether a value is one that both compare alike with a column of this type."""
    if types.is_boolean(type_):
        return isinstance(value, bool)
    if types.is_signed_integer(type_):
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return is_whole and -(1 << (type_.bit_width - 1)) <= value < 1 << (type_.bit_width - 1)
    if types.is_string(type_):
        return isinstance(value, str)
    if types.is_date32(type_):
        return isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    return False


def _after_all_with(text: str) -> str | None:
    """The least text after all that begin with this one, in the order of their bytes."""
    shorter = text.rstrip(chr(sys.maxunicode))
    if not shorter:
        return None
    following = ord(shorter[-1]) + 1
    # No text has surrogates.
    return shorter[:-1] + (chr(following) if not 0xD800 <= following < 0xE000 else "\ue000")
