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
class DistinctValues:
    """The distinct values of a column. Whole numbers, dates and times are also there `ascending`,
    as numbers without null: looking others up takes no table of hashes for each batch."""

    array: pa.Array
    ascending: Codes | None = None

    @classmethod
    def of(cls, column: pa.Array) -> DistinctValues:
        """Of a column whose equality is that of Arrow."""
        distinct = pc.unique(column)
        numbers = _as_numbers(distinct)
        if numbers is None:
            return cls(distinct)
        order = np.argsort(numbers)
        listed = distinct.drop_null().take(pa.array(order))
        if distinct.null_count:
            listed = pa.concat_arrays([listed, pa.nulls(1, listed.type)])
        return cls(listed, numbers[order])

    def __len__(self) -> int:
        return len(self.array)

    @property
    def nbytes(self) -> int:
        """What they take in memory."""
        return int(self.array.nbytes)

    def places(self, column: pa.Array) -> Codes:
        """Each value's place among them, ABSENT for others."""
        if self.ascending is None:
            places = pc.index_in(column, value_set=self.array, skip_nulls=False)
            codes: Codes = places.fill_null(ABSENT).to_numpy(zero_copy_only=False).astype(np.int64)
            return codes
        numbers = _as_numbers(column)
        assert numbers is not None, "columns of one field have one type"
        found = _places(numbers, self.ascending)
        if not column.null_count:
            return found
        null = len(self.ascending) if self.array.null_count else ABSENT
        with_null = np.full(len(column), null, np.int64)
        with_null[column.is_valid().to_numpy(zero_copy_only=False)] = found
        return with_null


@dataclass(frozen=True, slots=True)
class RowValues:
    """The distinct values of some rows, numbered from 0."""

    values: tuple[DistinctValues, ...]
    """Of each field."""
    folds: tuple[Codes, ...]
    """The distinct pairs after each further field, ascending, as folded numbers."""

    @classmethod
    def of(cls, columns: Sequence[pa.Array]) -> RowValues:
        """Of rows with a column per field."""
        comparable = [comparable_values(column) for column in columns]
        values = tuple(DistinctValues.of(column) for column in comparable)
        folds: list[Codes] = []
        codes = values[0].places(comparable[0])
        for column, distinct in zip(comparable[1:], values[1:], strict=True):
            pairs = codes * len(distinct) + distinct.places(column)
            folded, codes = np.unique(pairs, return_inverse=True)
            folds.append(folded)
        return cls(values, tuple(folds))

    def __len__(self) -> int:
        return len(self.folds[-1] if self.folds else self.values[0])

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        return sum(distinct.nbytes for distinct in self.values) + sum(
            fold.nbytes for fold in self.folds
        )

    def numbers(self, columns: Sequence[pa.Array]) -> Codes:
        """The number that each row has here, ABSENT for one that equals none."""
        codes = self.values[0].places(comparable_values(columns[0]))
        for column, distinct, fold in zip(columns[1:], self.values[1:], self.folds, strict=True):
            further = distinct.places(comparable_values(column))
            pairs = np.where(
                (codes == ABSENT) | (further == ABSENT), ABSENT, codes * len(distinct) + further
            )
            codes = _places(pairs, fold)
        return codes


def _places(pairs: Codes, fold: Codes) -> Codes:
    if not len(fold):
        return np.full(len(pairs), ABSENT, np.int64)
    places = np.minimum(np.searchsorted(fold, pairs), len(fold) - 1)
    return np.where(fold[places] == pairs, places, ABSENT)


def _as_numbers(column: pa.Array) -> Codes | None:
    """Values that are whole numbers, without nulls; None of other types."""
    kind = column.type
    if not types.is_integer(kind) and not types.is_temporal(kind):
        return None
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    whole = column.drop_null() if types.is_integer(kind) else column.drop_null().view(width)
    numbers: Codes = whole.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def comparable_values(column: pa.Array) -> pa.Array:
    """Values whose equality is Iceberg's: floats become their bits, with one NaN."""
    if not types.is_floating(column.type):
        return column
    nan = pa.scalar(float("nan"), column.type)
    one_nan = pc.if_else(pc.is_nan(column), nan, column)
    return one_nan.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
