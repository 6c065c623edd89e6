"""Rows of a group that memory does not hold, cut into parts of its order.

1. `sampled_keys` takes evenly spaced rows of the key columns; `Routes.of` cuts the order at them.
2. `Routes.routed` sends the rows of some file splits to the parts that they belong to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tideline.formats.gathered_rows import gathered
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.data.row_order import RowOrder
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.services.rewrite_data_files.execute import read_file_splits
from tideline.iceberg.services.rewrite_data_files.file_split import FileSplit
from tideline.iceberg.table.file_io import FileIO

SAMPLE_ROWS_PER_PART = 2_000
_ROUTED_BYTES = 32 * 1024 * 1024
_SHORT_NUMBERS = 1 << 16


@dataclass(frozen=True, slots=True)
class Routes:
    """Which part of the order each row belongs to; picklable."""

    order: RowOrder
    schema: Schema
    splits: pa.Table

    @classmethod
    def of(
        cls, order: RowOrder, keys: RowLayout, sample: pa.Table, schema: Schema, parts: int
    ) -> Routes:
        """Equal parts by a sample of rows that `keys` lays out, of a table with this schema."""
        ordered = order.sampled(sample, keys.schema)
        splits = ordered.split_keys(ordered.keys(sample, keys.schema), parts)
        return cls(ordered, schema, splits)

    def routed(
        self, io: FileIO, layout: RowLayout, file_splits: Sequence[FileSplit]
    ) -> Iterator[tuple[int, pa.Table]]:
        """The live rows of some file splits by the number of their part, many megabytes at once."""
        for gathered_rows in gathered(read_file_splits(io, layout, file_splits), _ROUTED_BYTES):
            rows = gathered_rows.combine_chunks()
            numbers = self.order.part_numbers(self.order.keys(rows, self.schema), self.splits)
            if self.splits.num_rows < _SHORT_NUMBERS:
                # Which are sorted by their bytes.
                numbers = numbers.astype(np.uint16)
            order = np.argsort(numbers, kind="stable")
            arranged, ordered = rows.take(pa.array(order)), numbers[order]
            starts = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), rows.num_rows]
            for start, end in pairwise(starts):
                if start < end:
                    yield int(ordered[start]), arranged.slice(start, end - start)


def key_layout(layout: RowLayout, order: RowOrder) -> RowLayout:
    """The columns that an order compares, and nothing else."""
    ids = set(order.source_ids)
    fields = tuple(
        field
        for field in layout.schema.fields
        if ids & set(Schema(0, (field,)).leaves()) or field.field_id in ids
    )
    return replace(
        layout,
        schema=Schema(layout.schema.schema_id, fields),
        older_schemas=(layout.schema, *layout.older_schemas),
        has_lineage=False,
    )


def sampled_keys(
    io: FileIO, keys: RowLayout, file_splits: Sequence[FileSplit], rows_wanted: int
) -> pa.Table:
    """About so many rows of some file splits, evenly spaced."""
    rows_known = sum(file_split.task.data_file.record_count for file_split in file_splits)
    step = max(1, rows_known // rows_wanted)
    thinned = [
        rows.take(pa.array(np.arange(0, rows.num_rows, step)))
        for rows in read_file_splits(io, keys, file_splits)
    ]
    return pa.Table.from_batches(thinned, schema=arrow_schema(keys.fields))
