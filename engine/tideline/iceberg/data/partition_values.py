"""Rows cut by the partition they belong to, for whole batches at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from tideline.errors import InvalidDataError, UnsupportedTableError
from tideline.iceberg.data.arrow_schema import as_internal
from tideline.iceberg.data.nested_column import ColumnPath
from tideline.iceberg.data.row_values import comparable_values
from tideline.iceberg.data.transforms import transformed
from tideline.iceberg.metadata.field_type import Decimal, Fixed
from tideline.iceberg.metadata.partition_spec import PartitionField, PartitionSpec
from tideline.iceberg.metadata.schema import Schema


class PartitionSplitter:
    """Computes the partition tuples of rows under a spec."""

    def __init__(self, spec: PartitionSpec, schema: Schema) -> None:
        self._kinds = [field.type for field in spec.partition_type(schema).fields]
        self._fields = [(field, _source(field, schema)) for field in spec.fields]

    def columns(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """The partition values of every row, an array per field of the spec."""
        return [
            pa.nulls(rows.num_rows)
            if path is None
            else transformed(field.transform, path.values(rows))
            for field, path in self._fields
        ]

    def split(self, rows: pa.RecordBatch) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
        """The rows of each partition, in their order, with the partition's tuple."""
        columns = self.columns(rows)
        codes = np.zeros(rows.num_rows, dtype=np.int64)
        for column in columns:
            encoded = comparable_values(column).dictionary_encode(null_encoding="encode")
            pairs = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
            codes = np.unique(pairs, return_inverse=True)[1]
        count = int(codes.max()) + 1 if len(codes) else 0
        if count <= 1:
            if rows.num_rows:
                yield self._tuple(columns, 0), rows
            return
        order = np.argsort(codes, kind="stable")
        cuts = np.searchsorted(codes[order], np.arange(count + 1)).tolist()
        arranged = rows.take(pa.array(order))
        for number in range(count):
            start, end = cuts[number], cuts[number + 1]
            yield self._tuple(columns, int(order[start])), arranged.slice(start, end - start)

    def _tuple(self, columns: list[pa.Array], row: int) -> tuple[Any, ...]:
        values = (
            as_internal(column[row], kind)
            for column, kind in zip(columns, self._kinds, strict=True)
        )
        # One NaN for all rows: another one would be another partition.
        return tuple(value if value == value else math.nan for value in values)


def refuse_unstorable(partition: tuple[Any, ...], spec: PartitionSpec, schema: Schema) -> None:
    """Raises InvalidDataError for a decimal that `truncate` has given more digits than its column
    has: Iceberg does not write it, nor rewrite a manifest that has it. UnsupportedTableError for
    fixed bytes, which Iceberg's Java reads in no manifest but its own."""
    for value, field in zip(partition, spec.partition_type(schema).fields, strict=True):
        kind = field.type
        if isinstance(kind, Fixed) and value is not None:
            message = (
                "rows are not written into partitions of fixed bytes, which Iceberg's Java stores "
                "in a way of its own: drop the partition field, or take buckets"
            )
            raise UnsupportedTableError(message, value=field.name)
        if not isinstance(kind, Decimal) or value is None:
            continue
        if len(value.as_tuple().digits) > kind.precision and value:
            message = f"the partition value {field.name} of a row has more digits than {kind}"
            raise InvalidDataError(message, value=value)


def _source(field: PartitionField, schema: Schema) -> ColumnPath | None:
    """Where the source column is; None for a void field, which may have lost it."""
    if field.transform.name == "void":
        return None
    path = ColumnPath.find(schema.fields, field.source_id)
    if path is None:
        raise UnsupportedTableError(
            "the output partition spec needs a column that was dropped", value=field.name
        )
    return path
