"""The order of rows by sort columns: linear, or along a z-order or Hilbert curve.

A curve wants every column as a small number. It is the number of the value among boundaries that
cut a sample of the column into equally many rows each, so that skewed columns spread evenly; nulls
come first. The numbers of a row's columns are then one position on the curve:

- z-order: their bits interleaved, the first column's bit first;
- Hilbert: the same after Skilling's transformation, which leaves no jumps between neighbours.

More rows than memory holds are sorted in parts: `split_keys` finds, in a sample, keys that cut
the order into equal parts, `part_numbers` says which part each row belongs to.
Everything is computed for whole columns at once.
Source: Hudi's SpaceCurveSortingHelper; J. Skilling, Programming the Hilbert curve (2004).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideline.formats.column_encoding import decoded
from tideline.hudi.table.row_layout import RowLayout

Numbers = npt.NDArray[np.uint64]

_BITS_MAX = 10
_CURVE_BITS = 63


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
        bits = _bits_per_column(len(self.columns))
        values = (_flat(sample.column(name)) for name in self.columns)
        return replace(self, boundaries=tuple(_boundaries(column, bits) for column in values))

    def keys(self, rows: pa.Table) -> pa.Table:
        """What the rows are compared by, column after column."""
        values = [_flat(rows.column(name)) for name in self.columns]
        if not self.is_linear:
            values = [pa.array(curve_positions(values, self.boundaries, self.layout))]
        return pa.table(values, names=[str(number) for number in range(len(values))])

    def indices(self, rows: pa.Table) -> pa.Array:
        """Row numbers in this order; a curve without boundaries takes them from the rows."""
        order = self if self.boundaries else self.sampled(rows)
        return _sorted_indices(order.keys(rows))


def split_keys(keys: pa.Table, parts: int) -> pa.Table:
    """The keys, ascending, that cut a sample into so many equal parts; fewer for fewer rows."""
    ordered = keys.take(_sorted_indices(keys))
    if not ordered.num_rows:
        return ordered
    picks = np.unique(np.arange(1, parts, dtype=np.int64) * ordered.num_rows // parts)
    return ordered.take(pa.array(picks, pa.int64()))


def part_numbers(keys: pa.Table, splits: pa.Table) -> npt.NDArray[np.int64]:
    """How many of the splits are not above each key: the number of the key's part.

    Both are sorted together, splits first among equals.
    """
    together = pa.concat_tables([splits, keys.cast(splits.schema)]).combine_chunks()
    order = _sorted_indices(together).to_numpy().astype(np.int64)
    is_split = order < splits.num_rows
    passed = np.cumsum(is_split)
    numbers = np.empty(keys.num_rows, dtype=np.int64)
    numbers[order[~is_split] - splits.num_rows] = passed[~is_split]
    return numbers


def curve_positions(
    values: Sequence[pa.Array], boundaries: Sequence[pa.Array], layout: RowLayout
) -> Numbers:
    """Where each row lies on the curve through these columns."""
    bits = _bits_per_column(len(values))
    numbers = [
        part_numbers(pa.table({"0": value}), pa.table({"0": bound})).astype(np.uint64)
        for value, bound in zip(values, boundaries, strict=True)
    ]
    if layout is RowLayout.HILBERT:
        numbers = _to_hilbert(numbers, bits)
    return _interleave(numbers, bits)


def _sorted_indices(keys: pa.Table) -> pa.Array:
    """Nulls first; equal rows keep their order."""
    return pc.sort_indices(
        keys, sort_keys=[(name, "ascending", "at_start") for name in keys.column_names]
    )


def _bits_per_column(columns: int) -> int:
    """How finely a curve through so many columns divides each."""
    return max(1, min(_BITS_MAX, _CURVE_BITS // columns))


def _boundaries(sample: pa.Array, bits: int) -> pa.Array:
    """Distinct values, ascending, that cut a sample into up to 2^bits equal parts."""
    splits = split_keys(pa.table({"0": sample.drop_null()}), 1 << bits)
    return pc.unique(splits.column(0).combine_chunks())


def _interleave(numbers: Sequence[Numbers], bits: int) -> Numbers:
    positions = np.zeros(len(numbers[0]), dtype=np.uint64)
    one = np.uint64(1)
    for bit in range(bits - 1, -1, -1):
        for column in numbers:
            positions = (positions << one) | (column >> np.uint64(bit) & one)
    return positions


def _to_hilbert(numbers: Sequence[Numbers], bits: int) -> list[Numbers]:
    axes = [number.copy() for number in numbers]
    zero = np.uint64(0)
    for bit in range(bits - 1, 0, -1):
        high, low = np.uint64(1 << bit), np.uint64((1 << bit) - 1)
        for index, axis in enumerate(axes):
            is_set = (axis & high) != 0
            swapped = np.where(is_set, zero, (axes[0] ^ axis) & low)
            axes[0] ^= np.where(is_set, low, swapped)
            if index:
                axis ^= swapped
    for index in range(1, len(axes)):
        axes[index] ^= axes[index - 1]
    flips = np.zeros(len(axes[0]), dtype=np.uint64)
    for bit in range(bits - 1, 0, -1):
        is_set = (axes[-1] & np.uint64(1 << bit)) != 0
        flips ^= np.where(is_set, np.uint64((1 << bit) - 1), zero)
    return [axis ^ flips for axis in axes]


def _flat(column: pa.ChunkedArray) -> pa.Array:
    chunks = [decoded(chunk) for chunk in column.chunks]
    return pa.chunked_array(chunks, decoded(pa.nulls(0, column.type)).type).combine_chunks()
