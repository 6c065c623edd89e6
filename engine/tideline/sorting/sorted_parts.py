"""Sorting more rows than memory holds, in parts: where to cut, and which part each row is in.

1. `split_keys` finds, in a sample of the keys, those that cut the order into equal parts.
2. `part_numbers` says of every key how many of them it has passed: the number of its part.
3. Each part is sorted on its own (`sort_indices`).

Keys are tables with a column per sort key; everything is computed for whole columns at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

Numbers = npt.NDArray[np.int64]

SortKey = tuple[str, str, str]
"""Column, "ascending" or "descending", and where nulls go: "at_start" or "at_end"."""


def ascending(keys: pa.Table) -> tuple[SortKey, ...]:
    """Every column from low to high, nulls first."""
    return tuple((name, "ascending", "at_start") for name in keys.column_names)


def sort_indices(keys: pa.Table, sort_keys: Sequence[SortKey] | None = None) -> pa.Array:
    """Row numbers in the order of their keys, ascending by default; equal rows stay in order."""
    return pc.sort_indices(keys, sort_keys=list(sort_keys or ascending(keys)))


def split_keys(keys: pa.Table, parts: int, sort_keys: Sequence[SortKey] | None = None) -> pa.Table:
    """The keys, in order, that cut a sample into so many equal parts; fewer for fewer rows."""
    ordered = keys.take(sort_indices(keys, sort_keys))
    if not ordered.num_rows:
        return ordered
    picks = np.unique(np.arange(1, parts, dtype=np.int64) * ordered.num_rows // parts)
    return ordered.take(pa.array(picks, pa.int64()))


def part_numbers(
    keys: pa.Table, splits: pa.Table, sort_keys: Sequence[SortKey] | None = None
) -> Numbers:
    """How many of the splits are not after each key: the number of the key's part.

    A column of whole numbers from low to high is looked up in the splits; otherwise both are sorted
    together, splits first among equals.
    """
    if _is_plain(keys, sort_keys) and _is_plain(splits, sort_keys):
        cuts, values = (_whole_numbers(item.column(0)) for item in (splits, keys))
        return np.searchsorted(cuts, values, side="right")
    together = pa.concat_tables([splits, keys.cast(splits.schema)]).combine_chunks()
    order = sort_indices(together, sort_keys).to_numpy().astype(np.int64)
    is_split = order < splits.num_rows
    passed = np.cumsum(is_split)
    numbers = np.empty(keys.num_rows, dtype=np.int64)
    numbers[order[~is_split] - splits.num_rows] = passed[~is_split]
    return numbers


def _is_plain(keys: pa.Table, sort_keys: Sequence[SortKey] | None) -> bool:
    """Whether it is one column of whole numbers or days, without nulls and ascending."""
    column = keys.column(0)
    is_whole = types.is_integer(column.type) or types.is_date32(column.type)
    is_ascending = not sort_keys or sort_keys[0][1] == "ascending"
    return keys.num_columns == 1 and is_whole and is_ascending and not column.null_count


def _whole_numbers(column: pa.ChunkedArray) -> Numbers:
    if types.is_date32(column.type):
        column = column.cast(pa.int32())
    numbers: Numbers = column.to_numpy()
    return numbers
