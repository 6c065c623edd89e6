"""How much log a server keeps for a slot, since when changes wait, and what is said before the
server gives the slot up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.ingest.sources.postgres.look import (
    Ahead,
    PostgresLook,
    Slot,
    SlotState,
    describe_kept,
)
from tideline.ingest.sources.postgres.position import Origin, PostgresPosition
from tideline.ingest.sources.postgres.ranges import PostgresRange
from tideline.ingest.sources.source import Backlog, Limits, Lost, Nothing, Retained

pytest.importorskip("psycopg")

from tideline.testing.postgres_feed import (
    ORDERS,
    TEN,
    PostgresFeed,
    look_by_wire,
    orders_feed,
    position,
)
from tideline.testing.postgres_server import NO_CHECKPOINTS, PostgresDatabase, fill_log, own_server

MIB = 1 << 20
KEPT_MIB = 128
ORIGIN = Origin("1", 1, 2, 3, 4)
HERE = PostgresPosition(ORIGIN, 100, None)
NOW = Limits(1, 0)


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresDatabase]:
    """Of a server that keeps little log for slots, and makes no checkpoint unasked."""
    settings = {**NO_CHECKPOINTS, "max_slot_wal_keep_size": f"{KEPT_MIB}MB"}
    with own_server(**settings) as server, PostgresDatabase(server) as database:
        monkeypatch.setenv("POSTGRES_URI", database.uri)
        yield database


def set_and_reload(database: PostgresDatabase, **settings: str) -> None:
    database.execute(
        *(f"alter system set {name} = '{value}'" for name, value in settings.items()),
        "select pg_reload_conf()",
    )
    time.sleep(0.5)


def retained(found: PostgresFeed, database: PostgresDatabase) -> Retained:
    """By the client of Postgres, and as the operator looks."""
    looks = found.look(), look_by_wire(found.source, database.uri, position(found))
    seen, by_wire = (look.retained for look in looks)
    assert seen is not None and by_wire is not None
    # How much it is changes all the time.
    assert (seen.state, seen.risk) == (by_wire.state, by_wire.risk)
    assert abs(seen.size_bytes - by_wire.size_bytes) < 16 * MIB
    return seen


@pytest.mark.postgres
def test_a_slot_is_named_before_its_server_gives_it_up(
    database: PostgresDatabase, tmp_path: Path
) -> None:
    database.execute(ORDERS, TEN)
    found = orders_feed(tmp_path, database)
    assert found.drain() is None
    seen = retained(found, database)
    assert (seen.state, seen.risk) == ("reserved", "")
    assert seen.size_bytes < 16 * MIB
    assert seen.safe_bytes is not None and seen.safe_bytes > 100 * MIB
    set_and_reload(database, max_wal_size="32MB")
    fill_log(database, 80, 0)
    seen = retained(found, database)
    assert (seen.state, seen.risk) == ("extended", "")
    assert 76 * MIB < seen.size_bytes < 128 * MIB
    # More than fits, without a checkpoint.
    set_and_reload(database, max_wal_size="2GB")
    fill_log(database, 40)
    seen = retained(found, database)
    assert seen.state in ("reserved", "extended")
    assert "close to max_slot_wal_keep_size" in seen.risk
    fill_log(database, 50)
    seen = retained(found, database)
    assert seen.state == "unreserved"
    assert f"slot {database.slot} is unreserved" in seen.risk
    assert "raise max_slot_wal_keep_size" in seen.risk
    assert seen.risk in (found.look().describe_others() or "")
    set_and_reload(database, max_slot_wal_keep_size="1GB")
    assert retained(found, database).risk == "", "it does what it says"
    set_and_reload(database, max_slot_wal_keep_size=f"{KEPT_MIB}MB")
    assert retained(found, database).state == "unreserved"
    assert found.drain() is None
    seen = retained(found, database)
    assert (seen.state, seen.risk) == ("reserved", "")
    fill_log(database, 160, 0)
    assert retained(found, database).state == "lost"
    assert isinstance(found.plan(), Lost)


@pytest.mark.postgres
def test_changes_that_wait_have_the_time_of_their_commit(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN)
    found = orders_feed(tmp_path, postgres)
    assert found.drain() is None

    def backlogs() -> Iterator[Backlog]:
        after = position(found)
        for look in (found.look(), look_by_wire(found.source, postgres.uri, after)):
            yield look.backlog(after, NOW)

    assert {(seen.records, seen.oldest_ms) for seen in backlogs()} == {(0, None)}
    before_ms = time.time_ns() // 1_000_000
    postgres.execute("update orders set n = 1 where id = 1")
    after_ms = time.time_ns() // 1_000_000 + 1
    time.sleep(0.2)
    postgres.execute("update orders set n = 2 where id < 3")
    for seen in backlogs():
        assert seen.records == 3
        assert seen.oldest_ms is not None and before_ms <= seen.oldest_ms <= after_ms
    assert found.drain() is None
    assert {(seen.records, seen.oldest_ms) for seen in backlogs()} == {(0, None)}


def look(slot: Slot, ahead: Ahead | None = None, flushed: int = 100) -> PostgresLook:
    return PostgresLook("orders", "s", ORIGIN, slot, flushed, ahead=ahead)


@pytest.mark.parametrize(
    ("found", "is_seen"),
    [
        (look(Slot(100, is_active=True)), True),
        (look(Slot(100, is_active=True), flushed=200), False),
        (look(Slot(100), Ahead(is_all=False, seen_to=100), 200), False),
        (look(Slot(100), Ahead(is_all=False, seen_to=150), 200), True),
        (look(Slot(100), Ahead(seen_to=200), 200), True),
        (look(Slot(100, SlotState.LOST), flushed=200), False),
        (replace(look(Slot(100), flushed=200), origin=None), False),
    ],
)
def test_what_no_look_could_see_is_not_said_to_be_nothing(
    found: PostgresLook, is_seen: bool
) -> None:
    assert found.backlog(HERE, NOW).is_seen is is_seen


@pytest.mark.parametrize(
    ("slot", "is_at_risk"),
    [
        (Slot(1, SlotState.EXTENDED, 800, 200), False),
        (Slot(1, SlotState.EXTENDED, 801, 200), True),
        (Slot(1, SlotState.EXTENDED, 10**12), False),
        (Slot(1, SlotState.UNRESERVED, 801, -10), True),
        (Slot(1, SlotState.LOST, 0, None), False),
        (Slot(1, None, 10, 10), False),
    ],
)
def test_a_slot_is_at_risk_while_something_can_be_done(slot: Slot, is_at_risk: bool) -> None:
    seen = look(slot).retained
    assert seen is not None
    assert bool(seen.risk) is is_at_risk
    assert (describe_kept("s", replace(slot, retained_bytes=0)) or "") in ("", seen.risk)


@pytest.mark.parametrize(("limit_mib", "step_mib"), [(None, 64), (1024, 64), (64, 8), (4, 1)])
def test_a_quiet_table_moves_its_slot_before_the_server_gives_it_up(
    limit_mib: int | None, step_mib: int
) -> None:
    for behind_mib in (step_mib, step_mib + 1):
        flushed = 100 + behind_mib * MIB
        safe = None if limit_mib is None else limit_mib * MIB - flushed
        slot = Slot(100, retained_bytes=flushed, safe_bytes=safe)
        planned = look(slot, Ahead(seen_to=flushed), flushed).plan(HERE, NOW)
        assert isinstance(planned, Nothing) is (behind_mib == step_mib)


@pytest.mark.parametrize(
    ("state", "safe"), [(SlotState.UNRESERVED, -1), (SlotState.EXTENDED, 10 * MIB)]
)
def test_a_slot_at_risk_is_moved_by_whatever_its_log_has(state: SlotState, safe: int) -> None:
    """A quiet server writes a few bytes more, which let it remove what the slot has read."""
    slot = Slot(100, state, 80 * MIB, safe)
    assert isinstance(look(slot, Ahead(seen_to=100)).plan(HERE, NOW), Nothing)
    planned = look(slot, Ahead(seen_to=160), flushed=160).plan(HERE, NOW)
    assert isinstance(planned, PostgresRange)
    assert (planned.lsn, planned.until) == (100, 160)
    calm = replace(slot, state=SlotState.RESERVED, safe_bytes=100 * MIB)
    assert isinstance(look(calm, Ahead(seen_to=160), flushed=160).plan(HERE, NOW), Nothing)


def test_a_shared_slot_at_risk_is_moved_by_tables_that_may_hold_it() -> None:
    """All that are near it at once. Those ahead do not commit for each record of a server while one
    table stands still."""
    slot = Slot(100, SlotState.UNRESERVED, 80 * MIB, -1)

    def planned(at: int, flushed: int) -> PostgresRange | None:
        found = replace(look(slot, Ahead(seen_to=flushed), flushed), is_shared=True)
        taken = found.plan(replace(HERE, lsn=at), NOW)
        assert isinstance(taken, PostgresRange | Nothing)
        return taken if isinstance(taken, PostgresRange) else None

    assert [planned(at, 200) is not None for at in (100, 150, 151, 200)] == [
        True,
        True,
        False,
        False,
    ]
    ahead, commits = 100, 0
    for flushed in range(101, 5_000):
        taken = planned(ahead, flushed)
        if taken is not None:
            ahead, commits = taken.until or 0, commits + 1
    assert 5 < commits < 15


def test_much_log_is_said_in_whole_units() -> None:
    kept = (describe_kept("s", Slot(1, retained_bytes=size)) for size in (2 << 30, (2 << 30) + 5))
    assert set(kept) == {"the server keeps over 2.1 GB of its log for slot s"}
    assert look(Slot(1), None).retained == Retained(0, None, "reserved")
    assert replace(look(Slot(1)), slot=None).retained is None
