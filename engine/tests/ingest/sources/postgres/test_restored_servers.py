"""A server that has another log at the same places: it was restored from a copy of its disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tideline.errors import ConfigError
from tideline.ingest.sources.postgres.position import LastChange, PostgresPosition
from tideline.ingest.sources.postgres.server import advance_slot, look_at
from tideline.ingest.sources.source import Limits, Lost, Nothing
from tideline.testing.planted_differences import verified
from tideline.testing.postgres_feed import ORDERS, TEN, look_by_wire, orders_feed, position
from tideline.testing.postgres_server import PostgresDatabase, own_server
from tideline.testing.shared_slot_feed import SharedSlotFeed

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

OTHERS = "create table others (id bigint primary key, v text)"
NOW = Limits(1, 0)


def more(database: PostgresDatabase, first: int, rows: int, table: str = "orders") -> None:
    """Each in a transaction of its own."""
    columns = "id, v"
    database.execute(
        *(f"insert into {table} ({columns}) values ({first + n}, 'x')" for n in range(rows))
    )


@pytest.mark.parametrize("is_quiet", [False, True], ids=["changed", "quiet"])
def test_a_log_that_has_grown_past_the_position_is_another_one(
    is_quiet: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes that were read are gone, or changes were written where there was nothing to read."""
    with own_server() as server, PostgresDatabase(server) as database:
        monkeypatch.setenv("POSTGRES_URI", database.uri)
        database.execute(ORDERS, OTHERS, TEN)
        found = orders_feed(tmp_path, database, step_bytes=1 << 20)
        assert found.drain() is None
        more(database, 20, 1)
        assert found.drain() is None
        copy = server.copy_disk()
        if is_quiet:
            # A commit without rows lets the slot move.
            filler = f"select pg_logical_emit_message(false, 'x', repeat('x', {3 << 20}))"
            database.execute(filler)
            more(database, 0, 3, "others")
        else:
            more(database, 21, 3)
        before = position(found)
        assert found.drain() is None
        after = position(found)
        assert (after.lsn or 0) > (before.lsn or 0)

        server.restore_disk(copy)
        behind = found.plan()
        assert isinstance(behind, Lost)
        assert "the server lost changes" in behind.what
        more(database, 100, 3)
        if is_quiet:
            database.execute(filler)
        more(database, 200, 40, "others")
        for look in (
            look_at(found.source, after, {"POSTGRES_URI": database.uri}),
            look_by_wire(found.source, database.uri, after),
        ):
            assert look.flushed > (after.lsn or 0), "the log has not grown enough"
            lost = look.plan(after, NOW)
            assert isinstance(lost, Lost)
            assert "the server was restored from an earlier copy of its disk" in lost.what
            assert "tideline resync" in lost.remedy
            # Nothing lets the server remove what the copy again needs.
            assert look.backlog(after, NOW).remembered == 0
        with pytest.raises(ConfigError, match="restored from an earlier copy of its disk"):
            verified(found.target, found.source)
        # A checkpoint of an earlier release does not say what it has read.
        earlier = replace(after, last=None)
        assert PostgresPosition.from_stored(earlier.stored()) == earlier
        look = look_at(found.source, earlier, {"POSTGRES_URI": database.uri})
        assert not isinstance(look.plan(earlier, NOW), Lost)

        assert found.again().exit_code == 0
        assert found.drain() is None
        rows = database.execute("select id, v, n from orders order by id")
        assert found.rows("id", "v", "n") == rows


def test_tables_of_a_shared_slot_are_read_from_before_their_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slot is held by another table, so that what was read is seen at every look."""
    with own_server() as server, PostgresDatabase(server) as database:
        monkeypatch.setenv("POSTGRES_URI", database.uri)
        database.execute(ORDERS, OTHERS, TEN)
        feeds = SharedSlotFeed.of(tmp_path, database, changes_max=100)
        feeds.drain()
        copy = server.copy_disk()
        more(database, 20, 2)
        more(database, 0, 2, "others")
        while feeds.step(["orders"]):
            feeds.move()
        orders = feeds.named("orders")
        assert isinstance(orders.plan(), Nothing)
        more(database, 30, 2)
        while feeds.step(["orders"]):
            feeds.move()
        server.restore_disk(copy)
        more(database, 100, 40)
        lost = orders.plan()
        assert isinstance(lost, Lost)
        assert "restored from an earlier copy" in lost.what
        # The one that had read nothing has lost nothing.
        others = feeds.named("others")
        assert others.drain() is None
        assert others.rows() == database.execute("select id, v from others order by id")


def test_a_slot_that_goes_back_in_a_crash_is_the_same_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server writes down where a slot is at its checkpoints only."""
    with own_server() as server, PostgresDatabase(server) as database:
        monkeypatch.setenv("POSTGRES_URI", database.uri)
        database.execute(ORDERS, OTHERS, TEN)
        found = orders_feed(tmp_path, database)
        assert found.drain() is None
        for number in range(3):
            more(database, 20 + 10 * number, 3)
            more(database, 10 * number, 3, "others")
            assert found.drain() is None
            server.kill()
            server.start()
            look = look_at(found.source, position(found), {"POSTGRES_URI": database.uri})
            assert look.slot is not None
            assert look.slot.confirmed < (position(found).lsn or 0), "it did not go back"
            assert not isinstance(look.plan(position(found), NOW), Lost)
            assert look.backlog(position(found), NOW).remembered == 1
            assert advance_slot(found.source, position(found).lsn or 0)
        rows = database.execute("select id, v, n from orders order by id")
        assert found.rows("id", "v", "n") == rows


@pytest.mark.parametrize(
    ("last", "before", "since", "agrees"),
    [
        (LastChange(50, 7), LastChange(50, 7), 40, True),
        (LastChange(50, 7), LastChange(50, 8), 40, False),
        (LastChange(50, 7), LastChange(60, 9), 40, False),
        (LastChange(50, 7), LastChange(45, 6), 40, False),
        (LastChange(50, 7), None, 40, False),
        # It is before what is seen.
        (LastChange(30, 7), None, 40, True),
        (LastChange(30, 7), LastChange(50, 9), 40, False),
        # Nothing was read since the begin, before which there may be anything.
        (LastChange(50), None, 40, True),
        (LastChange(50), LastChange(45, 6), 40, True),
        (LastChange(50), LastChange(50, 6), 40, True),
        (LastChange(50), LastChange(51, 6), 40, False),
    ],
)
def test_what_was_read_and_what_the_log_has(
    last: LastChange, before: LastChange | None, since: int, agrees: bool
) -> None:
    assert last.agrees_with(before, since) is agrees


def test_a_slot_that_gives_what_is_not_committed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        own_server(max_prepared_transactions="5") as server,
        PostgresDatabase(server) as database,
    ):
        monkeypatch.setenv("POSTGRES_URI", database.uri)
        slot = database.slot
        two_phase = f"select pg_create_logical_replication_slot('{slot}', 'pgoutput', false, true)"
        database.execute(ORDERS, TEN, f"create publication {slot} for table orders", two_phase)
        found = orders_feed(tmp_path, database)
        with pytest.raises(ConfigError, match=r"before they are committed \(two_phase\): drop it"):
            found.drain()
        database.execute(f"select pg_drop_replication_slot('{slot}')")
        assert found.drain() is None
        # Prepared transactions are rows where they are committed.
        database.execute(
            "begin; insert into orders values (20, 'kept', 1); prepare transaction 'kept'",
            "begin; insert into orders values (21, 'gone', 1); prepare transaction 'gone'",
            "insert into orders values (22, 'between', 1)",
        )
        assert found.drain() is None
        assert [row[0] for row in found.rows() if row[0] >= 20] == [22]
        database.execute("rollback prepared 'gone'", "commit prepared 'kept'")
        assert found.drain() is None
        assert [row[0] for row in found.rows() if row[0] >= 20] == [20, 22]
