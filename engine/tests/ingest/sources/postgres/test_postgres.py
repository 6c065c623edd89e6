"""Tables of a real Postgres become rows of a table: first a copy, then each change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.postgres.reader import PostgresSource
from tideline.ingest.sources.source import Lost, Nothing, Settled
from tideline.storage.location import StoreLocation
from tideline.testing.faulty_store import SimulatedCrash
from tideline.testing.postgres_feed import ORDERS, TEN, PostgresFeed, orders_feed
from tideline.testing.postgres_server import PostgresDatabase

pytestmark = pytest.mark.postgres


def planned(found: PostgresFeed) -> Operation:
    operation = found.plan()
    assert isinstance(operation, Operation), operation
    return operation


def require_equal(found: PostgresFeed, database: PostgresDatabase) -> None:
    assert found.drain() is None
    rows = database.execute("select id, v, n from orders order by id")
    assert found.rows("id", "v", "n") == rows


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_rows_are_copied_by_key_and_then_changes_follow(
    table_type: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN)
    found = orders_feed(tmp_path, postgres, changes_max=4)
    found.table_type = table_type
    assert found.drain() is None
    assert [result.rows_inserted for result in found.results] == [0, 4, 4, 2]
    assert found.rows() == [(n, f"v{n}") for n in range(1, 11)]
    postgres.execute(
        "update orders set v = 'new' where id = 3",
        "delete from orders where id = 4",
        "insert into orders values (11, null, 1)",
        "update orders set id = 12 where id = 5",
    )
    require_equal(found, postgres)
    kept = {n: f"v{n}" for n in range(1, 11) if n not in (4, 5)}
    assert dict(found.rows()) == {**kept, 3: "new", 11: None, 12: "v5"}
    assert isinstance(found.plan(), Nothing)


def test_what_changes_while_rows_are_copied_is_in_the_log(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN)
    found = orders_feed(tmp_path, postgres, changes_max=3)
    steps = iter(
        (
            # Before the slot, behind the copy, before it, in the span that comes next.
            "delete from orders where id = 1",
            "insert into orders values (0, 'early', 0)",
            "update orders set id = 2000 where id = 3",
            "delete from orders where id = 9",
            "insert into orders values (9, 'again', 1); delete from orders where id = 8",
        )
    )
    while isinstance(operation := found.plan(), Operation):
        for statement in next(steps, "select 1").split(";"):
            postgres.execute(statement)
        assert found.execute(operation).exit_code == 0
    require_equal(found, postgres)


def test_a_copied_row_that_is_deleted_and_made_again_ends_as_the_log_has_it(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN)
    found = orders_feed(tmp_path, postgres)
    found.execute(planned(found))
    postgres.execute(
        "delete from orders where id = 1",
        "insert into orders values (1, 'second', 1)",
        "update orders set v = 'third' where id = 1",
        "delete from orders where id = 2",
    )
    # The copy sees what the log repeats.
    found.execute(planned(found))
    assert dict(found.rows())[1] == "third"
    require_equal(found, postgres)
    assert 2 not in dict(found.rows())


def test_transactions_that_are_rolled_back_are_no_rows_and_are_never_divided(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS)
    found = orders_feed(tmp_path, postgres, changes_max=2)
    found.drain()
    with postgres.connect() as connection:
        connection.execute("begin")
        connection.execute("insert into orders values (1, 'lost', 1)")
        connection.execute("rollback")
        connection.execute("begin")
        connection.execute("savepoint one")
        connection.execute("insert into orders values (2, 'lost', 1)")
        connection.execute("rollback to one")
        connection.execute("insert into orders select g, 'kept', 1 from generate_series(3, 12) g")
        postgres.execute("insert into orders values (100, 'first', 1)")
        require_equal(found, postgres)
        assert found.rows() == [(100, "first")]
        connection.execute("commit")
    found.results.clear()
    require_equal(found, postgres)
    assert [result.rows_inserted for result in found.results] == [10]
    assert found.results[0].source_records == 10


def test_chains_of_keys_within_one_commit_end_as_in_the_source(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, "insert into orders values (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    found = orders_feed(tmp_path, postgres)
    found.drain()
    postgres.execute(
        "update orders set id = 10 where id = 1",
        "update orders set id = 1 where id = 2",
        "update orders set id = 2 where id = 10",
        "delete from orders where id = 3",
        "insert into orders values (3, 'new', 9)",
        "insert into orders values (4, 'gone', 9)",
        "delete from orders where id = 4",
    )
    require_equal(found, postgres)
    assert found.rows() == [(1, "b"), (2, "a"), (3, "new")]


def test_after_a_death_between_commit_and_slot_the_next_operation_moves_it(
    postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute(ORDERS, TEN)
    found = orders_feed(tmp_path, postgres)
    found.drain()
    postgres.execute("update orders set n = n + 1 where id = 1")

    def die(*_: object) -> Settled:
        raise SimulatedCrash("behind the commit")

    with monkeypatch.context() as patched:
        patched.setattr(PostgresSource, "settle", die)
        with pytest.raises(SimulatedCrash):
            found.execute(planned(found))
    # What is in the table comes again, and is passed over.
    postgres.execute("update orders set n = n + 1 where id = 2")
    found.results.clear()
    require_equal(found, postgres)
    assert [result.source_records for result in found.results] == [1]
    with monkeypatch.context() as patched:
        patched.setattr(PostgresSource, "settle", die)
        postgres.execute("update orders set n = n + 1 where id = 3")
        with pytest.raises(SimulatedCrash):
            found.execute(planned(found))
    result = found.execute(planned(found))
    assert (result.outcome, result.source_records) == (Outcome.SUCCEEDED, 0)
    assert result.message.startswith(f"slot {postgres.slot} moved to ")
    assert isinstance(found.plan(), Nothing)


def test_a_planned_range_reads_the_same_again_whatever_comes_meanwhile(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS)
    found = orders_feed(tmp_path, postgres)
    found.drain()
    postgres.execute("insert into orders values (1, 'a', 1)")
    operation = planned(found)
    postgres.execute("update orders set v = 'later' where id = 1")
    found.execute(operation)
    assert found.rows() == [(1, "a")]
    assert found.execute(operation).outcome is Outcome.NOTHING
    require_equal(found, postgres)


def test_other_tables_of_a_publication_are_passed_over(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        ORDERS,
        "create table others (id int primary key)",
        "create publication everything for all tables",
    )
    found = orders_feed(tmp_path, postgres, publication="everything")
    found.drain()
    postgres.execute("insert into others values (1)", "truncate others", TEN)
    require_equal(found, postgres)
    # A commit without rows for this table lets the slot move.
    postgres.execute("insert into others values (2)")
    assert found.drain() is None
    assert isinstance(found.plan(), Nothing)


def test_a_table_that_is_not_there_yet_is_waited_for(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = orders_feed(tmp_path, postgres)
    assert isinstance(found.plan(), Nothing)
    assert not found.look().exists
    postgres.execute(ORDERS)
    require_equal(found, postgres)


def test_columns_that_nobody_declares_are_those_of_the_server(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        "create table orders (id int primary key, v text, price numeric(10,2), at timestamptz)",
        "insert into orders values (1, 'a', 1.5, '2026-11-28 10:00:00+02')",
    )
    found = PostgresFeed.of(tmp_path, postgres)
    assert found.drain() is None
    ((number, price, at),) = found.rows("id", "price", "at")
    assert (number, str(price), at.isoformat()) == (1, "1.50", "2026-11-28T08:00:00+00:00")


def test_keys_of_several_columns_are_copied_in_their_order(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        "create table orders (shop text, id int, v text, primary key (shop, id))",
        "insert into orders select chr(97 + g % 3) || '''%', g, 'v' from generate_series(1, 20) g",
    )
    found = PostgresFeed.of(tmp_path, postgres, changes_max=3)
    found.key = ("shop", "id")
    assert found.drain() is None
    postgres.execute("delete from orders where id < 5", "update orders set shop = 'z' where id = 9")
    assert found.drain() is None
    assert sorted(found.rows("shop", "id", "v")) == sorted(
        postgres.execute("select shop, id, v from orders")
    )
    assert len(found.rows("shop")) == 16


def test_a_truncated_table_stops_the_ingest_or_is_ignored_by_choice(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN)
    found = orders_feed(tmp_path, postgres)
    found.drain()
    postgres.execute("truncate orders", "insert into orders values (1, 'after', 1)")
    result = found.execute(planned(found))
    assert result.outcome is Outcome.FAILED
    assert "the table was truncated in the log before" in result.message
    assert "source.onTruncate: Ignore" in result.message
    ignoring = orders_feed(tmp_path, postgres, on_truncate=OnTruncate.IGNORE)
    assert ignoring.drain() is None
    assert dict(ignoring.rows()) == {**{n: f"v{n}" for n in range(2, 11)}, 1: "after"}


def test_rows_that_cannot_be_taken_in_are_set_aside(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        "create table orders (id bigint primary key, v text, n numeric)",
        "insert into orders values (1, 'a', 1), (2, 'b', 'NaN')",
    )
    failing = orders_feed(tmp_path, postgres)
    failing.execute(planned(failing))
    result = failing.execute(planned(failing))
    assert result.outcome is Outcome.FAILED
    assert "row 2, column n: 'NaN' is no int32" in result.message
    aside = Location(f"file://{tmp_path}/aside")
    found = orders_feed(tmp_path, postgres, set_aside=aside)
    found.bad_rows_max = 10
    assert found.drain() is None
    postgres.execute("insert into orders values (3, 'c', 1.5), (4, 'd', 4)")
    assert found.drain() is None
    assert found.rows("id", "n") == [(1, 1), (4, 4)]
    store = StoreLocation.of(f"{tmp_path}/aside").open()
    kept = [store.get(item.path).decode() for item in store.list("public.orders/")]
    assert len(kept) == 2
    assert any("\"1.5' is no" in text or "'1.5' is no int32" in text for text in kept)


def test_a_table_or_slot_that_is_made_again_is_named(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN)
    found = orders_feed(tmp_path, postgres)
    found.drain()
    postgres.execute(f"select pg_drop_replication_slot('{postgres.slot}')")
    lost = found.drain()
    assert isinstance(lost, Lost)
    assert lost.what == f"there is no slot {postgres.slot} any more"
    postgres.execute(
        "insert into orders values (20, 'unseen', 1)",
        f"select pg_create_logical_replication_slot('{postgres.slot}', 'pgoutput')",
    )
    lost = found.drain()
    assert isinstance(lost, Lost)
    assert "another reader moved it, or it was made again" in lost.what
    postgres.execute("drop table orders", ORDERS)
    lost = found.drain()
    assert isinstance(lost, Lost)
    assert lost.what == "table orders was dropped and created again"
    postgres.execute("alter table orders rename to renamed")
    lost = found.drain()
    assert isinstance(lost, Lost)
    assert lost.what == "there is no table orders any more"


def test_a_table_that_left_its_publication_for_a_while_is_named(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN)
    found = orders_feed(tmp_path, postgres)
    found.drain()
    postgres.execute(
        f"alter publication {postgres.slot} drop table orders",
        "insert into orders values (20, 'unseen', 1)",
        f"alter publication {postgres.slot} add table orders",
    )
    lost = found.drain()
    assert isinstance(lost, Lost)
    assert lost.what == "table orders was taken out of the publication"
