"""The order of rows by sort columns: linear, or along a z-order or Hilbert curve.

A curve wants every column as a small number. It is the number of the value among boundaries that
cut a sample of the column into equally many rows each, so that skewed columns spread evenly; nulls
come first. The numbers of a row's columns are then one position on the curve:

- z-order: their bits interleaved, the first column's bit first;
- Hilbert: the same after Skilling's transformation, which leaves no jumps between neighbours.

Everything is computed for whole columns at once.
Source: Hudi's SpaceCurveSortingHelper; J. Skilling, Programming the Hilbert curve (2004).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideline.table.row_layout import RowLayout
from tideline.write.column_encoding import decoded

Numbers = npt.NDArray[np.uint64]

_BITS_MAX = 10
_CURVE_BITS = 63


def linear_order(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """Row numbers in ascending order of the columns, nulls first; equal rows keep their order."""
    keys = pa.table([_flat(rows.column(name)) for name in columns], names=_names(columns))
    return pc.sort_indices(
        keys,
        sort_keys=[(name, "ascending") for name in keys.column_names],
        null_placement="at_start",
    )


def curve_order(rows: pa.Table, columns: Sequence[str], layout: RowLayout) -> pa.Array:
    """Row numbers in the order of a curve through the columns' own distribution."""
    values = [_flat(rows.column(name)) for name in columns]
    boundaries = [column_boundaries(value, bits_per_column(len(columns))) for value in values]
    return pc.sort_indices(pa.array(curve_positions(values, boundaries, layout)))


def row_order(rows: pa.Table, columns: Sequence[str], layout: RowLayout) -> pa.Array:
    """Row numbers in the order of the layout."""
    if layout is RowLayout.LINEAR or len(columns) == 1:
        return linear_order(rows, columns)
    return curve_order(rows, columns, layout)


def bits_per_column(columns: int) -> int:
    """How finely a curve through so many columns divides each."""
    return max(1, min(_BITS_MAX, _CURVE_BITS // columns))


def column_boundaries(sample: pa.Array, bits: int) -> pa.Array:
    """Distinct values, ascending, that cut a sample into up to 2^bits equal parts."""
    ordered = sample.drop_null().sort()
    if not len(ordered):
        return ordered
    parts = 1 << bits
    picks = np.arange(1, parts, dtype=np.int64) * len(ordered) // parts
    return ordered.take(pa.array(np.unique(picks))).unique()


def curve_positions(
    values: Sequence[pa.Array], boundaries: Sequence[pa.Array], layout: RowLayout
) -> Numbers:
    """Where each row lies on the curve through these columns."""
    bits = bits_per_column(len(values))
    numbers = [_parts(value, bound) for value, bound in zip(values, boundaries, strict=True)]
    if layout is RowLayout.HILBERT:
        numbers = _to_hilbert(numbers, bits)
    return _interleave(numbers, bits)


def _parts(values: pa.Array, boundaries: pa.Array) -> Numbers:
    """How many boundaries are not above each value; 0 for nulls.

    Boundaries and values are sorted together, boundaries first among equals.
    """
    count = len(boundaries)
    together = pa.chunked_array([boundaries, values.cast(boundaries.type)]).combine_chunks()
    order = pc.sort_indices(pa.table({"v": together}), sort_keys=[("v", "ascending")],
                            null_placement="at_start").to_numpy()  # fmt: skip
    is_boundary = order < count
    passed = np.cumsum(is_boundary).astype(np.uint64)
    numbers = np.empty(len(values), dtype=np.uint64)
    numbers[order[~is_boundary] - count] = passed[~is_boundary]
    return numbers


def _interleave(numbers: Sequence[Numbers], bits: int) -> Numbers:
    positions = np.zeros(len(numbers[0]), dtype=np.uint64)
    for bit in range(bits - 1, -1, -1):
        for column in numbers:
            positions = (positions << np.uint64(1)) | (column >> np.uint64(bit) & np.uint64(1))
    return positions


def _to_hilbert(numbers: Sequence[Numbers], bits: int) -> list[Numbers]:
    axes = [number.copy() for number in numbers]
    for bit in range(bits - 1, 0, -1):
        high, low = np.uint64(1 << bit), np.uint64((1 << bit) - 1)
        for axis in axes:
            is_set = (axis & high) != 0
            swapped = np.where(is_set, np.uint64(0), (axes[0] ^ axis) & low)
            axes[0] ^= np.where(is_set, low, swapped)
            if axis is not axes[0]:
                axis ^= swapped
    for index in range(1, len(axes)):
        axes[index] ^= axes[index - 1]
    flips = np.zeros(len(axes[0]), dtype=np.uint64)
    for bit in range(bits - 1, 0, -1):
        is_set = (axes[-1] & np.uint64(1 << bit)) != 0
        flips ^= np.where(is_set, np.uint64((1 << bit) - 1), np.uint64(0))
    return [axis ^ flips for axis in axes]


def _flat(column: pa.ChunkedArray) -> pa.Array:
    chunks = [decoded(chunk) for chunk in column.chunks]
    return pa.chunked_array(chunks, decoded(pa.nulls(0, column.type)).type).combine_chunks()


def _names(columns: Sequence[str]) -> list[str]:
    return [str(number) for number in range(len(columns))]
