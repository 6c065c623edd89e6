"""Tables of a real Postgres by one slot: each at its own position, the slot at the least."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Timer

import psycopg
import pytest

from tideline.ingest.operation.operation import Operation
from tideline.ingest.sources.postgres import ahead as aheads
from tideline.ingest.sources.postgres import log as logs
from tideline.ingest.sources.postgres.slot_tables import look_at_slot
from tideline.ingest.sources.source import Lost, Nothing
from tideline.testing.postgres_feed import position
from tideline.testing.postgres_server import PostgresDatabase
from tideline.testing.shared_slot_feed import SharedSlotFeed

pytestmark = pytest.mark.postgres

NAMES = ("customers", "items", "orders")


def table(name: str, rows: int = 10) -> tuple[str, str]:
    return (
        f"create table {name} (id bigint primary key, v text)",
        f"insert into {name} select g, 'v' || g from generate_series(1, {rows}) g",
    )


def filled(postgres: PostgresDatabase) -> None:
    for name in NAMES:
        postgres.execute(*table(name))


def require_equal(feeds: SharedSlotFeed, database: PostgresDatabase, *names: str) -> None:
    for name in names or NAMES:
        expected = database.execute(f"select id, v from {name} order by id")
        assert feeds.named(name).rows() == expected, name


def confirmed(feeds: SharedSlotFeed) -> int:
    slot = look_at_slot(feeds.slot).slot
    assert slot is not None
    return slot.confirmed


def test_tables_of_one_slot_end_as_those_of_the_server(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    filled(postgres)
    feeds = SharedSlotFeed.of(tmp_path, postgres, changes_max=4)
    feeds.drain()
    require_equal(feeds, postgres)
    with postgres.connect() as connection:
        connection.execute("begin")
        for number, name in enumerate(NAMES):
            connection.execute(f"update {name} set v = 'all' where id <= {number + 3}".encode())
            connection.execute(f"delete from {name} where id = 10".encode())
        connection.execute("commit")
    postgres.execute("insert into items values (11, 'only here')")
    feeds.drain()
    require_equal(feeds, postgres)
    assert all(isinstance(feeds.named(name).plan(), Nothing) for name in NAMES)
    slots = postgres.execute("select count(*) from pg_replication_slots where database ="
                             " current_database()")  # fmt: skip
    assert slots == [(1,)]


def test_the_slot_is_where_the_table_is_that_has_least(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    filled(postgres)
    feeds = SharedSlotFeed.of(tmp_path, postgres, changes_max=4)
    feeds.drain()
    before = confirmed(feeds)
    for _ in range(3):
        postgres.execute("insert into orders select max(id) + 1, 'x' from orders",
                         "insert into items select max(id) + 1, 'y' from items")  # fmt: skip
        feeds.step(["orders"])
        floor = feeds.move()
        assert floor is not None
        assert floor.holder != "public.orders"
    assert confirmed(feeds) == before
    assert position(feeds.named("orders")).lsn > before  # type: ignore[operator]
    require_equal(feeds, postgres, "orders")
    # What the slot gives again to the one is new to the other.
    feeds.drain()
    require_equal(feeds, postgres)


@pytest.mark.parametrize("of", ["all tables", "tables in schema public", "table items, orders"])
def test_a_table_of_any_publication_holds_the_slot(
    of: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    """The list of tables and a table's own look say the same of its publication."""
    postgres.execute(*table("items"), *table("orders"))
    postgres.execute(f"create publication {postgres.slot} for {of}")
    feeds = SharedSlotFeed.of(tmp_path, postgres, changes_max=4)
    feeds.drain()
    before = confirmed(feeds)
    held = position(feeds.named("items"))
    assert [item.origin for item in feeds.tables() if item.name == "items"] == [held.origin]
    assert held.origin.entry and held.origin.version
    postgres.execute("insert into orders values (11, 'x')", "insert into items values (11, 'y')")
    feeds.step(["orders"])
    floor = feeds.move()
    assert floor is not None
    assert (floor.lsn, floor.holder) == (held.lsn, "public.items")
    assert confirmed(feeds) == max(before, held.lsn or 0)
    feeds.drain()
    require_equal(feeds, postgres, "items", "orders")


def test_a_table_that_comes_later_holds_the_slot_and_nobody_else(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    filled(postgres)
    feeds = SharedSlotFeed.of(tmp_path, postgres, changes_max=4)
    feeds.drain()
    postgres.execute(*table("late", rows=12))
    floor = feeds.move()
    assert floor is not None
    assert (floor.lsn, floor.holder) == (None, "public.late")
    feeds.step(["late"])
    start = position(feeds.named("late"))
    assert start.copied == ()
    assert start.lsn is not None
    for number in range(4):
        postgres.execute(
            f"update orders set v = 'n{number}' where id = 1",
            f"update late set v = 'n{number}' where id = {number * 4 + 1}",
            f"delete from late where id = {number + 6}",
        )
        feeds.step(["orders"])
        require_equal(feeds, postgres, "orders")
        feeds.step(["late"])
        feeds.move()
        assert confirmed(feeds) <= start.lsn or position(feeds.named("late")).copied is None
    feeds.drain()
    require_equal(feeds, postgres, *NAMES, "late")
    postgres.execute(*(f"delete from {name} where id = 2" for name in (*NAMES, "late")))
    feeds.drain()
    require_equal(feeds, postgres, *NAMES, "late")
    assert confirmed(feeds) > start.lsn


def test_a_table_is_published_once_nobody_writes_to_it(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    filled(postgres)
    feeds = SharedSlotFeed.of(tmp_path, postgres, changes_max=100)
    feeds.drain()
    postgres.execute(*table("late"))
    with postgres.connect() as connection:
        connection.execute("begin")
        connection.execute("insert into late values (100, 'open')")
        (result,) = feeds.step(["late"])
        assert result.is_safe_to_retry
        assert "transactions write to the table" in result.message
        assert feeds.named("late").checkpoint() is None
        connection.execute("insert into late values (101, 'open')")
        connection.execute("commit")
    postgres.execute("insert into late values (102, 'behind')")
    feeds.drain()
    require_equal(feeds, postgres, *NAMES, "late")


def test_much_log_of_others_is_passed_without_reading_it_again_and_again(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    filled(postgres)
    feeds = replace(SharedSlotFeed.of(tmp_path, postgres, changes_max=50), step_bytes=1 << 16)
    feeds.drain()
    before = confirmed(feeds)
    postgres.execute(
        "insert into orders select g, repeat('x', 100) from generate_series(100, 1500) g",
        "insert into items values (50, 'behind it')",
        "insert into orders values (2000, 'last')",
    )
    operation = feeds.named("items").plan()
    assert isinstance(operation, Operation)
    results = feeds.step(["items"])
    assert [result.source_records for result in results] == [1]
    # Customers have nothing, and let the slot move.
    assert [result.source_records for result in feeds.step(["customers"])] == [0]
    feeds.drain()
    require_equal(feeds, postgres)
    assert confirmed(feeds) > before + (1 << 16)


def test_a_table_that_is_dropped_or_made_again_does_not_hold_the_slot(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    filled(postgres)
    feeds = SharedSlotFeed.of(tmp_path, postgres, changes_max=50)
    feeds.drain()
    before = confirmed(feeds)
    items = feeds.named("items")
    postgres.execute("drop table items")
    postgres.execute("drop table customers", *table("customers"))
    postgres.execute("insert into orders values (50, 'x')")
    lost = items.plan()
    assert isinstance(lost, Lost)
    assert lost.what == "there is no table public.items any more"
    again = feeds.named("customers").plan()
    assert isinstance(again, Lost)
    assert "dropped and created again" in again.what
    feeds.step(["orders"])
    feeds.move()
    assert confirmed(feeds) > before
    require_equal(feeds, postgres, "orders")


def test_a_table_waits_for_its_turn_at_the_slot(
    postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(postgres)
    feeds = SharedSlotFeed.of(tmp_path, postgres, changes_max=100)
    feeds.drain()
    postgres.execute("insert into items values (11, 'x')")
    planned = feeds.named("items").plan()
    assert isinstance(planned, Operation)
    monkeypatch.setattr(aheads, "_BUSY_S", 0.1)
    reader = psycopg.connect(f"{postgres.uri}?replication=database", autocommit=True)
    reader.pgconn.send_query(
        f"START_REPLICATION SLOT {postgres.slot} LOGICAL 0/0 "
        f"(proto_version '1', publication_names '{postgres.slot}')".encode()
    )
    words = f"another table reads slot {postgres.slot}: it is this one's turn afterwards"
    try:
        while not postgres.execute("select active from pg_replication_slots where active"):
            pass
        seen = feeds.named("items").plan()
        assert isinstance(seen, Nothing)
        assert seen.reason == words
        with monkeypatch.context() as patched:
            patched.setattr(logs, "_TURN_S", 0.5)
            result = feeds.named("items").execute(planned)
        assert result.is_safe_to_retry
        assert words in result.message
        later = Timer(1.0, reader.close)
        later.start()
        assert feeds.named("items").execute(planned).exit_code == 0
        later.join()
    finally:
        reader.close()
    require_equal(feeds, postgres)


def test_tables_that_cannot_be_read_are_named(postgres: PostgresDatabase, tmp_path: Path) -> None:
    postgres.execute(
        "create table plain (b int, a text, c int, primary key (a, b))",
        "create table keyless (id int)",
        "create table nameless (id int primary key)",
        "alter table nameless replica identity nothing",
        "create unlogged table fleeting (id int primary key)",
        "create table divided (id int primary key) partition by range (id)",
        "create table divided_1 partition of divided for values from (0) to (10)",
    )
    feeds = SharedSlotFeed.of(tmp_path, postgres, changes_max=50)
    found = {item.name: (item.key, item.obstacle) for item in look_at_slot(feeds.slot).tables}
    assert found == {
        "plain": (("a", "b"), ""),
        "keyless": ((), "it has no primary key, or no replica identity"),
        "nameless": ((), "it has no primary key, or no replica identity"),
        "fleeting": (("id",), "it is unlogged: its changes are not in the log"),
        "divided": (("id",), ""),
    }
    postgres.execute(f"create publication {postgres.slot}")
    found = {item.name: (item.key, item.obstacle) for item in look_at_slot(feeds.slot).tables}
    words = "it has partitions, and the publication has no publish_via_partition_root"
    assert found["divided"] == (("id",), words)
    assert found["plain"] == (("a", "b"), "")
