"""What is altered in the source is followed, or named with a remedy: nothing is lost unnoticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tideline.errors import ConfigError
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.postgres.position import Origin
from tideline.ingest.sources.source import Limits, Lost, Nothing
from tideline.testing.planted_differences import verified
from tideline.testing.postgres_feed import (
    ORDERS,
    TEN,
    PostgresFeed,
    look_by_wire,
    orders_feed,
    position,
    require_equal,
)
from tideline.testing.postgres_server import PostgresDatabase

pytestmark = pytest.mark.postgres

NEW = "insert into {} values (11, 'new', 11)"


def ready(folder: Path, database: PostgresDatabase) -> PostgresFeed:
    database.execute(ORDERS, TEN)
    found = orders_feed(folder, database)
    assert found.drain() is None
    return found


def failure(found: PostgresFeed) -> str:
    planned = found.plan()
    assert isinstance(planned, Operation)
    result = found.execute(planned)
    assert result.outcome is Outcome.FAILED
    return result.message


@pytest.mark.parametrize(
    ("statements", "name"),
    [
        (("alter table orders rename to old_orders",), "public.old_orders"),
        (("create schema shop", "alter table orders set schema shop"), "shop.orders"),
    ],
    ids=["renamed", "moved"],
)
def test_a_table_of_another_name_is_named_and_continued_under_it(
    statements: tuple[str, ...], name: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = ready(tmp_path, postgres)
    postgres.execute("insert into orders values (20, 'before', 1)", *statements, NEW.format(name))
    lost = found.plan()
    assert isinstance(lost, Lost)
    assert lost.what == f"table orders has become {name}"
    assert lost.remedy == "name that in source.table, and the ingest continues with it"
    with pytest.raises(ConfigError, match=f"table orders has become {name}"):
        verified(found.target, found.source)
    # Another table of that name is not taken for it.
    postgres.execute(ORDERS, "insert into orders values (99, 'another', 1)")
    lost = found.plan()
    assert isinstance(lost, Lost)
    assert f"has become {name}: name that" in str(lost)
    assert "or have the other one copied with tideline resync" in lost.remedy
    found.source = replace(found.source, table=name)
    assert found.drain() is None
    assert found.rows("id", "v", "n") == postgres.execute(f"select * from {name} order by id")


def test_a_column_of_another_name_is_named_before_its_values_are_lost(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = ready(tmp_path, postgres)
    postgres.execute(
        "insert into orders values (12, 'before', 12)",
        "alter table orders rename column v to w",
        NEW.format("orders"),
    )
    message = failure(found)
    assert "column v was renamed to w, and its values would be lost: rename it back" in message
    # Another column of that name is not taken for it.
    postgres.execute("alter table orders add column v text")
    assert "column v was renamed to w" in failure(found)
    postgres.execute(
        "alter table orders drop column v",
        "alter table orders rename column w to v",
    )
    postgres.execute("insert into orders values (13, 'back', 13)")
    assert found.again().outcome is Outcome.SUCCEEDED
    assert found.drain() is None
    assert found.rows("id", "v", "n") == postgres.execute("select * from orders order by id")


def test_a_renamed_column_is_taken_in_by_a_schema_that_names_it(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = ready(tmp_path, postgres)
    postgres.execute("alter table orders rename column v to w", NEW.format("orders"))
    assert "column v was renamed to w" in failure(found)
    renamed = found.typed(id="long", w="string", n="int")
    found.source = replace(found.source, schema=renamed.schema)
    found.again()
    assert found.drain() is None
    assert found.rows("id", "w", "n") == postgres.execute("select id, w, n from orders order by id")


def test_a_replica_identity_that_was_another_one_for_a_while_is_named_with_its_remedy(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = ready(tmp_path, postgres)
    postgres.execute(
        "alter table orders alter n set not null, add unique (n)",
        "alter table orders replica identity using index orders_n_key",
        "update orders set v = 'x' where id = 2",
        "delete from orders where id = 3",
        # As it was: changes of before are in the log, and stay.
        "alter table orders replica identity default",
        "delete from orders where id = 4",
    )
    message = failure(found)
    assert "recordKey is id, and changes name rows by n" in message
    assert "tideline resync" in message
    assert found.again().exit_code == 0
    require_equal(found, postgres)


def test_a_column_that_is_dropped_and_comes_again_is_no_renamed_one(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = ready(tmp_path, postgres)
    postgres.execute(
        "alter table orders drop column v",
        "insert into orders values (11, 11)",
        "alter table orders add column v text",
        "insert into orders values (12, 12, 'new')",
    )
    assert found.drain() is None
    assert found.rows("id", "v")[-2:] == [(11, None), (12, "new")]


@pytest.mark.parametrize("are_all", [False, True], ids=["of the table", "of all tables"])
def test_kinds_of_changes_that_were_left_out_meanwhile_are_not_lost_unnoticed(
    are_all: bool, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    if are_all:
        postgres.execute(f"create publication {postgres.slot} for all tables")
    found = ready(tmp_path, postgres)
    publish = f"alter publication {postgres.slot} set (publish = '{{}}')".format
    postgres.execute(
        publish("insert"),
        "delete from orders where id = 10",
        publish("insert, update, delete, truncate"),
        NEW.format("orders"),
    )
    lost = found.plan()
    assert isinstance(lost, Lost)
    assert lost.what == "the publication was altered, and may have left changes out meanwhile"
    assert "tideline resync" in lost.remedy
    assert found.again().outcome is Outcome.SUCCEEDED
    assert found.drain() is None
    assert found.rows("id", "v", "n") == postgres.execute("select * from orders order by id")


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_publication_that_is_dropped_while_the_ingest_runs_is_named(
    is_shared: bool, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    """By both looks; what was planned before takes nothing in."""
    postgres.execute(ORDERS, TEN)
    found = orders_feed(tmp_path, postgres, is_shared=is_shared)
    assert found.drain() is None
    postgres.execute(NEW.format("orders"))
    planned = found.plan()
    assert isinstance(planned, Operation)
    postgres.execute(f"drop publication {postgres.slot}", "delete from orders where id = 10")
    before = found.rows()
    assert found.execute(planned).outcome is Outcome.NOTHING
    assert found.rows() == before
    by_wire = look_by_wire(found.source, postgres.uri, position(found))
    for lost in (found.plan(), by_wire.plan(position(found), Limits(1, 0))):
        assert isinstance(lost, Lost)
        assert lost.what == f"there is no publication {postgres.slot} any more"
        assert "tideline resync" in lost.remedy
    assert found.again().outcome is Outcome.SUCCEEDED
    assert found.drain() is None
    assert found.rows("id", "v", "n") == postgres.execute("select * from orders order by id")


def test_a_publication_that_gets_other_tables_is_the_same(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = ready(tmp_path, postgres)
    postgres.execute(
        "create table others (id int primary key)",
        f"alter publication {postgres.slot} add table others",
        NEW.format("orders"),
        f"alter publication {postgres.slot} drop table others",
        "vacuum freeze pg_publication",
    )
    assert found.drain() is None
    assert isinstance(found.plan(), Nothing)
    assert found.rows()[-1] == (11, "new")


def test_a_publication_of_a_schema_has_the_table_until_either_leaves(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(f"create publication {postgres.slot} for tables in schema public")
    found = ready(tmp_path, postgres)
    postgres.execute(NEW.format("orders"), "delete from orders where id = 1")
    assert found.drain() is None
    assert found.rows("id", "v", "n") == postgres.execute("select * from orders order by id")
    postgres.execute(
        f"alter publication {postgres.slot} drop tables in schema public",
        "delete from orders where id = 2",
        f"alter publication {postgres.slot} add tables in schema public",
    )
    lost = found.plan()
    assert isinstance(lost, Lost)
    assert lost.what == "table orders was taken out of the publication"


def test_rows_of_tables_that_inherit_this_one_are_not_its_own(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN, "create table old () inherits (orders)", NEW.format("old"))
    found = orders_feed(tmp_path, postgres)
    assert found.drain() is None
    postgres.execute("update orders set v = 'again'", "insert into old values (12, 'old', 1)")
    assert found.drain() is None
    only = postgres.execute("select * from only orders order by id")
    assert found.rows("id", "v", "n") == only


def test_positions_of_before_do_not_know_the_version_of_a_publication() -> None:
    known, found = Origin.from_stored(["7", 1, 2, 3]), Origin("7", 1, 2, 3, 900)
    assert known.agrees_with(found)
    assert not replace(known, entry=4).agrees_with(found)
    assert not replace(found, version=901).agrees_with(found)
    assert Origin.from_stored(found.stored()) == found


def test_a_partition_is_a_table_unless_its_changes_come_as_those_of_another(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        "create table every_order (id bigint primary key, v text, n int) partition by range (id)",
        "create table orders partition of every_order for values from (0) to (100)",
        f"create publication {postgres.slot} for all tables",
        "insert into every_order values (1, 'copied', 1)",
    )
    found = orders_feed(tmp_path, postgres)
    assert found.drain() is None
    postgres.execute("insert into every_order values (2, 'new', 1)")
    assert found.drain() is None
    assert found.rows() == [(1, "copied"), (2, "new")]
    postgres.execute(f"alter publication {postgres.slot} set (publish_via_partition_root = true)")
    with pytest.raises(ConfigError, match="gives changes of partitions as those of the table"):
        found.plan()
