"""Nulls of required fields within structs that are null: Arrow writes no such rows.

A column that is younger than its file is null in all rows, and so are the fields within, whatever
they may be. What nobody sees gets some value. Nulls that are seen stay, and are refused.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types


def without_hidden_nulls(rows: pa.Table) -> pa.Table:
    """The same rows, as they are written."""
    for number, field in enumerate(rows.schema):
        if _may_hide(field.type):
            shown = [_shown(chunk, None) for chunk in rows.column(number).chunks]
            rows = rows.set_column(number, field, pa.chunked_array(shown, field.type))
    return rows


def without_validity(column: pa.Array) -> pa.Array:
    """A column with some value wherever it is null."""
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(kind, without_validity(column.storage))
    if types.is_struct(kind):
        members = [column.field(number) for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(members, fields=list(kind))
    buffers = [None, *column.buffers()[1 : kind.num_buffers]]
    if types.is_list(kind):
        inside = [column.values]
    elif types.is_map(kind):
        entries = pa.StructArray.from_arrays(
            [column.keys, column.items], fields=[kind.key_field, kind.item_field]
        )
        inside = [entries]
    else:
        inside = []
    return pa.Array.from_buffers(
        kind, len(column), buffers, null_count=0, offset=column.offset, children=inside
    )


@lru_cache(maxsize=1024)
def _may_hide(kind: pa.DataType) -> bool:
    """Whether structs with required fields are anywhere in it."""
    if types.is_map(kind):
        return _may_hide(kind.item_type)
    if types.is_list(kind):
        return _may_hide(kind.value_type)
    inside = list(kind) if types.is_struct(kind) else []
    return any(not field.nullable or _may_hide(field.type) for field in inside)


def _shown(column: pa.Array, absent: pa.Array | None) -> pa.Array:
    """The values, as nobody sees those at `absent` places."""
    kind = column.type
    if not _may_hide(kind):
        return column
    if types.is_struct(kind):
        mask = column.is_null() if column.null_count else None
        gone = absent if mask is None else mask if absent is None else pc.or_(mask, absent)
        members = [_member(column.field(at), field, gone) for at, field in enumerate(kind)]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
    if types.is_list(kind):
        inside = _shown(column.values, None)
    else:
        inside = pa.StructArray.from_arrays(
            [column.keys, _shown(column.items, None)], fields=[kind.key_field, kind.item_field]
        )
    return pa.Array.from_buffers(
        kind, len(column), column.buffers()[:2], offset=column.offset, children=[inside]
    )


def _member(column: pa.Array, field: pa.Field, absent: pa.Array | None) -> pa.Array:
    column = _shown(column, absent)
    if field.nullable or absent is None or not column.null_count:
        return column
    is_seen = pc.any(pc.and_not(column.is_null(), absent)).as_py()
    return column if is_seen else without_validity(column)
