"""What the keys of given rows have in common, column by column: the values or the bounds of each.

The files that may have such keys are found by it; parts of the rows may be looked at apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from tideline.errors import ConfigError
from tideline.formats.row_filter import RowFilter

_FEW_KEYS = 100


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Of a column all `values`, where these are few, else the least and the greatest; None of a
    type that Arrow does not compare."""

    name: str
    values: pa.Array | None
    are_all: bool = True

    @classmethod
    def of(cls, name: str, distinct: pa.Array) -> KeyRange:
        """Of values without nulls."""
        if len(distinct) <= _FEW_KEYS:
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
    return pa.array([found["min"].as_py(), found["max"].as_py()], values.type)
