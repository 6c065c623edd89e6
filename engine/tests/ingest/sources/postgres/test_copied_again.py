"""A table is copied again into itself, whatever was lost: old rows until new ones replace them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideline.errors import ConfigError
from tideline.ingest.execute.table_access import open_table
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.postgres import reader
from tideline.ingest.sources.postgres.position import Phase
from tideline.ingest.sources.source import Lost
from tideline.testing.postgres_feed import (
    ORDERS,
    TEN,
    PostgresFeed,
    orders_feed,
    position,
    require_equal,
)
from tideline.testing.postgres_server import PostgresDatabase

pytestmark = pytest.mark.postgres


def again(found: PostgresFeed) -> None:
    result = found.again()
    assert result.outcome is Outcome.SUCCEEDED, result


def require_copied(found: PostgresFeed, database: PostgresDatabase) -> None:
    require_equal(found, database)
    assert position(found).phase is Phase.LOG
    assert position(found).again is None


@pytest.mark.slow_with("COPY_ON_WRITE")
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_a_table_whose_slot_is_gone_is_copied_again_into_itself(
    table_type: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN)
    found = orders_feed(tmp_path, postgres, changes_max=4)
    found.table_type = table_type
    found.drain()
    postgres.execute(
        f"select pg_drop_replication_slot('{postgres.slot}')",
        "delete from orders where id in (3, 10)",
        "update orders set v = 'new' where id = 4",
        "insert into orders values (0, 'zero', 0)",
    )
    assert isinstance(found.plan(), Lost)
    again(found)
    before = found.rows()
    assert [row[0] for row in before] == list(range(1, 11))
    assert position(found).phase is Phase.AGAIN
    require_copied(found, postgres)
    postgres.execute("delete from orders where id = 1", "insert into orders values (20, 'x', 1)")
    require_copied(found, postgres)


@pytest.mark.slow_with("truncated", "made again", "without publication", "slot moved")
@pytest.mark.parametrize(
    "losing",
    [
        ("truncate orders", "insert into orders values (2, 'two', 2)"),
        ("drop table orders", ORDERS, "insert into orders values (2, 'two', 2)",
         "alter publication {slot} add table orders"),
        ("drop publication {slot}", "delete from orders where id < 9"),
        ("select pg_drop_replication_slot('{slot}')", "drop publication {slot}",
         "drop table orders", ORDERS),
        ("select pg_replication_slot_advance('{slot}', pg_current_wal_lsn())",),
    ],
    ids=["truncated", "made again", "without publication", "nothing left", "slot moved"],
)  # fmt: skip
def test_whatever_was_lost_the_table_ends_as_the_source(
    losing: tuple[str, ...], postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN)
    found = orders_feed(tmp_path, postgres, changes_max=4)
    found.drain()
    postgres.execute("delete from orders where id = 7")
    postgres.execute(*(statement.format(slot=postgres.slot) for statement in losing))
    with pytest.raises((AssertionError, ConfigError)):
        assert found.drain() is None
        assert found.rows("id", "v", "n") == postgres.execute("select id, v, n from orders")
    again(found)
    require_copied(found, postgres)
    postgres.execute("insert into orders values (30, 'x', 1)", "delete from orders where id = 2")
    require_copied(found, postgres)


def test_what_changes_while_rows_are_copied_again_is_in_the_log(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN)
    found = orders_feed(tmp_path, postgres, changes_max=3)
    found.drain()
    again(found)
    steps = iter(
        (
            "insert into orders values (11, 'before the slot', 0)",
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
    assert next(steps, None) is None
    require_copied(found, postgres)


@pytest.mark.slow_with("COPY_ON_WRITE")
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_many_rows_leave_in_several_commits_also_where_services_rewrite_them(
    table_type: str, postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_SWEPT_MAX", 30)
    postgres.execute(ORDERS, TEN.replace("10)", "100)"))
    found = orders_feed(tmp_path, postgres, changes_max=60)
    found.table_type = table_type
    found.drain()
    again(found)
    postgres.execute("delete from orders where id % 10 <> 0")
    sweeps = 0
    while isinstance(operation := found.plan(), Operation):
        sweeps += "no more" in str(operation.to_json_object())
        assert found.execute(operation).exit_code == 0
        table = open_table(found.target)
        assert table is not None
        table.run("compaction", options={"hoodie.compact.inline.max.delta.commits": "1"})
        if position(found).phase is Phase.SWEEP:
            # Of 100 rows the source has 10.
            assert len(found.rows()) >= 10
    assert sweeps > 1
    require_copied(found, postgres)


def test_rows_of_other_writers_that_came_later_stay(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN)
    found = orders_feed(tmp_path, postgres, changes_max=100)
    found.drain()
    again(found)
    table = open_table(found.target)
    assert table is not None
    table.upsert([{"id": 500, "v": "theirs", "n": 1}])
    assert found.drain() is None
    assert found.rows()[-1] == (500, "theirs")


def test_a_table_that_read_nothing_yet_and_one_without_a_source_are_refused(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN)
    found = orders_feed(tmp_path, postgres)
    with pytest.raises(ConfigError, match="has read nothing of this source yet"):
        again(found)
    found.drain()
    postgres.execute("drop table orders")
    with pytest.raises(ConfigError, match="there is no table orders"):
        again(found)
    assert len(found.rows()) == 10


@pytest.mark.slow
def test_a_copy_that_lost_its_source_begins_again(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN)
    found = orders_feed(tmp_path, postgres, changes_max=4)
    found.drain()
    again(found)
    for _ in range(3):
        operation = found.plan()
        assert isinstance(operation, Operation)
        found.execute(operation)
    first = position(found).again
    postgres.execute(
        f"select pg_drop_replication_slot('{postgres.slot}')", "delete from orders where id = 1"
    )
    assert isinstance(found.plan(), Lost)
    again(found)
    assert position(found).again != first
    require_copied(found, postgres)
