"""Rows under the names that a table has for their columns, at any depth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from tideline.hudi.write.batch_rules import ARRIVAL
from tideline.iceberg.data.arrow_schema import list_array, map_array, struct_array


def as_named(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """The columns and their parts by the table's names, which differ in case at most. What the
    table lacks is left out: it has nothing but nulls, else it had been added."""
    kept = list(_kept(rows.schema, columns))
    fitted = [_column(rows.column(number), known.type) for number, known in kept]
    return pa.table(fitted, names=[known.name for _, known in kept])


@dataclass(frozen=True, slots=True)
class NamedRows:
    """The same of batches of rows, in tasks of Spark."""

    columns: pa.Schema

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        named = as_named(pa.Table.from_batches([rows]), self.columns)
        columns = [column.combine_chunks() for column in named.columns]
        return pa.RecordBatch.from_arrays(columns, names=named.column_names)


def as_arrived(rows: pa.Table) -> pa.Table:
    """The rows in the order of their arrival."""
    if ARRIVAL not in rows.column_names:
        return rows
    arrival = rows.column(ARRIVAL).to_numpy()
    rows = rows.drop_columns([ARRIVAL])
    is_sorted = bool((arrival[:-1] <= arrival[1:]).all())
    return rows if is_sorted else rows.take(pa.array(np.argsort(arrival, kind="stable")))


def names_in(schema: pa.Schema, names: Sequence[str]) -> tuple[str, ...]:
    """Columns by the table's names for them."""
    known = {name.casefold(): name for name in schema.names}
    return tuple(known.get(name.casefold(), name) for name in names)


def _kept(found: Iterable[pa.Field], columns: Iterable[pa.Field]) -> Iterator[tuple[int, pa.Field]]:
    """The number of each field that is known, and what is known of it."""
    listed = list(columns)
    folded = {field.name.casefold(): field for field in listed}
    exact = {field.name: field for field in listed}
    for number, field in enumerate(found):
        known = exact.get(field.name) or folded.get(field.name.casefold())
        if known is not None:
            yield number, known


def _column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if not types.is_nested(column.type):
        return column
    chunks = column.chunks or [pa.nulls(0, column.type)]
    return pa.chunked_array([_parts(chunk, kind) for chunk in chunks])


def _parts(column: Any, kind: pa.DataType) -> Any:
    found = column.type
    if types.is_struct(found) and types.is_struct(kind):
        kept = list(_kept(found, kind))
        children = [_parts(column.field(number), known.type) for number, known in kept]
        fields = [
            pa.field(known.name, child.type)
            for (_, known), child in zip(kept, children, strict=True)
        ]
        return struct_array(column, children, pa.struct(fields))
    if types.is_list(found) and types.is_list(kind):
        values = _parts(column.values, kind.value_type)
        return list_array(column, values, pa.list_(values.type))
    if types.is_map(found) and types.is_map(kind):
        items = _parts(column.items, kind.item_type)
        return map_array(column, column.keys, items, pa.map_(found.key_type, items.type))
    return column
