"""Rows of tables that fill them up: from which row of its key each value comes.

1. What the row of a key lacks is the last value before it, where ordering values never fall: then
   it does not matter how the rows were divided into commits.
2. Where they fall, or behind a delete, commits decide: a delete that is in one commit with what
   came before it leaves other values than one that meets a stored row. Such keys are left out,
   unless only one value is there and nothing deletes.
3. A value that is nowhere may be of a record that is gone, and where records may be gone one that
   ordering values decide on as well. These are `open`.

Values in, values out; all of it is arrays of whole buckets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tideline.hudi.log.missing_values import missing_values
from tideline.hudi.table.partial_updates import PartialUpdates
from tideline.ingest.verify.final_rows import (
    NOWHERE,
    UNORDERED,
    FinalRows,
    Flags,
    KeyState,
    Numbers,
    SourceRows,
)
from tideline.ingest.verify.row_codes import value_codes


@dataclass(frozen=True, slots=True)
class FilledRows:
    """For the columns in which rows are filled up: by the number of an id the position of the value
    and whether it is open. Ids in `undecided` depend on the commits."""

    positions: Mapping[str, Numbers]
    open: Mapping[str, Flags]
    undecided: Flags

    @classmethod
    def none(cls, count: int) -> FilledRows:
        """Where rows are whole."""
        return cls({}, {}, np.zeros(count, np.bool_))

    def of(self, name: str, rows: Numbers, ids: Numbers) -> Numbers:
        """The positions of a column's values for these ids, whose rows are at `rows`."""
        return self.positions[name][ids] if name in self.positions else rows

    def is_open(self, name: str, ids: Numbers) -> Flags:
        """For which of these ids a column's value is not known."""
        return self.open[name][ids] if name in self.open else np.zeros(len(ids), np.bool_)


def filled_rows(
    source: pa.Table,
    given: SourceRows,
    final: FinalRows,
    partial: PartialUpdates,
    *,
    is_ordered: bool,
    may_be_gone: bool,
) -> FilledRows:
    """Where the values of the final rows of `source` come from."""
    count = len(final.states)
    keys = _Keys.of(given, count)
    undecided = np.zeros(count, np.bool_)
    positions: dict[str, Numbers] = {}
    is_open: dict[str, Flags] = {}
    ids = np.flatnonzero(final.states == KeyState.PRESENT)
    for name in source.schema.names:
        missing = missing_values(source.column(name).combine_chunks(), partial)
        lacking = ids[missing[final.rows[ids]]]
        if not len(lacking):
            continue
        valued = ~missing & ~given.deletes
        last = _last(given, valued & keys.is_behind, count)
        # What an older row had is only known where the order of arrival is that of the rows.
        codes = value_codes(source.column(name))
        decided = keys.is_rising & ((last != NOWHERE) | ~keys.has_delete)
        decided |= ~keys.has_delete & (_distinct(given, codes, valued, count) <= 1)
        decided &= ~keys.is_spread
        undecided[lacking[~decided[lacking]]] = True
        found = final.rows.copy()
        filled = lacking[last[lacking] != NOWHERE]
        found[filled] = last[filled]
        positions[name] = found
        is_open[name] = np.zeros(count, np.bool_)
        if may_be_gone:
            is_open[name][lacking if is_ordered else lacking[last[lacking] == NOWHERE]] = True
    return FilledRows(positions, is_open, undecided)


@dataclass(frozen=True, slots=True)
class _Keys:
    """What is known of each id: whether ordering values never fall, anything deletes it, or its
    rows are in several parts, or deleted in every partition. `is_behind` are the rows behind the
    last delete of their id."""

    is_rising: Flags
    has_delete: Flags
    is_spread: Flags
    is_behind: Flags

    @classmethod
    def of(cls, given: SourceRows, count: int) -> _Keys:
        is_ranked = given.ranks != UNORDERED
        ranked = np.flatnonzero(is_ranked)
        order = ranked[np.argsort(given.ids[ranked], kind="stable")]
        falls = np.diff(given.ranks[order]) < 0
        falls &= np.diff(given.ids[order]) == 0
        is_rising = np.ones(count, np.bool_)
        is_rising[given.ids[order[1:][falls]]] = False
        has_delete = np.zeros(count, np.bool_)
        has_delete[given.ids[given.deletes]] = True
        first = np.full(count, np.iinfo(np.int64).max, np.int64)
        np.minimum.at(first, given.ids, given.parts)
        is_spread = np.zeros(count, np.bool_)
        is_spread[given.ids[given.parts != first[given.ids]]] = True
        is_spread[given.ids[np.isin(given.keys, given.keys[given.wide])]] = True
        last_delete = np.full(count, NOWHERE, np.int64)
        deletes = np.flatnonzero(given.deletes)
        last_delete[given.ids[deletes]] = deletes
        is_behind = np.arange(len(given.ids)) > last_delete[given.ids]
        return cls(is_rising, has_delete, is_spread, is_behind)


def _last(given: SourceRows, among: Flags, count: int) -> Numbers:
    """Of each id the last of these rows."""
    found = np.full(count, NOWHERE, np.int64)
    places = np.flatnonzero(among)
    np.maximum.at(found, given.ids[places], places)
    return found


def _distinct(given: SourceRows, codes: Numbers, among: Flags, count: int) -> Numbers:
    """How many values these rows have, by id."""
    pairs = np.unique(np.stack([given.ids[among], codes[among]], axis=1), axis=0)
    return np.bincount(pairs[:, 0], minlength=count).astype(np.int64)
