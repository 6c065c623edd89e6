"""The order of rows by sort keys: by terms, or along a z-order curve.

A term is a transform of a column, ascending or descending, with nulls first or last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa

from tideline.iceberg.data.nested_column import ColumnPath
from tideline.iceberg.data.transforms import transformed
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.sort_order import SortField, SortOrder
from tideline.sorting.sorted_parts import (
    Numbers,
    SortKey,
    part_numbers,
    sort_indices,
    split_keys,
)
from tideline.sorting.space_curve import boundaries, curve_positions

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class RowOrder:
    """An order of rows. `boundaries` of a curve's columns come from a sample; see `sampled`."""

    fields: tuple[SortField, ...]
    is_curve: bool = False
    prefix: tuple[SortField, ...] = ()
    """Keys that come before all others: those of the partitions when rows are of several."""
    boundaries: tuple[pa.Array, ...] = ()

    def id_among(self, orders: Iterable[SortOrder]) -> int:
        """The id of the table's own order that this is; 0 when it is none of them."""
        if self.is_curve or not self.fields:
            return 0
        found = (order.order_id for order in orders if order.fields == self.fields)
        return next(found, 0)

    @property
    def source_ids(self) -> tuple[int, ...]:
        """The columns that the keys are made of."""
        return tuple(field.source_id for field in (*self.prefix, *self.fields))

    def within(self, spec: PartitionSpec) -> RowOrder:
        """This order within each partition of a spec."""
        fields = (field for field in spec.fields if field.transform.name != "void")
        keys = tuple(SortField(field.source_id, field.transform) for field in fields)
        return replace(self, prefix=keys)

    def keys(self, rows: pa.Table, schema: Schema) -> pa.Table:
        """What rows are compared by, a column per sort key."""
        columns = [_values(rows, schema, field) for field in self.fields]
        if self.is_curve:
            columns = [pa.array(curve_positions(columns, self.boundaries))]
        columns = [*(_values(rows, schema, field) for field in self.prefix), *columns]
        return pa.table(columns, names=[str(number) for number in range(len(columns))])

    def sampled(self, sample: pa.Table, schema: Schema) -> RowOrder:
        """This order with the boundaries that a sample of the rows gives a curve."""
        if not self.is_curve:
            return self
        columns = [_values(sample, schema, field) for field in self.fields]
        return replace(self, boundaries=boundaries(columns))

    def sorted_parts(
        self, batches: Iterable[pa.RecordBatch], schema: Schema, parts: int = 1
    ) -> Iterator[Iterator[pa.RecordBatch]]:
        """All rows in order, sorted in memory, in so many equal parts; equal rows stay as they
        were."""
        held = list(batches)
        if not held:
            return
        rows = pa.Table.from_batches(held).combine_chunks()
        held.clear()
        order = self if self.boundaries else self.sampled(rows, schema)
        indices = order.sort_indices(order.keys(rows, schema))
        cuts = [rows.num_rows * part // parts for part in range(parts + 1)]
        for start, end in pairwise(cuts):
            yield _taken(rows, indices.slice(start, end - start))

    def sort_indices(self, keys: pa.Table) -> pa.Array:
        """Row numbers in the order of their keys."""
        return sort_indices(keys, self._sort_keys())

    def split_keys(self, keys: pa.Table, parts: int) -> pa.Table:
        """The keys that cut a sample into so many equal parts; fewer for fewer rows."""
        return split_keys(keys, parts, self._sort_keys())

    def part_numbers(self, keys: pa.Table, splits: pa.Table) -> Numbers:
        """How many of the splits are not after each key: the number of the key's part."""
        return part_numbers(keys, splits, self._sort_keys())

    def _sort_keys(self) -> list[SortKey]:
        curve = (SortField(0),) if self.is_curve else self.fields
        return [
            (
                str(number),
                "descending" if field.is_descending else "ascending",
                "at_start" if field.nulls_first else "at_end",
            )
            for number, field in enumerate((*self.prefix, *curve))
        ]


def _values(rows: Any, schema: Schema, field: SortField) -> pa.Array:
    path = ColumnPath.find(schema.fields, field.source_id)
    assert path is not None, f"the schema lacks sort column {field.source_id}"
    column = path.values(rows)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return transformed(field.transform, column)


def _taken(rows: pa.Table, indices: pa.Array) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(indices), _BATCH_ROWS):
        part = rows.take(indices.slice(start, _BATCH_ROWS))
        yield from part.combine_chunks().to_batches()
