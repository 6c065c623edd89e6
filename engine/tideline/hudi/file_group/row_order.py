"""The order of rows by the columns a clustering sorts by: linear, or along a curve.

Source: Hudi's SpaceCurveSortingHelper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from tideline.hudi.table.row_layout import RowLayout
from tideline.parquet.column_encoding import decoded
from tideline.sorting.sorted_parts import sort_indices
from tideline.sorting.space_curve import Curve, boundaries, curve_positions


@dataclass(frozen=True, slots=True)
class RowOrder:
    """An order of rows. `boundaries` of a curve's columns come from a sample; see `sampled`."""

    columns: tuple[str, ...]
    layout: RowLayout = RowLayout.LINEAR
    boundaries: tuple[pa.Array, ...] = ()

    @property
    def is_linear(self) -> bool:
        """Along one column every curve is a straight line."""
        return self.layout is RowLayout.LINEAR or len(self.columns) == 1

    def sampled(self, sample: pa.Table) -> RowOrder:
        """This order with the boundaries that a sample of the rows gives a curve."""
        if self.is_linear:
            return self
        return replace(
            self, boundaries=boundaries([_flat(sample.column(name)) for name in self.columns])
        )

    def keys(self, rows: pa.Table) -> pa.Table:
        """What the rows are compared by, ascending, column after column."""
        values = [_flat(rows.column(name)) for name in self.columns]
        if not self.is_linear:
            curve = Curve(self.layout.value)
            values = [pa.array(curve_positions(values, self.boundaries, curve))]
        return pa.table(values, names=[str(number) for number in range(len(values))])

    def indices(self, rows: pa.Table) -> pa.Array:
        """Row numbers in this order; a curve without boundaries takes them from the rows."""
        order = self if self.boundaries else self.sampled(rows)
        return sort_indices(order.keys(rows))


def _flat(column: pa.ChunkedArray) -> pa.Array:
    chunks = [decoded(chunk) for chunk in column.chunks]
    return pa.chunked_array(chunks, decoded(pa.nulls(0, column.type)).type).combine_chunks()
