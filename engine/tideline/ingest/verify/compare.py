"""Comparing the rows of a source with those of a table, for one bucket of keys.

1. What the source's rows come down to is computed (`final_rows`), and where values of older rows
   are kept, which rows these are (`filled_rows`). Where nothing is updated both sides are bags of
   rows.
2. Rows are paired by key and partition path, or by all their values.
3. Where the source has lost its early records, a row is only called extra, or different, when what
   is lost cannot have made it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideline.hudi.table.partial_updates import PartialUpdates
from tideline.ingest.verify.filled_rows import FilledRows, filled_rows
from tideline.ingest.verify.final_rows import (
    NOWHERE,
    FinalRows,
    KeyState,
    SourceRows,
    final_rows,
    is_spread,
    note_known,
)
from tideline.ingest.verify.key_buckets import KEY
from tideline.ingest.verify.row_codes import Numbers, ordering_ranks, row_codes, value_codes
from tideline.ingest.verify.verification import Differences, Kind, RowDifference

PARTITION = "_tideline_partition"
DELETES = "_tideline_deletes"
WIDE = "_tideline_wide"
PART = "_tideline_part"
KNOWN = "_tideline_known"
INSERTS = "_tideline_inserts"
WHEN = "_tideline_when"
COMMIT = "_tideline_commit"
"""Columns of rows beside those of the table and KEY: the partition path; of a source's rows whether
they delete, in every partition, the number of their part, how much is known of them, whether they
are inserted whatever is there, and the commit that took them in; the commit of a table's row."""
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rules:
    """How rows are compared: `columns` of the table, and what makes a row the newest of its key.

    `is_bag`: no row takes the place of another. `is_unique_in_table`: a key is one row, whatever
    its partition. With `has_gaps` records of any age may be gone, with `lost_early` those before
    others; rows of the commits `certain` are not made of them, nor are those of the `foreign` ones
    of any record. Up to the commit `gone_until` records may be gone that came behind others. With
    `orders_deletes` a delete that is gone may be higher than what came later. Where the source
    `only_deletes`, rows are of others. Where it `mixes` inserts and updates, a key may be there
    several times. Rows are filled up as `partial` says. Keys of a
    source that is read as it is may have a row whose values are not known; in a table that
    `is_partitioned` nor is its place.
    """

    columns: tuple[str, ...]
    ordering: tuple[str, ...] = ()
    is_bag: bool = False
    is_unique_in_table: bool = False
    is_partitioned: bool = False
    has_gaps: bool = False
    lost_early: bool = False
    orders_deletes: bool = False
    only_deletes: bool = False
    mixes: bool = False
    gone_until: str = ""
    certain: frozenset[str] = frozenset()
    foreign: frozenset[str] = frozenset()
    partial: PartialUpdates | None = None
    rows_max: int = 20

    @property
    def may_lack(self) -> bool:
        """Whether the source has records no more that it once had."""
        return self.lost_early or self.has_gaps or bool(self.gone_until)


def compare_bucket(source: pa.Table, table: pa.Table, rules: Rules) -> Differences:
    """What differs. Both have the table's columns and those named above."""
    return _compare_bags(source, table, rules) if rules.is_bag else _Pairs.of(
        source, table, rules
    ).differences()  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The rows of both sides by their ids: `at` is the first row of the table of each."""

    source: pa.Table
    table: pa.Table
    rules: Rules
    source_ids: Numbers
    table_ids: Numbers
    at: Numbers
    final: FinalRows
    filled: FilledRows
    table_ranks: Numbers
    is_open: Flags
    has_open: Flags

    @classmethod
    def of(cls, source: pa.Table, table: pa.Table, rules: Rules) -> _Pairs:
        names = [KEY, PARTITION, *rules.columns]
        both = pa.concat_tables([source.select(names), table.select(names)])
        keys = value_codes(both.column(KEY))
        ids = keys if rules.is_unique_in_table else row_codes(both, [KEY, PARTITION])
        ranks, first = ordering_ranks(both, rules.ordering), source.num_rows
        count = int(ids.max(initial=NOWHERE)) + 1
        at = np.full(count, NOWHERE, np.int64)
        at[ids[first:][::-1]] = np.arange(table.num_rows)[::-1]
        deletes, wide = _flags(source.column(DELETES)), _flags(source.column(WIDE))
        parts = source.column(PART).to_numpy()
        given = SourceRows(ids[:first], keys[:first], ranks[:first], parts, deletes, wide)
        final, filled = final_rows(given, count), FilledRows.none(count)
        if rules.partial is not None:
            # Rows that moved to another partition met no row there.
            moved = row_codes(source, [PART, PARTITION]) if rules.is_unique_in_table else parts
            filled = filled_rows(
                source.select(rules.columns),
                replace(given, parts=moved),
                final,
                rules.partial,
                is_ordered=bool(rules.ordering or rules.gone_until),
                may_be_gone=rules.may_lack,
            )
            final.states[filled.undecided] = KeyState.UNDECIDED
        has_place = rules.is_unique_in_table or not rules.is_partitioned
        note_known(final, ids, keys, source.column(KNOWN).to_numpy(), has_place=has_place)
        inserts = _flags(source.column(INSERTS))
        if inserts.any():
            final.states[_is_inserted_again(given, inserts, count)] = KeyState.UNDECIDED
        if rules.mixes and rules.may_lack:
            final.states[final.states == KeyState.DELETED] = KeyState.UNDECIDED
            final.states[_may_be_inserted(table, ids[first:], count, rules)] = KeyState.UNDECIDED
        is_open = _open_rows(source, rules)
        has_open = np.zeros(count, np.bool_)
        has_open[ids[:first][is_open]] = True
        return cls(
            source,
            table,
            rules,
            ids[:first],
            ids[first:],
            at,
            final,
            filled,
            ranks[first:],
            is_open,
            has_open,
        )

    def differences(self) -> Differences:
        states, rows, at = self.final.states, self.final.rows, self.at
        present, undecided = states == KeyState.PRESENT, states == KeyState.UNDECIDED
        exists = states == KeyState.EXISTS
        missing = np.flatnonzero((present | exists) & (at == NOWHERE))
        both = np.flatnonzero(present & (at != NOWHERE))
        differs, is_open = self._differing(both)
        differing = np.any(differs, axis=0) if len(differs) else np.zeros(len(both), np.bool_)
        hides = np.any(is_open, axis=0) & ~differing if len(differs) else differing
        different = both[differing]
        extra = np.flatnonzero(
            np.isin(states, (KeyState.DELETED, KeyState.UNKNOWN_KEY)) & (at != NOWHERE)
        )
        # A key that is stored twice has one row too many, whatever its values.
        again = np.flatnonzero(at[self.table_ids] != np.arange(self.table.num_rows))
        again = again[~undecided[self.table_ids[again]]]
        unknown = self._unknown_extras(extra)
        higher = self._is_higher(different) | self._may_be_newer(different)
        unsure = missing if self._hides_deletes else missing[self.is_open[rows[missing]]]
        named = different[~higher]
        found = [
            *self._rows(Kind.MISSING, rows[np.setdiff1d(missing, unsure)], self.source),
            *self._rows(Kind.EXTRA, np.concatenate([at[extra[~unknown]], again]), self.table),
            *self._changed(named),
        ]
        return Differences(
            equal=len(both) - len(different) - int(hides.sum()),
            missing=len(missing) - len(unsure),
            extra=int((~unknown).sum()) + len(again),
            different=len(named),
            unknown=int(unknown.sum()) + int(higher.sum()) + len(unsure) + int(hides.sum()),
            undecided=int((undecided | exists & (at != NOWHERE)).sum()),
            first=tuple(found[: self.rules.rows_max]),
        )

    @property
    def _hides_deletes(self) -> bool:
        """Whether a delete that is gone may be the reason why a row is missing."""
        return self.rules.may_lack and self.rules.orders_deletes

    def _unknown_extras(self, extra: Numbers) -> Flags:
        """Which of these ids may be of records that are gone."""
        higher = self._is_higher(extra)
        if not self.rules.lost_early:
            return higher
        no_record: Flags = self.final.states[extra] == KeyState.UNKNOWN_KEY
        no_record &= ~_is_certain(self.table, self.at[extra], self.rules)
        if self.rules.only_deletes:
            deleted = np.flatnonzero(~no_record)
            no_record[deleted] = self._is_behind_delete(extra[deleted])
            return no_record
        # A record that is gone may have come behind the delete.
        again = ~no_record & self.has_open[extra] & ~self._is_foreign(extra)
        return higher | no_record | again

    def _is_behind_delete(self, ids: Numbers) -> Flags:
        """Where others write the rows: whose stored row came after the commit that deletes it."""
        last = np.full(len(self.at), NOWHERE, np.int64)
        last[self.source_ids] = np.arange(len(self.source_ids))
        commits = self.table.column(COMMIT).take(pa.array(self.at[ids]))
        deletes = self.source.column(WHEN).take(pa.array(last[ids]))
        return _flags(pc.fill_null(pc.greater(commits, deletes), True))

    def _may_be_newer(self, ids: Numbers) -> Flags:
        """Whose stored row may be of a record that is gone and came behind the one that counts."""
        newer: Flags = self.is_open[self.final.rows[ids]] & ~self._is_foreign(ids)
        return newer

    def _is_foreign(self, ids: Numbers) -> Flags:
        return _is_of(self.table, self.at[ids], self.rules.foreign)

    def _is_higher(self, ids: Numbers) -> Flags:
        """Where records may be gone: whose stored row has higher ordering values than all that is
        there, so that one that is gone may have made it. Without ordering the last record counts,
        and that is there."""
        rules = self.rules
        if not rules.ordering or not rules.may_lack:
            return np.zeros(len(ids), np.bool_)
        known: Flags = self.final.states[ids] != KeyState.UNKNOWN_KEY
        stored: Numbers = self.table_ranks[self.at[ids]]
        is_open = known & ~_is_certain(self.table, self.at[ids], rules)
        higher: Flags = is_open & np.greater(stored, self.final.highest[ids])
        return higher

    def _differing(self, ids: Numbers) -> tuple[Flags, Flags]:
        """For each column whether these ids differ in it for certain, and whether they may."""
        certain, open_ones = [], []
        for name in self.rules.columns:
            differ, is_open = self._differ(name, ids), self.filled.is_open(name, ids)
            certain.append(differ & ~is_open)
            open_ones.append(differ & is_open)
        return np.array(certain, np.bool_), np.array(open_ones, np.bool_)

    def _differ(self, name: str, ids: Numbers) -> Flags:
        old, new = self._values(name, ids)
        codes = value_codes(pa.chunked_array([*old.chunks, *new.chunks], old.type))
        differ: Flags = codes[: len(ids)] != codes[len(ids) :]
        return differ

    def _values(self, name: str, ids: Numbers) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """Those of a column in the source and in the table."""
        old = self.filled.of(name, self.final.rows[ids], ids)
        return (
            self.source.column(name).take(pa.array(old)),
            self.table.column(name).take(pa.array(self.at[ids])),
        )

    def _rows(self, kind: Kind, positions: Numbers, of: pa.Table) -> list[RowDifference]:
        return _named(kind, of.take(pa.array(positions[: self.rules.rows_max])))

    def _changed(self, ids: Numbers) -> list[RowDifference]:
        ids = ids[: self.rules.rows_max]
        differs, _ = self._differing(ids)
        pairs = {name: self._values(name, ids) for name in self.rules.columns}
        found = []
        for number, named in enumerate(
            _named(Kind.DIFFERENT, self.table.take(pa.array(self.at[ids])))
        ):
            columns = {
                name: (_value(pairs[name][0], number), _value(pairs[name][1], number))
                for place, name in enumerate(self.rules.columns)
                if differs[place, number]
            }
            found.append(RowDifference(Kind.DIFFERENT, named.key, named.partition, columns))
        return found


def _is_inserted_again(given: SourceRows, inserts: Flags, count: int) -> Flags:
    """Ids with a row that was inserted where one may have been: which one of several an update or a
    delete finds depends on the files that they are in."""
    arrival, rows = np.arange(len(given.ids)), ~given.deletes
    first = np.full(count, len(arrival), np.int64)
    np.minimum.at(first, given.ids[rows], arrival[rows])
    found = np.zeros(count, np.bool_)
    found[given.ids[rows & inserts & (arrival > first[given.ids])]] = True
    return found


def _may_be_inserted(table: pa.Table, ids: Numbers, count: int, rules: Rules) -> Flags:
    """Ids with several rows in the table, some of them perhaps of records that are gone."""
    is_open = ~_is_certain(table, np.arange(table.num_rows), rules)
    found: Flags = np.bincount(ids, minlength=count) > 1
    return found & (np.bincount(ids[is_open], minlength=count) > 0)


def _compare_bags(source: pa.Table, table: pa.Table, rules: Rules) -> Differences:
    """Rows that one side has more often than the other, but for keys that are undecided."""
    undecided = 0
    if pc.any(source.column(DELETES)).as_py():
        source, table, undecided = _without_deleted(source, table, rules)
    names = [KEY, PARTITION, *rules.columns]
    both = pa.concat_tables([source.select(names), table.select(names)])
    codes, first = row_codes(both, names), source.num_rows
    count = int(codes.max(initial=NOWHERE)) + 1
    more = np.bincount(codes[:first], minlength=count) - np.bincount(codes[first:], minlength=count)
    at = np.full(count, NOWHERE, np.int64)
    at[codes] = np.arange(len(codes))
    missing, extra = np.flatnonzero(more > 0), np.flatnonzero(more < 0)
    has_open = np.zeros(count, np.bool_)
    has_open[codes[:first][_open_rows(source, rules)]] = True
    unsure = has_open[missing]
    counts, unknown = -more[extra], np.zeros(len(extra), np.int64)
    if rules.lost_early and len(extra):
        # Rows alike are as many as there are: each that may be of what is gone explains one.
        is_open = ~_is_certain(table, np.arange(table.num_rows), rules)
        unknown = np.minimum(counts, np.bincount(codes[first:][is_open], minlength=count)[extra])
    surplus = at[extra[counts > unknown]]
    positions = [(Kind.MISSING, at[missing[~unsure]]), (Kind.EXTRA, surplus)]
    found = [
        row
        for kind, chosen in positions
        for row in _named(kind, both.take(pa.array(chosen[: rules.rows_max])))
    ]
    return Differences(
        equal=int(table.num_rows - counts.sum()),
        missing=int(more[missing[~unsure]].sum()),
        extra=int((counts - unknown).sum()),
        unknown=int(unknown.sum() + more[missing[unsure]].sum()),
        undecided=undecided,
        first=tuple(found[: rules.rows_max]),
    )


def _without_deleted(
    source: pa.Table, table: pa.Table, rules: Rules
) -> tuple[pa.Table, pa.Table, int]:
    """The rows behind the last delete of their key, and those of the table; without keys whose
    order is not known or that had several rows then, and how many these are: of these rows a delete
    finds one or all, by the files that they are in."""
    names = [KEY] if rules.is_unique_in_table else [KEY, PARTITION]
    both = pa.concat_tables([source.select(names), table.select(names)])
    ids, first = row_codes(both, names), source.num_rows
    count = int(ids.max(initial=NOWHERE)) + 1
    deletes, given = _flags(source.column(DELETES)), ids[:first]
    last = np.full(count, NOWHERE, np.int64)
    np.maximum.at(last, given[deletes], np.flatnonzero(deletes))
    before = given[~deletes & (np.arange(first) < last[given])]
    undecided = is_spread(given, source.column(PART).to_numpy(), count) & (last != NOWHERE)
    undecided |= np.bincount(before, minlength=count) > 1
    if rules.may_lack:
        undecided |= last != NOWHERE
    keeps = ~deletes & (np.arange(first) > last[given]) & ~undecided[given]
    kept = table.filter(pa.array(~undecided[ids[first:]]))
    return source.filter(pa.array(keeps)), kept, int(undecided.sum())


def _open_rows(source: pa.Table, rules: Rules) -> Flags:
    """Rows of the source behind which there may have been some that are gone."""
    if not rules.gone_until:
        return np.zeros(source.num_rows, np.bool_)
    return _flags(pc.less_equal(source.column(WHEN), rules.gone_until))


def _is_certain(table: pa.Table, positions: Numbers, rules: Rules) -> Flags:
    """Which rows of the table are of commits whose records are all there, or of no records."""
    return _is_of(table, positions, rules.certain)


def _is_of(table: pa.Table, positions: Numbers, wanted: frozenset[str]) -> Flags:
    commits = table.column(COMMIT).take(pa.array(positions))
    value_set = pa.array(sorted(wanted), pa.string())
    found: Flags = pc.is_in(commits, value_set=value_set).to_numpy()
    return found


def _named(kind: Kind, rows: pa.Table) -> list[RowDifference]:
    keys, partitions = rows.column(KEY).to_pylist(), rows.column(PARTITION).to_pylist()
    return [RowDifference(kind, *item) for item in zip(keys, partitions, strict=True)]


def _value(column: pa.ChunkedArray, number: int) -> Any:
    """As Python has it; a time that it has not is text."""
    try:
        return column[number].as_py()
    except (ValueError, OverflowError):
        return column.slice(number, 1).cast(pa.string())[0].as_py()


def _flags(column: pa.ChunkedArray) -> Flags:
    flags: Flags = column.to_numpy()
    return flags
