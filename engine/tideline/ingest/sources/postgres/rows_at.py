"""The rows that a table of Postgres had at a position, for a comparison, and what is not known.

1. A snapshot is taken. Then the log behind the slot is looked at, and left as it is: the numbers of
   its transactions say which of those behind the position the snapshot sees. That is exact, where a
   position of the log is not: a commit is in it a moment before it is seen.
2. All rows are read in the snapshot, once, in the order in which the server has them.
3. Of each key that a seen transaction changed behind the position, its first change says what was
   there: nothing before an insert, the old row where the log has it whole, else a row whose values
   are not known.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.hudi.write.batch_rules import DELETED_FLAG
from tideline.ingest.sources.known_rows import Known, KnownRows, RowsAt
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.postgres.changes import Texts
from tideline.ingest.sources.postgres.commits import wait_for_commits
from tideline.ingest.sources.postgres.connection import connected
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.first_changes import FirstChanges
from tideline.ingest.sources.postgres.log import read_log
from tideline.ingest.sources.postgres.lsn import parse_lsn
from tideline.ingest.sources.postgres.position import Phase, PostgresPosition
from tideline.ingest.sources.postgres.reader import columns_of, texts_of_csv
from tideline.ingest.sources.postgres.seen import Seen
from tideline.ingest.sources.postgres.server import (
    find_slot,
    find_table,
)
from tideline.ingest.sources.postgres.server_table import ServerTable
from tideline.ingest.sources.postgres.sql import one_row, quoted
from tideline.ingest.sources.postgres.text_values import read_values
from tideline.ingest.sources.source import Declared, Position, Shape

if TYPE_CHECKING:
    from psycopg import Connection

_CHUNK_BYTES = 16 << 20
_FLUSHED_WAITED_S = 60.0
_POLL_S = 0.1
_ROW_BYTES = 1_000


@contextmanager
def rows_at(declared: Declared, position: Position, shape: Shape) -> Iterator[RowsAt | None]:
    """None where the slot has moved past the position meanwhile. Raises ConfigError for what is
    not to be known, StorageUnavailableError."""
    assert isinstance(declared, DeclaredPostgres) and isinstance(position, PostgresPosition)
    if position.lsn is None or position.phase is not Phase.LOG:
        message = f"its table is compared once it is copied, and it is at {position}"
        raise ConfigError(message, path=declared.uri)
    with connected(declared) as connection:
        # Policies for people's transactions do not end this one.
        connection.execute("set idle_in_transaction_session_timeout = 0")
        # What the position has is seen.
        wait_for_commits(declared, connection)
        connection.execute("begin isolation level repeatable read read only")
        (snapshot,) = one_row(connection, "select pg_current_snapshot()::text")
        seen = Seen.of(snapshot)
        table = find_table(declared, connection)
        if table is None or not position.origin.agrees_with(table.origin):
            yield None
            return
        _require_copied(declared, position, table)
        changes = FirstChanges(declared.uri, table.origin.table, position.lsn, seen, shape)
        oid = position.origin.table if declared.is_shared else None
        with read_log(declared, _flushed_behind(declared), oid=oid) as messages:
            changes.read(messages)
        slot = find_slot(declared, connection)
        if slot is None or slot.is_lost:
            raise StorageUnavailableError(f"slot {declared.slot} is gone", path=declared.uri)
        if slot.confirmed > position.lsn:
            yield None
            return
        reading = _Reading(declared, table, columns_of(declared, table, shape), changes, shape)
        yield RowsAt(
            reading.rows(connection),
            rows=_rows_about(connection, table),
            lacking=reading.lacking,
            keeps_others=declared.on_truncate is OnTruncate.IGNORE,
        )
        connection.execute("rollback")


@dataclass(slots=True)
class _Reading:
    """The rows of a snapshot, and behind them what was otherwise at the position."""

    declared: DeclaredPostgres
    table: ServerTable
    schema: pa.Schema
    changes: FirstChanges
    shape: Shape
    lacking: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        there = {column.name for column in self.table.columns}
        self.lacking = frozenset(self.schema.names) - there

    def rows(self, connection: Connection) -> Iterator[KnownRows]:
        there = {column.name: column.type_oid for column in self.table.columns}
        types = {name: there[name] for name in self.schema.names if name in there}
        selected = ", ".join(map(quoted, types))
        statement = f"copy (select {selected} from {self.table.sql}{self.table.where()}) to stdout"
        with connection.cursor().copy(f"{statement} (format csv, force_quote *)".encode()) as copy:
            for content in _chunks(copy):
                yield from self._known(*texts_of_csv(content, types))
        yield from self._corrected()

    def _corrected(self) -> Iterator[KnownRows]:
        """What is known of keys that were changed, instead of their rows."""
        # Rows that a truncate left in the table are not in the source.
        is_sure = self.declared.on_truncate is not OnTruncate.IGNORE
        for columns, count in self.changes.absent():
            yield from self._keys(columns, count, Known.ROW if is_sure else Known.NOTHING)
        # One that was set aside is not in the table.
        exists = Known.NOTHING if self.declared.set_aside else Known.EXISTS
        for columns, count in self.changes.replaced():
            yield from self._keys(columns, count, exists)
        for columns, count in self.changes.gone():
            yield from self._keys(columns, count, Known.NOTHING)
        for columns, count in self.changes.whole():
            yield from self._keys(columns, count, Known.ROW)
            yield from self._known(columns, count)

    def _known(self, columns: Texts, count: int) -> Iterator[KnownRows]:
        """Good rows, and the keys of bad ones: an older row may be in the table instead."""
        if not count:
            return
        table, faulty = self._typed(columns, count)
        yield KnownRows(_without(table, faulty), Known.ROW, records=count, bad=len(faulty))
        if faulty:
            places = pa.array(sorted(faulty))
            bad = {name: (found.take(places), oid) for name, (found, oid) in columns.items()}
            yield from self._keys(bad, len(faulty), Known.NOTHING)

    def _keys(self, columns: Texts, count: int, known: Known) -> Iterator[KnownRows]:
        """Keys alone, as rows that delete. One that is no key of the table is in no row of it."""
        keys = {name: columns[name] for name in self.shape.record_key}
        table, faulty = self._typed(keys, count)
        flags = pa.array(np.ones(count, np.bool_))
        yield KnownRows(_without(table.append_column(DELETED_FLAG, flags), faulty), known)

    def _typed(self, columns: Texts, count: int) -> tuple[pa.Table, set[int]]:
        """Rows in the types of the table, and the numbers of bad ones."""
        arrays, faulty = [], set[int]()
        for item in self.schema:
            if item.name not in columns:
                arrays.append(pa.nulls(count, item.type))
                continue
            texts, type_oid = columns[item.name]
            values, bad = read_values(texts, item.type, type_oid, item.name)
            arrays.append(values)
            faulty |= bad.keys()
        return pa.table(arrays, self.schema.names), faulty


def _require_copied(
    declared: DeclaredPostgres, position: PostgresPosition, table: ServerTable
) -> None:
    noted = position.leaves.noted(table.leaves, table.leaves_at, keeps_rows=True)
    if noted.awaited:
        name = noted.awaited[0].leaf.name
        message = f"partition {name} was attached, and is not copied yet: compare the table then"
        raise ConfigError(message, path=declared.uri)


def _without(table: pa.Table, faulty: set[int]) -> pa.Table:
    good = np.ones(table.num_rows, np.bool_)
    good[sorted(faulty)] = False
    return table.filter(pa.array(good))


def _chunks(copy: Any) -> Iterator[bytes]:
    """What is copied, in chunks that end with a row."""
    gathered, size = list[bytes](), 0
    for row in copy:
        gathered.append(bytes(row))
        size += len(row)
        if size >= _CHUNK_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)


def _flushed_behind(declared: DeclaredPostgres) -> int:
    """A place of the log that has all that was committed before, once it is flushed: without
    synchronous commits rows are seen earlier."""
    with connected(declared) as connection:
        (wanted,) = one_row(connection, "select pg_current_wal_insert_lsn()::text")
        deadline_s = time.monotonic() + _FLUSHED_WAITED_S
        is_flushed = "select pg_current_wal_flush_lsn() >= %s::pg_lsn"
        while not one_row(connection, is_flushed, (wanted,))[0]:
            if time.monotonic() > deadline_s:
                raise StorageUnavailableError("the log is not flushed yet", path=declared.uri)
            time.sleep(_POLL_S)
        return parse_lsn(wanted)


def _rows_about(connection: Connection, table: ServerTable) -> int:
    found = one_row(
        connection,
        "select coalesce(sum(greatest(reltuples, 0)), 0)::bigint,"
        " coalesce(sum(pg_relation_size(oid)), 0)::bigint from pg_class where oid = any(%s)",
        ([leaf.number for leaf in table.leaves] or [table.origin.table],),
    )
    return max(int(found[0]), int(found[1]) // _ROW_BYTES)
