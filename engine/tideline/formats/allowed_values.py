"""The values of a column that a condition allows, where it names all of them.

1. The candidates are the constants in the condition, as Arrow stores them with an expression that
   is pickled: those that are compared with, and the values of lists.
2. The condition has to contradict everything below, between and above the candidates, and null. So
   a candidate too many does no harm, and without one that is missing nothing is named.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    if row_filter.possible(others):
        return None
    found = row_filter.possible(column == scalar for scalar in scalars)
    return [candidates[number] for number in found]


def _constants(expression: pc.Expression, data_type: pa.DataType) -> Iterator[Any]:
    """The constants of an expression that are values of a type; none of one that another version of
    Arrow stores in a form of its own."""
    _, (stored, *_) = expression.__reduce__()
    try:
        batch = pa.ipc.open_file(stored).get_batch(0)
        scalars = [column[0] for column in batch.columns]
    except (pa.ArrowException, TypeError, IndexError):
        return
    for scalar in scalars:
        if not types.is_struct(scalar.type):
            yield from _of_type([scalar], data_type)
        elif any(field.name == _LIST for field in scalar.type):
            yield from _of_type(scalar[_LIST].values or (), data_type)


def _of_type(scalars: Any, data_type: pa.DataType) -> Iterator[Any]:
    for scalar in scalars:
        try:
            found = scalar.cast(data_type).as_py()
        except pa.ArrowException:
            continue
        if found is not None:
            yield found
