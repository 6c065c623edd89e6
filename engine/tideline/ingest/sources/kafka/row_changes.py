"""Changes of rows in MySQL, as Maxwell and Canal write them (`row_change_forms`), as rows and
deletes.

1. One topic has the changes of many tables: each value names its own, and those of others are
   passed over before their rows are looked at, whose columns may be anything.
2. An insert or an update gives the row after it, a delete the row before. An update says which
   values the row had before: where a column of the record key is among them, the row of that key
   is deleted.
3. One value of Canal has all rows of a statement's event. Of several with one key the last counts.
4. Statements that change tables are passed over. A truncate has no rows: it stops the ingest, or is
   passed over by choice.

Both write whole rows where MySQL logs them: `binlog_row_image` is FULL unless somebody changed it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideline.formats.row_codes import last_places, row_codes
from tideline.hudi.table.stored_value import list_offsets
from tideline.ingest.sources.kafka.change_events import TruncateError
from tideline.ingest.sources.kafka.declared import RecordField
from tideline.ingest.sources.kafka.decoded import Decoded, NoRowError, read_halves
from tideline.ingest.sources.kafka.json_rows import json_rows, read_json_values
from tideline.ingest.sources.kafka.row_change_forms import Change, RowChangeForm

_Places = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]
_NO_ROW = "the event has no row"
_OTHER_OLD = "the event has old values of other rows than it has"


@dataclass(frozen=True, slots=True)
class RowChanges:
    """How the changes of `table`, a name such as shop.orders, become rows of these columns."""

    form: RowChangeForm
    table: str
    columns: pa.Schema
    key: tuple[str, ...]
    fields: tuple[RecordField, ...] = ()
    passes_truncates: bool = False

    def read(self, values: Sequence[bytes]) -> Decoded:
        """Raises TruncateError for one that is not passed over."""
        heads, faults = read_json_values(values, self.form.head)
        places = np.array([place for place in range(len(values)) if place not in faults], np.int64)
        kinds = self._kinds(heads, places, faults)
        wanted = np.flatnonzero(kinds >= 0)
        heads, places, kinds = heads.take(wanted), places[wanted], kinds[wanted]
        bad: dict[int, str] = {}
        tables = read_halves([values[place] for place in places], self._rows, bad)
        good = np.array([at for at in range(len(places)) if at not in bad], np.int64)
        faults |= {int(places[at]): reason for at, reason in bad.items()}
        heads, places, kinds = heads.take(good), places[good], kinds[good]
        if not tables:
            return Decoded(self._with_fields(self.columns.empty_table(), heads), [], faults=faults)
        events = _Events(pa.concat_tables(tables).combine_chunks(), kinds == Change.UPDATE)
        kept = self._sound(events, places, faults)
        return self._decoded(
            events.only(kept), heads.take(kept), places[kept], kinds[kept] == Change.DELETE, faults
        )

    def _kinds(self, heads: pa.Table, places: _Places, faults: dict[int, str]) -> _Places:
        """The change of each event that has rows of the table, -1 for others."""
        database, _, table = self.table.partition(".")
        found = np.full(len(places), -1, np.int64)
        is_ours = _flags(heads, "database", database) & _flags(heads, "table", table)
        written = heads.column("type").to_pylist()
        is_statement = self.form.is_statement(heads)
        lacks = np.zeros(len(places), bool)
        for name in ("database", "table", "type"):
            lacks |= heads.column(name).is_null().to_numpy()
        for at in np.flatnonzero(lacks & ~is_statement):
            faults[int(places[at])] = "the value is no change of a table"
        for at in np.flatnonzero(is_ours & ~lacks):
            change = self.form.changes.get(written[at])
            if change is Change.TRUNCATE:
                if not self.passes_truncates:
                    raise TruncateError(int(places[at]))
            elif change is not None:
                found[at] = change
            elif not is_statement[at] and not self.form.passes(written[at]):
                faults[int(places[at])] = f"no operation of a change: {written[at]!r}"
        return found

    def _rows(self, values: Sequence[bytes]) -> pa.Table:
        """The rows of each event, and their values before: lists of structs of the columns."""
        written = self.form.rows_of(self.columns)
        found = json_rows(values, pa.schema({"data": written, "old": written}))
        lists = [_listed(found.column(name).combine_chunks()) for name in ("data", "old")]
        try:
            arrays = [self._typed(item) for item in lists]
        except pa.ArrowInvalid as error:
            raise NoRowError(str(error)) from error
        return pa.table(dict(zip(("data", "old"), arrays, strict=True)))

    def _typed(self, lists: pa.ListArray) -> pa.ListArray:
        rows = lists.values
        children = []
        for item in self.columns:
            try:
                children.append(self.form.typed(rows.field(item.name), item.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
                raise NoRowError(f"column {item.name}: {error}") from error
        structs = pa.StructArray.from_arrays(
            children, fields=list(self.columns), mask=rows.is_null()
        )
        return pa.ListArray.from_arrays(list_offsets(lists), structs)

    def _sound(self, events: _Events, places: _Places, faults: dict[int, str]) -> _Places:
        """Which events have rows, and old values of as many rows."""
        lacks, differs = events.lacks_row(), events.has_other_old()
        for at in np.flatnonzero(lacks | differs):
            faults[int(places[at])] = _NO_ROW if lacks[at] else _OTHER_OLD
        return np.flatnonzero(~(lacks | differs))

    def _decoded(
        self,
        events: _Events,
        heads: pa.Table,
        places: _Places,
        deletes: _Flags,
        faults: Mapping[int, str],
    ) -> Decoded:
        after, before, parents = events.apart()
        moved = np.flatnonzero(self._has_other_key(before, after))
        former = _over(before.take(moved), after.take(moved))
        rows = pa.concat_tables([former, after])
        # The delete of a former key is just before the row that left it.
        order = np.argsort(np.concatenate([2 * moved, 2 * np.arange(after.num_rows) + 1]))
        events_of = np.concatenate([parents[moved], parents])[order]
        is_delete = np.concatenate([np.ones(len(moved), bool), deletes[parents]])[order]
        rows = rows.take(order)
        if len(events_of) > len(places):
            kept = self._last_of_each_key(rows, events_of)
            rows, events_of, is_delete = rows.take(kept), events_of[kept], is_delete[kept]
        rows = self._with_fields(rows, heads.take(events_of))
        numbers = places[events_of].tolist()
        return Decoded(rows, numbers, frozenset(np.flatnonzero(is_delete).tolist()), faults)

    def _has_other_key(self, before: pa.Table, after: pa.Table) -> _Flags:
        found = np.zeros(after.num_rows, bool)
        for name in set(self.key) & set(after.schema.names):
            differs = pc.fill_null(pc.not_equal(before.column(name), after.column(name)), False)
            found |= differs.to_numpy()
        return found

    def _last_of_each_key(self, rows: pa.Table, events_of: _Places) -> _Places:
        """The places of the rows that no later row of the same event has the key of."""
        names = [name for name in self.key if name in rows.schema.names]
        if not names:
            return np.arange(rows.num_rows)
        keys = [*(rows.column(name) for name in names), pa.array(events_of)]
        return last_places(row_codes(keys, rows.num_rows))

    def _with_fields(self, rows: pa.Table, heads: pa.Table) -> pa.Table:
        for field in self.fields:
            if rows.num_rows != heads.num_rows:
                heads = heads.slice(0, 0)
            rows = rows.append_column(field.value, self.form.field(field, heads))
        return rows


@dataclass(frozen=True, slots=True)
class _Events:
    """Lists of rows, `data` and `old`, for each event."""

    lists: pa.Table
    updates: _Flags

    def only(self, kept: _Places) -> _Events:
        return _Events(self.lists.take(kept), self.updates[kept])

    def lacks_row(self) -> _Flags:
        data = _chunk(self.lists, "data")
        found: _Flags = np.equal(_lengths(data), 0)
        nulls = np.flatnonzero(data.flatten().is_null().to_numpy(zero_copy_only=False))
        found[np.repeat(np.arange(len(data)), _lengths(data))[nulls]] = True
        return found

    def has_other_old(self) -> _Flags:
        data, old = (_lengths(_chunk(self.lists, name)) for name in ("data", "old"))
        found: _Flags = np.logical_and(self.updates, (old > 0) & (old != data))
        return found

    def apart(self) -> tuple[pa.Table, pa.Table, _Places]:
        """All rows, what they were before, and the event of each. A row of no update was nothing
        before, and a value that stays is null there."""
        data, old = _chunk(self.lists, "data"), _chunk(self.lists, "old")
        lengths, old_lengths = _lengths(data), _lengths(old)
        parents = np.repeat(np.arange(len(data)), lengths)
        within = np.arange(len(parents)) - _starts(lengths)[parents]
        has_old = (self.updates & (old_lengths > 0))[parents]
        places = pa.array(_starts(old_lengths)[parents] + within, mask=~has_old)
        return _flat(data.flatten()), _flat(old.flatten().take(places)), parents


def _listed(array: pa.Array) -> pa.ListArray:
    """One row each, as lists of one."""
    if not pa.types.is_struct(array.type):
        return array
    lengths = array.is_valid().cast(pa.int32()).to_numpy()
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, array.drop_null())


def _chunk(table: pa.Table, name: str) -> pa.ListArray:
    return table.column(name).combine_chunks()


def _lengths(lists: pa.ListArray) -> _Places:
    found: _Places = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    return found


def _starts(lengths: _Places) -> _Places:
    found: _Places = np.cumsum(lengths) - lengths
    return found


def _flat(rows: pa.StructArray) -> pa.Table:
    return pa.table(list(rows.flatten()), schema=pa.schema(list(rows.type)))


def _over(before: pa.Table, after: pa.Table) -> pa.Table:
    """The rows before: what changed over what stayed."""
    arrays = [
        pc.if_else(old.is_valid(), old, new)
        for old, new in zip(before.columns, after.columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=after.schema)


def _flags(heads: pa.Table, name: str, wanted: str) -> _Flags:
    found: _Flags = pc.fill_null(pc.equal(heads.column(name), wanted), False).to_numpy()
    return found
