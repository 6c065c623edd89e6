"""A log with much of other tables is looked through in steps: no look is without an end, none
passes a change over, and the log of a quiet table is let go of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from tideline.erasure.source_files import is_of_stream
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.postgres import ahead as aheads
from tideline.ingest.sources.postgres.lsn import parse_lsn
from tideline.ingest.sources.postgres.ranges import PostgresRange
from tideline.ingest.sources.postgres.server import advance_slot
from tideline.ingest.sources.postgres.session import Connection
from tideline.ingest.sources.postgres.sql import one_row
from tideline.ingest.sources.source import Limits, Nothing
from tideline.testing.postgres_feed import (
    ORDERS,
    TEN,
    PostgresFeed,
    look_by_wire,
    orders_feed,
    position,
)
from tideline.testing.postgres_server import PostgresDatabase

pytestmark = pytest.mark.postgres

STEP = 256 << 10
OTHERS = "create table others (id bigserial primary key, v text)"
NOISE = "insert into others (v) select repeat('x', 1000) from generate_series(1, {rows})"


def range_of(operation: Operation) -> PostgresRange:
    assert isinstance(operation.work, IngestRange)
    assert isinstance(operation.work.range, PostgresRange)
    return operation.work.range


def log_ranges(found: PostgresFeed) -> list[tuple[PostgresRange, int]]:
    """Ingest until there is nothing more: the ranges of the log, and where each of them ended."""
    ranges = []
    while isinstance(operation := found.plan(), Operation):
        result = found.execute(operation)
        assert result.exit_code == 0, result.message
        planned, lsn = range_of(operation), position(found).lsn
        if planned.until is not None and lsn is not None:
            ranges.append((planned, lsn))
    assert isinstance(operation, Nothing)
    return ranges


def slot_at(database: PostgresDatabase) -> int:
    ((text,),) = database.execute(
        "select confirmed_flush_lsn::text from pg_replication_slots"
        f" where slot_name = '{database.slot}'"
    )
    return parse_lsn(text)


def noise(database: PostgresDatabase, times: int, rows: int = 500) -> None:
    database.execute(*[NOISE.format(rows=rows)] * times)


def drained(folder: Path, database: PostgresDatabase, **declared: Any) -> PostgresFeed:
    """With `is_shared` the slot has the other table as well, and stays where it is."""
    database.execute(ORDERS, OTHERS, TEN)
    if declared.get("is_shared"):
        database.execute(f"create publication {database.slot} for table others")
    found = orders_feed(folder, database, step_bytes=STEP, **declared)
    assert found.drain() is None
    return found


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_look_goes_as_far_as_it_has_time_and_the_slot_follows(
    is_shared: bool, postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the operator's look and by that of `tideline run`. Time for one span, however large."""
    found = drained(tmp_path, postgres, is_shared=is_shared)
    noise(postgres, 5)
    postgres.execute("update orders set v = 'late' where id = 1")
    monkeypatch.setattr(aheads, "_GROWTH", 1_000_000)
    after, before = position(found), slot_at(postgres)
    by_wire, look = look_by_wire(found.source, postgres.uri, after), found.look()
    assert after.lsn is not None
    for seen in (by_wire, look):
        assert seen.ahead is not None and not seen.ahead.is_all
        assert seen.ahead.until is None
        assert seen.ahead.seen_to == after.lsn + STEP
    planned = by_wire.plan(after, Limits(1, 0))
    assert planned == PostgresRange(after.origin, after.lsn, after.lsn + STEP)
    ranges = log_ranges(found)
    assert len(ranges) >= 5
    assert dict(found.rows())[1] == "late"
    assert slot_at(postgres) == (before if is_shared else ranges[-1][1])
    assert ranges[-1][1] > before


def test_a_span_that_times_out_leaves_what_was_seen_before_it(
    postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a slot that is behind the table, whose place is compared once more after the look."""
    found = drained(tmp_path, postgres, is_shared=True)
    noise(postgres, 5)
    postgres.execute("update orders set v = 'late' where id = 1")
    after, spans = position(found), []

    def slow(connection: Connection, statement: str, given: tuple[object, ...]) -> tuple[Any, ...]:
        if "with message as" in statement:
            spans.append(given)
            if len(spans) == 2:
                connection.execute("set statement_timeout = 100")
                connection.execute("select pg_sleep(60)")
        return one_row(connection, statement, given)

    with monkeypatch.context() as patched:
        patched.setattr(aheads, "_LOOKED_S", 60.0)
        patched.setattr(aheads, "one_row", slow)
        for look in (lambda: look_by_wire(found.source, postgres.uri, after), found.look):
            spans.clear()
            ahead = look().ahead
            assert ahead is not None and after.lsn is not None
            assert (ahead.is_all, ahead.until, ahead.seen_to) == (False, None, after.lsn + STEP)
            assert ahead.begins is not None and ahead.begins < after.lsn
    log_ranges(found)
    assert dict(found.rows())[1] == "late"


def test_spans_grow_so_that_little_is_decoded_twice(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = drained(tmp_path, postgres)
    noise(postgres, 6)
    postgres.execute("update orders set v = 'late' where id = 1")
    (only,) = log_ranges(found)
    assert not only[0].is_unseen
    assert dict(found.rows())[1] == "late"


def test_a_quiet_table_of_a_busy_server_lets_go_of_the_log(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = drained(tmp_path, postgres)
    for _ in range(3):
        before = slot_at(postgres)
        noise(postgres, 2)
        log_ranges(found)
        ((flushed,),) = postgres.execute("select pg_current_wal_flush_lsn()::text")
        assert slot_at(postgres) > before
        assert parse_lsn(flushed) - slot_at(postgres) <= STEP
    # Little of it costs no commit.
    noise(postgres, 1, rows=10)
    assert isinstance(found.plan(), Nothing)


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("changes_max", [4, 20, 50_000])
def test_what_no_look_has_time_for_is_read_unseen(
    changes_max: int,
    is_shared: bool,
    postgres: PostgresDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As behind a transaction that has been open for long: the log is decoded from its begin on."""
    postgres.execute(OTHERS, "create table orders (id bigint primary key, n numeric)")
    if is_shared:
        postgres.execute(f"create publication {postgres.slot} for table others")
    found = PostgresFeed.of(
        tmp_path, postgres, changes_max=changes_max, step_bytes=STEP, is_shared=is_shared
    )
    source = replace(found.source, set_aside=Location(f"file://{tmp_path}/aside"))
    found = replace(found, source=source, bad_rows_max=100).typed(id="long", n="decimal(5,0)")
    assert found.drain() is None
    noise(postgres, 2)
    for number in range(10):
        postgres.execute(
            f"insert into orders values (1, {number}) on conflict (id) do update set n = {number}",
            f"insert into orders values ({100 + number}, 'NaN')",
        )
    noise(postgres, 2)
    monkeypatch.setattr(aheads, "_LOOKED_S", 0.0)
    seen = look_by_wire(found.source, postgres.uri, position(found))
    assert seen.ahead is not None
    assert (seen.ahead.seen_to, seen.ahead.is_all) == (position(found).lsn, False)
    lsn, flushed = position(found).lsn, seen.flushed
    assert lsn is not None
    while lsn < flushed:
        operation = found.plan()
        assert isinstance(operation, Operation)
        assert range_of(operation).is_unseen
        result = found.execute(operation)
        assert result.exit_code == 0, result.message
        assert result.source_records <= changes_max
        before, lsn = lsn, position(found).lsn
        if result.outcome is Outcome.NOTHING:
            break
        assert lsn is not None and lsn > before
    assert found.rows("id", "n") == [(1, 9)]
    files = list((tmp_path / "aside").rglob("*.jsonl"))
    assert all(is_of_stream(str(file)) for file in files), "an erasure searches them"
    kept = [file.read_text() for file in files]
    assert "".join(kept).count('"row": ') == 10, "none is written over another"


def executed(found: PostgresFeed) -> tuple[str, Outcome, int]:
    """The next operation: its range of the log, what came of it, and how many records it had."""
    operation = found.plan()
    assert isinstance(operation, Operation)
    result = found.execute(operation)
    assert result.exit_code == 0, result.message
    return str(range_of(operation)), result.outcome, result.source_records


@pytest.mark.parametrize("is_shared", [False, True])
def test_log_that_no_look_has_time_for_costs_no_commit_without_rows(
    is_shared: bool, postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until there is a step of it, or a slot that stays has kept as much behind the table as before
    it. What is planned meanwhile is one operation, which waits longer each time."""
    found = drained(tmp_path, postgres, is_shared=is_shared)
    found = replace(found, source=replace(found.source, step_bytes=4 << 20))
    monkeypatch.setattr(aheads, "_LOOKED_S", 0.0)
    before = position(found)
    assert before.lsn is not None
    planned = set()
    for _ in range(4):
        noise(postgres, 1, rows=50)
        name, outcome, records = executed(found)
        planned.add(name)
        assert (outcome, records, position(found)) == (Outcome.NOTHING, 0, before)
        assert found.look().backlog(before, Limits(1, 0)).parts == 0
    assert len(planned) == 1
    # What is there is taken in as ever.
    postgres.execute("update orders set v = 'late' where id = 1")
    _, outcome, records = executed(found)
    assert (outcome, records) == (Outcome.SUCCEEDED, 1)
    assert dict(found.rows())[1] == "late"
    outcomes = []
    for _ in range(12):
        noise(postgres, 1)
        outcomes.append(executed(found)[1])
    assert 0 < outcomes.count(Outcome.SUCCEEDED) <= 2
    if not is_shared:
        assert slot_at(postgres) == position(found).lsn


def test_a_table_that_is_far_ahead_of_its_slot_makes_no_commit_for_it(
    postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = drained(tmp_path, postgres, is_shared=True)
    noise(postgres, 4)
    postgres.execute("update orders set v = 'late' where id = 1")
    log_ranges(found)
    monkeypatch.setattr(aheads, "_LOOKED_S", 0.0)
    noise(postgres, 2)
    after = position(found)
    assert after.lsn is not None
    assert found.look().flushed - after.lsn > 2 * STEP
    assert executed(found)[1] is Outcome.NOTHING
    noise(postgres, 4)
    assert executed(found)[1] is Outcome.SUCCEEDED
    assert position(found).lsn == after.lsn + (after.lsn - restart_of(postgres))


def restart_of(database: PostgresDatabase) -> int:
    """Where the server begins to decode."""
    ((text,),) = database.execute(
        f"select restart_lsn::text from pg_replication_slots where slot_name = '{database.slot}'"
    )
    return parse_lsn(text)


def test_timeouts_that_a_server_has_for_people_end_nothing(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(f"alter database {postgres.name} set statement_timeout = '10ms'")
    with postgres.connect() as connection:
        connection.execute("set statement_timeout = 0")
        connection.execute(ORDERS.encode())
        connection.execute(
            b"insert into orders select g, repeat('v', 100), g from generate_series(1, 20000) g"
        )
        found = orders_feed(tmp_path, postgres)
        assert found.drain() is None
        connection.execute(b"update orders set n = 0")
        seen = look_by_wire(found.source, postgres.uri, position(found))
        assert seen.ahead is not None and seen.ahead.changes == 20_000
        assert found.drain() is None
    assert {n for _, n in found.rows("id", "n")} == {0}


class History:
    """Transactions at random, some of them open for long, and what the table has behind each."""

    def __init__(self, database: PostgresDatabase, random: Random) -> None:
        self._random, self._database = random, database
        self._open: list[tuple[psycopg.Connection, dict[int, str | None]] | None] = [None] * 3
        self.rows = {number: f"v{number}" for number in range(1, 11)}
        self.states: list[tuple[int, int, dict[int, str]]] = [(0, 0, dict(self.rows))]

    def step(self) -> None:
        slot = self._random.randrange(3)
        if self._random.random() < 0.3:
            noise(self._database, 1, self._random.choice((1, 100, 400)))
        elif (found := self._open[slot]) is None:
            connection = self._database.connect()
            connection.execute(b"begin")
            self._open[slot] = (connection, {})
        elif self._random.random() < 0.6:
            self._change(slot, *found)
        else:
            self._end(slot, *found)

    def end(self) -> None:
        for slot, found in enumerate(self._open):
            if found is not None:
                self._end(slot, *found)

    def at(self, lsn: int) -> list[dict[int, str]]:
        """What may be there at a position: a commit is somewhere between two others."""
        known = [state for _, behind, state in self.states if behind <= lsn][-1:]
        return known + [state for before, behind, state in self.states if before < lsn < behind]

    def _change(
        self, slot: int, connection: psycopg.Connection, changed: dict[int, str | None]
    ) -> None:
        # Each transaction has keys of its own: none waits for another.
        for _ in range(self._random.choice((1, 1, 5))):
            key = slot + 3 * self._random.randrange(12)
            if self._random.random() < 0.3:
                connection.execute("delete from orders where id = %s", (key,))
                changed[key] = None
            else:
                word = f"w{self._random.randrange(1000)}"
                connection.execute(
                    "insert into orders values (%s, %s, 0) on conflict (id)"
                    " do update set v = excluded.v",
                    (key, word),
                )
                changed[key] = word

    def _end(
        self, slot: int, connection: psycopg.Connection, changed: dict[int, str | None]
    ) -> None:
        self._open[slot] = None
        if self._random.random() < 0.2:
            connection.execute(b"rollback")
            connection.close()
            return
        before = self._inserted()
        connection.execute(b"commit")
        connection.close()
        for key, word in changed.items():
            self.rows.pop(key, None)
            if word is not None:
                self.rows[key] = word
        self.states.append((before, self._inserted(), dict(self.rows)))

    def _inserted(self) -> int:
        ((text,),) = self._database.execute("select pg_current_wal_insert_lsn()::text")
        return parse_lsn(text)


def test_a_look_by_a_slot_that_is_far_behind_ends_where_there_are_changes_enough(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    """Whatever other tables have before, and beyond the messages of one commit."""
    found = drained(tmp_path, postgres, is_shared=True, changes_max=20)
    noise(postgres, 1)
    postgres.execute("update orders set n = 0")
    assert found.drain() is None
    noise(postgres, 1)
    for number in range(30):
        postgres.execute(f"update orders set n = {number} where id <= 3")
    seen = look_by_wire(found.source, postgres.uri, position(found))
    assert seen.ahead == found.look().ahead
    assert seen.ahead is not None
    assert (seen.ahead.changes, seen.ahead.is_all) == (21, False)
    assert seen.ahead.seen_to == seen.ahead.until
    ranges = log_ranges(found)
    assert len(ranges) == 5
    rows = dict(found.rows("id", "n"))
    assert [rows[number] for number in (1, 2, 3, 4)] == [29, 29, 29, 0]


@pytest.mark.slow
@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_no_history_is_passed_over(
    seed: int,
    is_shared: bool,
    postgres: PostgresDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind each commit the table is what the source was, whatever looks had time for. A slot that
    is shared stays, or moves to anywhere up to the table."""
    random = Random(seed)
    found = drained(tmp_path, postgres, is_shared=is_shared)
    history, lsn = History(postgres, random), position(found).lsn
    for turn in range(30):
        for _ in range(random.randrange(12)):
            history.step()
        if turn == 29:
            history.end()
        monkeypatch.setattr(aheads, "_LOOKED_S", random.choice((0.0, 0.02, 5.0)))
        monkeypatch.setattr(aheads, "_GROWTH", random.choice((2, 1_000_000)))
        declared: dict[str, Any] = {
            "step_bytes": random.choice((5_000, 60_000, STEP)),
            "changes_max": random.choice((2, 20, 50_000)),
        }
        found = replace(found, source=replace(found.source, **declared))
        operation = found.plan()
        if not isinstance(operation, Operation):
            continue
        planned = range_of(operation)
        assert planned.origin is None or planned.lsn == lsn
        assert found.execute(operation).exit_code == 0
        before, lsn = lsn, position(found).lsn
        assert before is not None and lsn is not None and before <= lsn
        assert dict(found.rows()) in history.at(lsn), (turn, planned)
        if is_shared and random.random() < 0.3:
            advance_slot(found.source, random.choice((before, lsn)))
    monkeypatch.setattr(aheads, "_LOOKED_S", 5.0)
    found = replace(found, source=replace(found.source, step_bytes=STEP, changes_max=50_000))
    assert found.drain() is None
    assert found.rows() == postgres.execute("select id, v from orders order by id")
