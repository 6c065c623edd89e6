"""A table of Postgres where its rows are read: by this process, into Arrow.

1. The first range makes publication and slot, and has no rows.
2. Rows of the first copy, and those of changes, are texts that are read by the types of the table.
3. Changes are in the order of the log, which decides: of two rows of a key the later one counts.
4. A table that is copied again deletes rows that the copy did not write once all is copied: by the
   commits that they are of, or the copy takes their place.
5. A row with a value that its column cannot have is a bad row. Bad rows are kept in the set-aside
   folder, or fail the ingest.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from tideline.bad_input import BadInput, BadRow
from tideline.errors import ConfigError, StorageUnavailableError
from tideline.hudi.table.meta_column import is_meta_column
from tideline.hudi.write.batch_rules import ARRIVAL, DELETED_FLAG
from tideline.ingest.arrow_schema import arrow_schema
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.postgres.changes import Changes, Texts, texts_of_rows
from tideline.ingest.sources.postgres.column_types import inferred_schema
from tideline.ingest.sources.postgres.connection import connected
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.log import read_log
from tideline.ingest.sources.postgres.lsn import lsn_text
from tideline.ingest.sources.postgres.pgoutput import Unchanged
from tideline.ingest.sources.postgres.position import PostgresPosition
from tideline.ingest.sources.postgres.ranges import Again, PostgresRange, postgres_range_of
from tideline.ingest.sources.postgres.server import (
    advance_slot,
    copy_rows,
    current_values,
    find_table,
    make_slot,
    require_same,
)
from tideline.ingest.sources.postgres.server_table import ServerTable
from tideline.ingest.sources.postgres.text_values import read_values
from tideline.ingest.sources.set_aside import keep_bad_rows, refused_part
from tideline.ingest.sources.source import (
    ForSpark,
    Position,
    Range,
    Rows,
    Settled,
    Shape,
    SparkRows,
    Sweep,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN_CHARACTERS_MAX = 10_000
_SWEPT_MAX = 200_000
"""Rows that one commit deletes behind a copy into a table that had rows."""


@dataclass(frozen=True, slots=True)
class PostgresSource:
    """See `tideline.ingest.sources.source`."""

    declared: DeclaredPostgres

    def why_spark(self) -> str | None:
        return None

    def read(self, taken: Range, shape: Shape, bytes_max: int) -> Rows | ForSpark:
        """The rows, deletes marked, and those that are bad."""
        declared, wanted = self.declared, postgres_range_of(taken)
        assert wanted.origin is not None
        _require_upserts(declared, shape)
        begins, made = wanted.lsn is None, None
        if begins and not shape.is_dry:
            again, narrowed = wanted.again is not None, wanted.origin.is_narrowed
            made = make_slot(declared, is_copied_again=again, was_narrowed=narrowed)
        table = self._table()
        _require_key(declared, table, shape)
        schema = columns_of(declared, table, shape)
        if wanted.again is not Again.BEGIN:
            _require_names(declared, table, shape, schema.names)
        batch = _Batch(declared, schema, wanted.name)
        if begins:
            # The position is needed at once: what is published is that of here from now on, and
            # with other tables it holds the slot.
            first = None if made is None else PostgresRange(*made)
            rows = Rows(schema.empty_table(), taken=first)
        else:
            rows = self._rows(wanted, table, batch, shape, bytes_max)
        numbers = tuple(
            (column.name, str(column.number))
            for column in table.columns
            if column.name in schema.names
        )
        return replace(rows, columns=numbers)

    def _rows(
        self,
        wanted: PostgresRange,
        table: ServerTable,
        batch: _Batch,
        shape: Shape,
        bytes_max: int,
    ) -> Rows:
        declared = self.declared
        nothing = batch.schema.empty_table()
        if wanted.again is Again.BEGIN:
            if not shape.newest_instant:
                message = "rows of the table do not say which commit they are of: copy the table "
                raise ConfigError(f"{message}into a new location", path=declared.uri)
            begin = replace(wanted, since=shape.newest_instant)
            return Rows(nothing, taken=begin, begins_again=True)
        if wanted.again is Again.SWEEP:
            swept = Sweep(wanted.since, _SWEPT_MAX, replace(wanted, is_whole=True))
            rows = Rows(nothing, sweep=swept)
        elif wanted.keys is not None:
            rows = self._copied(batch, table, wanted, bytes_max)
        else:
            rows = self._changed(batch, wanted, shape, bytes_max)
        assert wanted.origin is not None and wanted.lsn is not None
        require_same(declared, wanted.origin, wanted.lsn, table)
        return rows

    def on_spark(self, session: SparkSession, shape: Shape, reading: Any) -> SparkRows:  # noqa: ARG002
        raise ConfigError("tables of Postgres are read without Spark")

    def release(self) -> None:
        """Nothing is kept."""

    def set_part_aside(self, taken: Range, name: str, reason: str, now_ms: int) -> bool:  # noqa: ARG002
        """A range is never left out: later changes would be taken in before earlier ones."""
        raise refused_part(name, reason, "rows", self.declared.uri)

    def set_rows_aside(self, taken: Range, name: str, rows: Sequence[BadRow]) -> bool:
        """One object for the rows of a range: writing it again writes the same."""
        if self.declared.set_aside is None:
            raise ConfigError(
                f"{name} has rows that cannot be taken in, the first {rows[0]}; source.setAside "
                "says where such rows are kept",
                path=self.declared.uri,
            )
        path = f"{'.'.join(self.declared.schema_and_name)}/{_file_name(postgres_range_of(taken))}"
        kept = ({"range": name, **row.to_json_object()} for row in rows)
        keep_bad_rows(self.declared.set_aside, path, kept)
        return True

    def settle(self, position: Position, progress: Callable[[str], None]) -> Settled:
        """Let the slot move to what is in the table."""
        if not isinstance(position, PostgresPosition):
            return Settled()
        if self.declared.is_shared:
            return Settled()
        if position.lsn is None or not advance_slot(self.declared, position.lsn):
            return Settled()
        progress("the slot moves")
        return Settled(1, f"slot {self.declared.slot} moved to {lsn_text(position.lsn)}")

    def _table(self) -> ServerTable:
        with connected(self.declared) as connection:
            table = find_table(self.declared, connection)
        if table is None:
            raise StorageUnavailableError("the table is gone", path=self.declared.uri)
        return table

    def _copied(
        self, batch: _Batch, table: ServerTable, wanted: PostgresRange, bytes_max: int
    ) -> Rows:
        assert wanted.keys is not None
        here = {column.name: column.type_oid for column in table.columns}
        names = tuple(name for name in batch.schema.names if name in here)
        content = copy_rows(self.declared, names, wanted.keys, bytes_max, wanted.leaf)
        texts, count = texts_of_csv(content, {name: here[name] for name in names})
        batch.add(texts, list(range(1, count + 1)))
        return batch.rows(count, len(content))

    def _require_leaves(self, changes: Changes) -> None:
        """A partition that came and went between two looks took its rows along."""
        if self.declared.on_truncate is OnTruncate.IGNORE:
            return
        here = {leaf.number for leaf in self._table().leaves}
        for number, leaf in changes.leaves.new.items():
            if number not in here:
                raise ConfigError(
                    f"partition {leaf.schema}.{leaf.name} was detached or dropped behind its "
                    "changes: with source.onTruncate: Ignore the table keeps its rows; or have "
                    "the table copied again (tideline resync)",
                    path=self.declared.uri,
                )

    def _changed(self, batch: _Batch, wanted: PostgresRange, shape: Shape, bytes_max: int) -> Rows:
        declared = self.declared
        assert wanted.origin is not None and wanted.lsn is not None and wanted.until is not None
        changes = Changes(
            declared.uri,
            wanted.origin.table,
            wanted.lsn,
            wanted.until,
            shape.record_key,
            declared.on_truncate,
            bytes_max,
        )
        oid = wanted.origin.table if declared.is_shared else None
        taken = limit = None
        if wanted.is_unseen and not declared.is_shared:
            # Nothing that is in the table counts: what other tables have yet to read is decoded.
            if not shape.is_dry:
                advance_slot(declared, wanted.lsn)
            limit = declared.changes_max
        with read_log(declared, wanted.until, oid=oid, messages_max=limit) as messages:
            is_cut = changes.read(messages, declared.changes_max if wanted.is_unseen else None)
        if is_cut or (limit is not None and changes.messages >= limit):
            taken = replace(wanted, until=min(wanted.until, changes.ended))
        if changes.last is not None:
            taken = replace(taken or wanted, last=changes.last)
        if changes.leaves.new:
            self._require_leaves(changes)
        if changes.unchanged:
            _fill_unchanged(declared, changes, batch.schema.names)
        for run in changes.runs:
            batch.add(texts_of_rows(run.columns, run.written), run.written_order)
            batch.add(texts_of_rows(run.columns, run.deleted), run.deleted_order, is_delete=True)
        rows = batch.rows(changes.count, changes.size_bytes)
        is_empty = not (changes.count or changes.is_truncated or changes.leaves.new)
        if wanted.only_rows and is_empty and taken is None:
            taken = PostgresRange()
        return replace(rows, replaces_all=changes.is_truncated, taken=taken)


@dataclass(slots=True)
class _Batch:
    """Rows of a range, of the columns of `schema`."""

    declared: DeclaredPostgres
    schema: pa.Schema
    name: str
    tables: list[pa.Table] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)

    def add(
        self,
        texts: Texts,
        order: list[int],
        *,
        is_delete: bool = False,
    ) -> None:
        """Rows of columns that are there, with the numbers of their types; others are null."""
        if not order:
            return
        columns, faults = [], {}
        for item in self.schema:
            if item.name not in texts:
                columns.append(pa.nulls(len(order), item.type))
                continue
            values, type_oid = texts[item.name]
            found, bad = read_values(values, item.type, type_oid, item.name)
            columns.append(found)
            faults.update({number: (item.name, reason) for number, reason in bad.items()})
        names = [*self.schema.names, ARRIVAL, DELETED_FLAG]
        flags = pa.array([is_delete] * len(order), pa.bool_())
        table = pa.table([*columns, pa.array(order, pa.int64()), flags], names)
        if faults:
            self._note(texts, order, faults)
            good = [number for number in range(len(order)) if number not in faults]
            table = table.take(pa.array(good, pa.int64()))
        self.tables.append(table)

    def rows(self, records: int, size_bytes: int) -> Rows:
        bad = BadInput(rows={self.name: tuple(self.bad)} if self.bad else {})
        if not self.tables:
            return Rows(self.schema.empty_table(), bad, records, size_bytes)
        table = pa.concat_tables(self.tables)
        if not pc.any(table.column(DELETED_FLAG)).as_py():
            table = table.drop_columns([DELETED_FLAG])
        return Rows(table, bad, records, size_bytes)

    def _note(
        self,
        texts: Texts,
        order: list[int],
        faults: Mapping[int, tuple[str, str]],
    ) -> None:
        for number, (column, reason) in sorted(faults.items()):
            row = {name: values[number].as_py() for name, (values, _) in texts.items()}
            text = json.dumps(row, ensure_ascii=False)
            digest = blake2b(f"{self.name}@{order[number]} {text}".encode(), digest_size=8).digest()
            self.bad.append(
                BadRow(
                    row=order[number],
                    column=column,
                    reason=reason,
                    record=text[:_SHOWN_CHARACTERS_MAX],
                    digest=int.from_bytes(digest),
                )
            )


def _require_upserts(declared: DeclaredPostgres, shape: Shape) -> None:
    if shape.only_keys or not shape.can_delete:
        message = "changes update and delete rows: the operation of the ingest must be upsert"
        raise ConfigError(message, path=declared.uri)
    if shape.ordering_columns:
        raise ConfigError(
            f"the log has the order of changes, and {', '.join(shape.ordering_columns)} may have "
            "another: leave spec.ordering out",
            path=declared.uri,
        )


def _require_key(declared: DeclaredPostgres, table: ServerTable, shape: Shape) -> None:
    names = {column.name for column in table.columns}
    key = {column.name for column in table.key}
    known = set(shape.record_key) <= names and bool(shape.record_key)
    if known and (table.has_whole_rows or set(shape.record_key) == key):
        return
    raise ConfigError(
        f"recordKey is {', '.join(shape.record_key) or 'missing'}, and rows of {declared.table} "
        f"are known by {', '.join(column.name for column in table.key)}: make them the same",
        path=declared.uri,
    )


def _require_names(
    declared: DeclaredPostgres, table: ServerTable, shape: Shape, names: Sequence[str]
) -> None:
    """A column that is taken in has the name that it had. `shape` has their numbers of before."""
    here = {str(column.number): column.name for column in table.columns}
    for name, number in shape.columns:
        if name in names and here.get(number, name) != name:
            raise ConfigError(
                f"column {name} was renamed to {here[number]}, and its values would be lost: rename"
                f" it back; or name {here[number]} in source.schema, and copy the table again with "
                "tideline resync",
                path=declared.uri,
            )


def columns_of(declared: DeclaredPostgres, table: ServerTable, shape: Shape) -> pa.Schema:
    """Those declared, else the table's, else the server's. All may be null: a delete has its key
    alone."""
    if declared.schema:
        schema = arrow_schema(declared.schema)
    else:
        schema = shape.schema or inferred_schema(table.columns, shape.record_key)
    return pa.schema(
        [
            item
            for item in schema
            if not is_meta_column(item.name) and item.name not in (DELETED_FLAG, ARRIVAL)
        ]
    )


def texts_of_csv(content: bytes, types: Mapping[str, int]) -> tuple[Texts, int]:
    """Columns with the numbers of these types, and how many rows there are."""
    if not content:
        return {name: (pa.array([], pa.string()), type_oid) for name, type_oid in types.items()}, 0
    found = pv.read_csv(
        io.BytesIO(content),
        read_options=pv.ReadOptions(column_names=list(types), block_size=len(content) + 1),
        parse_options=pv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pv.ConvertOptions(
            column_types=dict.fromkeys(types, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    columns = {
        name: (found.column(name).combine_chunks(), type_oid) for name, type_oid in types.items()
    }
    return columns, found.num_rows


def _fill_unchanged(
    declared: DeclaredPostgres, changes: Changes, read_names: Sequence[str]
) -> None:
    """Values that the log does not have, from the rows as they are now.

    A value that was changed since is in the log behind the range, and so is what became of a row
    that is not there any more: its change here is left out. A column that is gone is null.
    """
    wanted: dict[tuple[bytes, ...], list[tuple[Any, int]]] = {}
    names: set[str] = set()
    for run, number in changes.unchanged:
        row, places = run.written[number], run.numbers_of(changes.key) or []
        names |= {
            run.columns[at][0] for at, value in enumerate(row) if isinstance(value, Unchanged)
        }
        key = tuple(value for value in (row[place] for place in places) if isinstance(value, bytes))
        wanted.setdefault(key, []).append((run, number))
    keys = [[value.decode() for value in key] for key in wanted]
    names &= set(read_names)
    found = current_values(declared, sorted(names), changes.key, keys, changes.xids)
    left_out: dict[int, set[int]] = {}
    for key, places_of_key in wanted.items():
        values = found.get(key)
        for run, number in places_of_key:
            row = run.written[number]
            needed = [at for at, value in enumerate(row) if isinstance(value, Unchanged)]
            if values is None:
                left_out.setdefault(id(run), set()).add(number)
                continue
            for at in needed:
                row[at] = values.get(run.columns[at][0])
    for run in changes.runs:
        gone = left_out.get(id(run), set())
        kept = [number for number in range(len(run.written)) if number not in gone]
        run.written = [run.written[number] for number in kept]
        run.written_order = [run.written_order[number] for number in kept]


def _file_name(taken: PostgresRange) -> str:
    if taken.until is not None:
        # One that is unseen ends where the log does while it is read.
        is_by_start = taken.is_unseen and taken.lsn is not None
        return f"{taken.lsn:016x}-unseen.jsonl" if is_by_start else f"{taken.until:016x}.jsonl"
    name = blake2b(taken.name.encode(), digest_size=8).hexdigest()
    return f"copy-{name}.jsonl"
