"""A table of Postgres in an Iceberg table: the same rows, each change once."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.source import Nothing
from tideline.testing.postgres_feed import ORDERS, TEN, PostgresFeed
from tideline.testing.postgres_server import PostgresDatabase
from tideline.testing.stream_feed import ICEBERG_MODES, columns

pytestmark = pytest.mark.postgres


def feed_of(
    folder: Path, database: PostgresDatabase, mode: str = "copy-on-write", **declared: Any
) -> PostgresFeed:
    found = PostgresFeed.of(folder, database, **declared).into(mode)
    return replace(found, partition_by=("bucket(2, id)",))


def require_equal(found: PostgresFeed, database: PostgresDatabase, *columns: str) -> None:
    assert found.drain() is None
    assert isinstance(found.plan(), Nothing)
    names = ", ".join(columns)
    assert found.rows(*columns) == database.execute(f"select {names} from orders order by id")


@pytest.mark.parametrize("mode", ICEBERG_MODES)
def test_rows_are_copied_and_changes_follow(
    mode: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN, "alter table orders alter v set storage external")
    found = feed_of(tmp_path, postgres, mode)
    require_equal(found, postgres, "id", "v", "n")
    large = "y" * 9_000
    postgres.execute(
        f"update orders set v = '{large}' where id = 2",
        "update orders set n = 20 where id = 2",
        "delete from orders where id = 3",
        "begin; delete from orders where id = 4; insert into orders values (4, 'again', 0); commit",
        "update orders set id = 40 where id = 5",
        "insert into orders values (11, 'gone', 1)",
        "delete from orders where id = 11",
        "alter table orders add more numeric(10, 2)",
        "insert into orders values (12, 'new', 12, 1.5)",
    )
    require_equal(found, postgres, "id", "v", "n")
    more = columns(id="long", v="string", n="int", more="decimal(10,2)")
    found.source = replace(found.source, schema=more)
    postgres.execute("update orders set n = 21, more = 2.5 where id = 2")
    require_equal(found, postgres, "id", "v", "n")
    assert found.rows("id", "v", "more")[1] == (2, large, Decimal("2.50"))


def test_a_truncate_takes_all_rows_out(postgres: PostgresDatabase, tmp_path: Path) -> None:
    postgres.execute(ORDERS, TEN)
    found = feed_of(tmp_path, postgres, on_truncate=OnTruncate.DELETE)
    require_equal(found, postgres, "id", "v", "n")
    postgres.execute(
        "insert into orders values (11, 'gone', 1)",
        "truncate orders",
        "insert into orders values (1, 'first', 1), (2, 'b', 2)",
        "update orders set v = 'second' where id = 1",
        "delete from orders where id = 2",
    )
    found.results.clear()
    require_equal(found, postgres, "id", "v", "n")
    assert len([result for result in found.results if result.source_records]) == 1
    postgres.execute("truncate orders")
    require_equal(found, postgres, "id", "v", "n")
