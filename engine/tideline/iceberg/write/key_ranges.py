"""What the keys of given rows have in common, column by column: the values or the bounds of each.

The files that may have such keys are found by it; parts of the rows may be looked at apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.errors import ConfigError
from tideline.formats.row_filter import RowFilter
from tideline.iceberg.data.column_metrics import cut_above, cut_below

_FEW_KEYS = 100
_FEW_BYTES = 64 * 1024
_BOUND_LENGTH = 256
"""Of texts and bytes: a range is small whatever the keys are."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Of a column all `values`, where these are few and short, else a value that is not above them
    and one that is not below; None of a type that Arrow does not compare."""

    name: str
    values: pa.Array | None
    are_all: bool = True

    @classmethod
    def of(cls, name: str, distinct: pa.Array) -> KeyRange:
        """Of values without nulls."""
        if len(distinct) <= _FEW_KEYS and distinct.nbytes <= _FEW_BYTES:
            return cls(name, distinct)
        return cls(name, _bounds(distinct), are_all=False)

    def joined(self, other: KeyRange) -> KeyRange:
        """That of the rows of both."""
        if self.values is None or other.values is None:
            return KeyRange(self.name, None, are_all=False)
        both = pc.unique(pa.concat_arrays([self.values, other.values]))
        if self.are_all and other.are_all:
            return KeyRange.of(self.name, both)
        return KeyRange(self.name, _bounds(both), are_all=False)

    def within(self, found: RowFilter, schema: pa.Schema) -> RowFilter:
        """The condition, with that of this column. Nothing is left out by types that Arrow does not
        compare."""
        column, values = pc.field(self.name), self.values
        if values is None:
            return found
        try:
            if self.are_all:
                return found.and_also(RowFilter.of(column.isin(values), schema))
            within = (column >= values[0]) & (column <= values[1])
            return found.and_also(RowFilter.of(within, schema))
        except (pa.ArrowException, ConfigError):
            return found


def ranges_filter(ranges: Iterable[KeyRange], schema: pa.Schema) -> RowFilter:
    """The condition that all rows with such keys meet."""
    whole = RowFilter(pc.scalar(True), frozenset(), schema)
    return reduce(lambda found, key_range: key_range.within(found, schema), ranges, whole)


def _bounds(values: pa.Array) -> pa.Array | None:
    try:
        found = pc.min_max(values)
    except pa.ArrowException:
        return None
    least, greatest = found["min"], found["max"]
    if types.is_string(values.type) or types.is_binary(values.type):
        least = cut_below(least.as_py(), _BOUND_LENGTH)
        greatest = cut_above(greatest.as_py(), _BOUND_LENGTH)
        return None if greatest is None else pa.array([least, greatest], values.type)
    return pa.array([least.as_py(), greatest.as_py()], values.type)
