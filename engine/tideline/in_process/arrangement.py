"""The order in which rows of a batch go to their handles, as a rank for every row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.hudi.file_group.handle_context import HandleContext
from tideline.hudi.keys.virtual_key import column_at
from tideline.in_process.prepared_rows import Flags, Positions, PreparedRows

_SPARSE = 8
"""Numbers that are so many times as large as there are of them are numbered again."""


def row_order(batch: PreparedRows, context: HandleContext, *, drops_duplicates: bool) -> Positions:
    """A rank for every row: by (key, ordering, arrival) where duplicates are to be dropped, by
    (key, arrival) where rows fill each other up, else by arrival."""
    arrival = np.arange(len(batch))
    if not drops_duplicates and context.partial is None:
        return arrival
    ordering = () if context.partial is not None else context.ordering_fields
    return ranks(np.lexsort((*_ordering_ranks(batch, ordering), key_ranks(batch.keys))))


def last_of_each(batch: PreparedRows, codes: Positions, ordering: tuple[str, ...]) -> Positions:
    """Positions, in order, of the row with the highest ordering values of each code, of equal ones
    the later."""
    order = np.lexsort((*_ordering_ranks(batch, ordering), codes))
    is_last: Flags = np.ones(len(order), np.bool_)
    is_last[:-1] = np.diff(codes[order]) != 0
    return np.sort(order[is_last])


def last_of_keys(
    batch: PreparedRows,
    rows: Positions,
    codes: Positions,
    buckets: Positions,
    ordering: tuple[str, ...],
) -> Flags:
    """Which entries, each of a row, a key and a bucket, are those that `last_of_each` would leave
    of their key in their bucket. Only entries of keys that come again are sorted."""
    found: Flags = np.ones(len(codes), np.bool_)
    again = np.flatnonzero(_come_again(codes))
    if not len(again):
        return found
    columns = [column_at(batch.rows, name) for name in reversed(ordering)]
    wanted = pa.array(rows[again])
    by_order = [column_ranks(column.take(wanted)) for column in columns]
    order = np.lexsort((rows[again], *by_order, buckets[again], codes[again]))
    ordered = again[order]
    goes_on = (np.diff(codes[ordered]) == 0) & (np.diff(buckets[ordered]) == 0)
    found[ordered[:-1][goes_on]] = False
    return found


def _come_again(codes: Positions) -> Flags:
    """Which codes are there more than once."""
    if len(codes) and int(codes.max()) > _SPARSE * len(codes):
        codes = np.unique(codes, return_inverse=True)[1]
    found: Flags = np.bincount(codes)[codes] > 1
    return found


def key_ranks(keys: pa.Array) -> Positions:
    """The rank of every key among the batch's, in the order of texts."""
    encoded = keys.dictionary_encode()
    of_distinct = ranks(pc.sort_indices(encoded.dictionary).to_numpy().astype(np.int64))
    found: Positions = of_distinct[encoded.indices.to_numpy()]
    return found


def arrival_within(groups: Positions) -> Positions:
    """Positions group by group, those of one in their order."""
    # Numpy counts numbers of 16 bits instead of comparing them.
    is_small = len(groups) > 0 and groups.min() >= 0 and groups.max() < 1 << 15
    found: Positions = np.argsort(groups.astype(np.int16) if is_small else groups, kind="stable")
    return found


def ranks(order: Positions) -> Positions:
    """Where each position stands in an order of positions."""
    found = np.empty(len(order), np.int64)
    found[order] = np.arange(len(order))
    return found


def _ordering_ranks(batch: PreparedRows, names: tuple[str, ...]) -> list[Positions]:
    """Ranks by each ordering column, for lexsort: the first one last. Null is lowest, NaN highest,
    as in Java."""
    return [column_ranks(column_at(batch.rows, name)) for name in reversed(names)]


def column_ranks(column: pa.Array) -> Positions:
    encoded = column.cast(pa.int8()) if types.is_boolean(column.type) else column
    encoded = encoded.dictionary_encode()
    # Sorted as numbers are, NaN comes last.
    of_distinct = ranks(pc.sort_indices(encoded.dictionary).to_numpy().astype(np.int64))
    found: Positions = np.concatenate([of_distinct, [-1]])[
        pc.fill_null(encoded.indices, -1).to_numpy()
    ]
    return found
