"""The session that has waited longest is next at a slot. One that dies, or never ends, keeps nobody
from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from tideline.commit_report import CommitReport
from tideline.ingest.execute.ingest_batch import IngestBatch
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.postgres import ahead as aheads
from tideline.ingest.sources.postgres import log as logs
from tideline.ingest.sources.postgres.connection import connected
from tideline.ingest.sources.postgres.look import Ahead
from tideline.ingest.sources.postgres.server import advance_slot
from tideline.ingest.sources.postgres.shared_slot import DeclaredSlot
from tideline.ingest.sources.postgres.turns import turn_at
from tideline.testing import writer_process
from tideline.testing.postgres_feed import look_by_wire, position
from tideline.testing.postgres_server import PostgresDatabase
from tideline.testing.shared_slot_feed import SharedSlotFeed

pytestmark = pytest.mark.postgres

NAMES = ("customers", "items", "orders")
TURNS = 3
DEADLINE_S = 120.0


@pytest.fixture
def feeds(postgres: PostgresDatabase, tmp_path: Path) -> SharedSlotFeed:
    """Tables that are read, each with a change since."""
    for name in NAMES:
        postgres.execute(f"create table {name} (id bigint primary key, v text)")
    found = SharedSlotFeed.of(tmp_path, postgres, changes_max=100)
    found.drain()
    postgres.execute(*(f"insert into {name} values (1, 'x')" for name in NAMES))
    return found


def locks(database: PostgresDatabase, *, granted: bool) -> int:
    """How many sessions have their turn, or wait for it."""
    ((count,),) = database.execute(
        "select count(*) from pg_locks l join pg_database d on d.oid = l.database"
        f" where d.datname = current_database() and locktype = 'advisory' and granted = {granted}"
    )
    return int(count)


def until_waiting(database: PostgresDatabase, count: int) -> None:
    """Somebody has a turn, and so many wait."""
    ends_s = time.monotonic() + DEADLINE_S
    while (locks(database, granted=True), locks(database, granted=False)) != (1, count):
        assert time.monotonic() < ends_s
        time.sleep(0.02)


@contextmanager
def held(slot: DeclaredSlot) -> Iterator[None]:
    """A turn that lasts as long as this."""
    with connected(slot) as connection, turn_at(slot, connection, DEADLINE_S):
        yield


def hold(slot: DeclaredSlot) -> None:
    with held(slot):
        time.sleep(10 * DEADLINE_S)


def test_each_has_its_turn_in_the_order_in_which_they_came(
    feeds: SharedSlotFeed, postgres: PostgresDatabase
) -> None:
    order: list[str] = []

    def take_turns(name: str) -> None:
        with connected(feeds.slot) as connection:
            for _ in range(TURNS):
                with turn_at(feeds.slot, connection, DEADLINE_S):
                    order.append(name)
                    others = sum(order.count(other) < TURNS for other in NAMES if other != name)
                    until_waiting(postgres, others)

    threads = [Thread(target=take_turns, args=(name,)) for name in NAMES]
    with held(feeds.slot):
        for number, thread in enumerate(threads, 1):
            thread.start()
            until_waiting(postgres, number)
    for thread in threads:
        thread.join(DEADLINE_S)
    assert order == list(NAMES) * TURNS


def test_all_that_use_a_slot_wait_in_one_queue(
    feeds: SharedSlotFeed, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks, by `tideline run` and by the operator, ingests, and what moves the slot."""
    monkeypatch.setattr(aheads, "_BUSY_S", DEADLINE_S)
    monkeypatch.setattr(aheads, "_SHORT_S", 8.0)
    feed = feeds.named("items")
    planned, after = feed.plan(), position(feed)
    assert isinstance(planned, Operation) and after.lsn is not None
    found: dict[str, object] = {}
    users: dict[str, Callable[[], object]] = {
        "look": lambda: feed.look().ahead,
        "ingest": lambda: feed.execute(planned).outcome,
        "move": lambda: advance_slot(feeds.slot, after.lsn or 0),
        "look by wire": lambda: look_by_wire(feed.source, postgres.uri, after).ahead,
    }

    def use(name: str) -> None:
        found[name] = users[name]()

    threads = [Thread(target=use, args=(name,)) for name in users]
    with held(feeds.slot):
        for number, thread in enumerate(threads, 1):
            thread.start()
            until_waiting(postgres, number)
        assert not found
    for thread in threads:
        thread.join(DEADLINE_S)
    look, by_wire = found["look"], found["look by wire"]
    assert isinstance(look, Ahead) and isinstance(by_wire, Ahead)
    # The server writes to its log between two looks, and the slot is at the table once it moved.
    assert look.begins is not None and look.begins < after.lsn
    assert replace(look, seen_to=by_wire.seen_to, begins=None) == by_wire
    assert (found["ingest"], found["move"]) == (Outcome.SUCCEEDED, True)


def test_a_session_that_dies_has_no_turn_any_more(
    feeds: SharedSlotFeed, postgres: PostgresDatabase
) -> None:
    """One that has its turn, and one that waits for it."""
    dying = []
    for number in range(2):
        dying.append(writer_process.start(hold, feeds.slot))
        until_waiting(postgres, number)
    for process in reversed(dying):
        writer_process.kill(process)
    began_s = time.monotonic()
    feed = feeds.named("items")
    planned = feed.plan()
    assert isinstance(planned, Operation)
    assert feed.execute(planned).outcome is Outcome.SUCCEEDED
    # Neither timeout was waited for.
    assert time.monotonic() - began_s < aheads._BUSY_S


def test_a_turn_that_never_ends_keeps_nobody_from_the_slot(
    feeds: SharedSlotFeed, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any user of the database may take the lock."""
    for name in ("_BUSY_S", "_SHORT_S"):
        monkeypatch.setattr(aheads, name, 0.2)
    monkeypatch.setattr(logs, "_TURN_S", 0.5)
    with held(feeds.slot):
        feeds.drain()
        after = position(feeds.named("items"))
        seen = look_by_wire(feeds.named("items").source, postgres.uri, after)
        assert seen.ahead is not None and seen.ahead.is_all
    for name in NAMES:
        assert feeds.named(name).rows() == [(1, "x")]


def test_no_turn_lasts_into_a_commit(
    feeds: SharedSlotFeed, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, held_then = IngestBatch.write, list[int]()

    def written(batch: IngestBatch, *given: object) -> CommitReport:
        held_then.append(locks(postgres, granted=True))
        return write(batch, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(IngestBatch, "write", written)
    feeds.drain()
    assert held_then == [0, 0, 0]


def test_a_reading_that_fails_has_no_turn_any_more(
    feeds: SharedSlotFeed, postgres: PostgresDatabase
) -> None:
    postgres.execute("truncate items")
    feed = feeds.named("items")
    planned = feed.plan()
    assert isinstance(planned, Operation)
    assert feed.execute(planned).outcome is Outcome.FAILED
    assert locks(postgres, granted=True) == 0
