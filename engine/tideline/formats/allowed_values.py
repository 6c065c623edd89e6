"""The values of a column that a condition allows, where it names all of them.

1. The candidates are the constants in the condition, as Arrow stores them with an expression that
   is pickled: those that are compared with, and the values of lists.
2. The condition has to contradict everything below, between and above the candidates, and null. So
   a candidate too many does no harm, and without one that is missing nothing is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.formats.row_filter import RowFilter

VALUES_MAX = 50
"""What a longer list contradicts Arrow does not find out."""

_LIST = "value_set"
"""How Arrow names the values of `is_in` among its options."""


def allowed_values(row_filter: RowFilter, name: str) -> list[Any] | None:
    """The values of a column of text or whole numbers, ascending, that rows of a condition may
    have; None where it allows others, null among them, or names more than `VALUES_MAX`."""
    if name not in row_filter.columns:
        return None
    data_type = row_filter.schema.field(name).type
    if not (types.is_string(data_type) or types.is_signed_integer(data_type)):
        return None
    candidates = sorted(set(_constants(row_filter.expression, data_type)))
    if not 0 < len(candidates) <= VALUES_MAX:
        return None
    column = pc.field(name)
    scalars = [pa.scalar(value, data_type) for value in candidates]
    others = [column.is_null(), column < scalars[0], column > scalars[-1]]
    others += [(column > below) & (column < above) for below, above in pairwise(scalars)]
    if types.is_integer(data_type):
        # Arrow looks through casts to floating numbers, where neighbours may be one number.
        near = {value + step for value in candidates for step in (-1, 1)} - set(candidates)
        others += [column == scalar for scalar in _scalars(sorted(near), data_type)]
    if row_filter.possible(others):
        return None
    found = row_filter.possible(column == scalar for scalar in scalars)
    return [candidates[number] for number in found]


def _constants(expression: pc.Expression, data_type: pa.DataType) -> Iterator[Any]:
    """The constants of an expression that are texts, or whole numbers, as values of a type are;
    none of an expression that another version of Arrow stores in a form of its own."""
    try:
        _, (stored, *_) = expression.__reduce__()
        columns = pa.ipc.open_file(stored).get_batch(0).columns
    except (pa.ArrowException, TypeError, ValueError):
        return
    for values in columns:
        if types.is_struct(values.type) and any(field.name == _LIST for field in values.type):
            values = values[0][_LIST].values
        if values is not None and len(values) <= VALUES_MAX and _is_alike(values.type, data_type):
            found = (value for value in values.to_pylist() if value is not None)
            yield from (scalar.as_py() for scalar in _scalars(found, data_type))


def _is_alike(found: pa.DataType, wanted: pa.DataType) -> bool:
    texts = (types.is_string, types.is_large_string)
    alike = texts if types.is_string(wanted) else (types.is_integer,)
    return any(matches(found) for matches in alike)


def _scalars(values: Iterable[Any], data_type: pa.DataType) -> Iterator[pa.Scalar]:
    """Those of the values that the type has."""
    for value in values:
        try:
            yield pa.scalar(value, data_type)
        except (pa.ArrowException, OverflowError):
            continue
