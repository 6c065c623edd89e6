"""A table of Postgres is copied again into its Iceberg table: the old rows until all is copied."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.iceberg_copies import branch_for
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
from tideline.testing.stream_feed import ICEBERG_MODES, NAME

pytestmark = pytest.mark.postgres


def feed_of(folder: Path, database: PostgresDatabase, mode: str = ICEBERG_MODES[0]) -> PostgresFeed:
    found = orders_feed(folder, database, changes_max=4).into(mode)
    return replace(found, partition_by=("bucket(2, id)",))


def lake_of(found: PostgresFeed) -> IcebergLakeTable:
    lake = found.lake()
    assert isinstance(lake, IcebergLakeTable)
    return lake


def require_copied(found: PostgresFeed, database: PostgresDatabase) -> None:
    require_equal(found, database)
    assert (position(found).phase, position(found).again) == (Phase.LOG, None)
    lake = lake_of(found)
    assert lake.check() == ()
    assert sorted(lake.refs) == ["main"]


@pytest.mark.slow_with("merge-on-read")
@pytest.mark.parametrize("mode", ICEBERG_MODES)
def test_a_table_whose_slot_is_gone_is_copied_into_a_branch(
    mode: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN)
    found = feed_of(tmp_path, postgres, mode)
    found.drain()
    before = found.rows("id", "v", "n")
    postgres.execute(
        f"select pg_drop_replication_slot('{postgres.slot}')",
        "delete from orders where id in (3, 10)",
        "update orders set v = 'new' where id = 4",
        "insert into orders values (0, 'zero', 0)",
    )
    assert isinstance(found.plan(), Lost)
    assert found.again().outcome is Outcome.SUCCEEDED
    assert position(found).phase is Phase.AGAIN
    steps = 0
    while position(found).again is not None:
        assert found.rows("id", "v", "n") == before
        operation = found.plan()
        assert isinstance(operation, Operation)
        if steps == 1:
            postgres.execute("insert into orders values (20, 'x', 1)")
            postgres.execute("delete from orders where id = 1")
        assert found.execute(operation).exit_code == 0
        steps += 1
    assert steps > 4
    require_copied(found, postgres)
    postgres.execute("delete from orders where id = 2", "insert into orders values (21, 'x', 1)")
    require_copied(found, postgres)


def test_a_copy_that_is_given_up_leaves_main_and_one_begins_again(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN)
    found = feed_of(tmp_path, postgres)
    found.drain()
    assert found.again().outcome is Outcome.SUCCEEDED
    postgres.execute("delete from orders where id = 7")
    for _ in range(3):
        operation = found.plan()
        assert isinstance(operation, Operation)
        assert found.execute(operation).exit_code == 0
    lake_of(found).write([{"id": 500, "v": "theirs", "n": 1}])
    operation = found.plan()
    assert isinstance(operation, Operation)
    refused = found.execute(operation)
    assert refused.exit_code == 2
    assert "of another writer (append): tideline resync begins again" in refused.message
    # The slot was healthy, and what main has read continues there, or is known to be lost.
    lake_of(found).alter().drop_branch(branch_for(NAME)).commit()
    assert position(found).again is None
    assert isinstance(found.plan(), Lost | Operation)
    assert len(found.rows()) == 11
    assert found.again().outcome is Outcome.SUCCEEDED
    assert found.again().outcome is Outcome.SUCCEEDED
    require_copied(found, postgres)
