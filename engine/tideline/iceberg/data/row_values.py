"""Rows by their values in some fields, prepared to look many others up.

Each field's values become small numbers, their places among the distinct ones; the numbers of
several fields are folded into one. Null equals null, NaN equals NaN, and the two zeros of a float
differ, as in Iceberg's comparators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

Codes = npt.NDArray[np.int64]
ABSENT = -1


@dataclass(frozen=True, slots=True)
class RowValues:
    """The distinct values of some rows, numbered from 0."""

    values: tuple[pa.Array, ...]
    """The distinct values of each field."""
    folds: tuple[Codes, ...]
    """The distinct pairs after each further field, ascending, as folded numbers."""

    @classmethod
    def of(cls, columns: Sequence[pa.Array]) -> RowValues:
        """Of rows with a column per field."""
        comparable = [_comparable(column) for column in columns]
        values = tuple(pc.unique(column) for column in comparable)
        folds: list[Codes] = []
        codes = _codes(comparable[0], values[0])
        for column, distinct in zip(comparable[1:], values[1:], strict=True):
            pairs = codes * len(distinct) + _codes(column, distinct)
            folded, codes = np.unique(pairs, return_inverse=True)
            folds.append(folded)
        return cls(values, tuple(folds))

    def __len__(self) -> int:
        return len(self.folds[-1] if self.folds else self.values[0])

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        return sum(part.nbytes for part in (*self.values, *self.folds))

    def numbers(self, columns: Sequence[pa.Array]) -> Codes:
        """The number that each row has here, ABSENT for one that equals none."""
        codes = _codes(_comparable(columns[0]), self.values[0])
        for column, distinct, fold in zip(columns[1:], self.values[1:], self.folds, strict=True):
            further = _codes(_comparable(column), distinct)
            pairs = np.where(
                (codes == ABSENT) | (further == ABSENT), ABSENT, codes * len(distinct) + further
            )
            codes = _places(pairs, fold)
        return codes


def _codes(column: pa.Array, distinct: pa.Array) -> Codes:
    """Each value's place among distinct ones, nulls included."""
    places = pc.index_in(column, value_set=distinct, skip_nulls=False)
    codes: Codes = places.fill_null(ABSENT).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _places(pairs: Codes, fold: Codes) -> Codes:
    if not len(fold):
        return np.full(len(pairs), ABSENT, np.int64)
    places = np.minimum(np.searchsorted(fold, pairs), len(fold) - 1)
    return np.where(fold[places] == pairs, places, ABSENT)


def _comparable(column: pa.Array) -> pa.Array:
    """Values whose equality is Iceberg's: floats become their bits, with one NaN."""
    if not types.is_floating(column.type):
        return column
    nan = pa.scalar(float("nan"), column.type)
    one_nan = pc.if_else(pc.is_nan(column), nan, column)
    return one_nan.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
