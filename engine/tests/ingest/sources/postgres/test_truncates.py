"""A truncate deletes all rows that were there, in the order of the log, in one commit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.ingest.execute import hudi_table
from tideline.ingest.execute.table_access import open_table
from tideline.ingest.execute.table_checkpoints import other_ingests
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.checkpoint import checkpoint_metadata
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.postgres.reader import PostgresSource
from tideline.testing.faulty_store import SimulatedCrash
from tideline.testing.postgres_feed import (
    ORDERS,
    TEN,
    PostgresFeed,
    orders_feed,
    require_equal,
)
from tideline.testing.postgres_server import PostgresDatabase
from tideline.testing.stream_feed import NAME

pytestmark = pytest.mark.postgres


AT_ONCE = {
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.async.max.commits": "1",
}


def feed(folder: Path, database: PostgresDatabase, **declared: Any) -> PostgresFeed:
    return orders_feed(folder, database, on_truncate=OnTruncate.DELETE, **declared)


def operation(found: PostgresFeed) -> Operation:
    planned = found.plan()
    assert isinstance(planned, Operation)
    return planned


def emptied(folder: Path, database: PostgresDatabase) -> tuple[PostgresFeed, Operation]:
    """A table whose source was emptied, and has one row since; and the ingest of that."""
    database.execute(ORDERS, TEN)
    found = feed(folder, database)
    found.drain()
    database.execute("truncate orders", "insert into orders values (1, 'after', 1)")
    return found, operation(found)


def die(*_: object) -> None:
    raise SimulatedCrash("here")


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_rows_of_before_go_and_those_of_after_stay(
    table_type: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(ORDERS, TEN)
    found = feed(tmp_path, postgres)
    found.table_type = table_type
    found.drain()
    # One range: two truncates, a key that comes again, one that goes again, one of before.
    postgres.execute(
        "insert into orders values (11, 'gone', 1)",
        "truncate orders",
        "insert into orders values (3, 'gone', 1)",
        "begin; insert into orders values (4, 'gone', 1); truncate orders;"
        " insert into orders values (1, 'first', 1), (2, 'b', 2); commit",
        "update orders set v = 'second' where id = 1",
        "delete from orders where id = 2",
        "insert into orders values (12, 'new', 1)",
    )
    found.results.clear()
    require_equal(found, postgres)
    assert found.rows() == [(1, "second"), (12, "new")]
    assert len([result for result in found.results if result.source_records]) == 1
    # Nothing comes after it.
    postgres.execute("truncate orders")
    require_equal(found, postgres)
    assert found.rows() == []
    postgres.execute(TEN)
    require_equal(found, postgres)
    table = open_table(found.target)
    assert table is not None
    assert not table.check(keys=True)


def test_a_truncate_whose_commit_was_not_seen_is_not_repeated(
    postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, planned = emptied(tmp_path, postgres)
    with monkeypatch.context() as patched:
        patched.setattr(PostgresSource, "settle", die)
        with pytest.raises(SimulatedCrash):
            found.execute(planned)
    # The slot did not move: the truncate comes again, and is passed over.
    assert found.execute(planned).outcome in (Outcome.NOTHING, Outcome.SUCCEEDED)
    postgres.execute("insert into orders values (2, 'later', 1)")
    require_equal(found, postgres)
    assert found.rows() == [(1, "after"), (2, "later")]


@pytest.mark.slow_with("MERGE_ON_READ")
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_a_truncate_among_changes_of_a_table_with_partitions_an_index_and_plans(
    table_type: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        ORDERS,
        TEN,
        "create table customers (id bigint primary key)",
        "create table lines (id bigint primary key references orders)",
    )
    found = replace(
        feed(tmp_path, postgres),
        table_type=table_type,
        partition_by=("n",),
        write_properties={"hoodie.index.type": "GLOBAL_SIMPLE"},
    )
    found.drain()
    postgres.execute("update orders set v = 'again' where id < 5")
    found.drain()
    table = found.table()
    assert table is not None
    service = "compaction" if table_type == "MERGE_ON_READ" else "clustering"
    assert table.schedule(service, options=AT_ONCE) is not None
    # One transaction, several tables, by name and by what refers to them.
    postgres.execute(
        "begin; update orders set v = 'gone' where id = 3; insert into orders values (20, 'x', 1);"
        " truncate customers, orders restart identity cascade;"
        " insert into orders values (3, 'three', 7), (21, 'y', 1); update orders set n = 2"
        " where id = 21; savepoint s; truncate orders cascade; rollback to s; commit",
        "insert into lines values (3)",
        "update orders set v = 'last' where id = 3",
    )
    if service == "clustering":
        # As for an update: it is tried again behind the clustering.
        result = found.execute(operation(found))
        assert "a pending clustering is going to replace a file group" in result.message
        assert result.is_safe_to_retry
        table.run(service, options=AT_ONCE)
    require_equal(found, postgres)
    assert found.rows() == [(3, "last"), (21, "y")]
    # Keys that are gone are new ones, in another partition too.
    postgres.execute("insert into orders values (1, 'one', 9), (5, 'five', 5)")
    require_equal(found, postgres)
    table = found.table()
    assert table is not None
    table.run(service, options=AT_ONCE)
    require_equal(found, postgres)
    assert not table.check(keys=True)


def test_a_truncate_of_a_table_that_others_feed_is_refused_by_name(
    postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute(ORDERS, TEN)
    found = feed(tmp_path, postgres)
    found.drain()
    postgres.execute("truncate orders")
    planned = operation(found)
    look = other_ingests

    def look_too_early(*_: object) -> list[str]:
        monkeypatch.setattr(hudi_table, "other_ingests", look)
        add_other(found)
        return []

    monkeypatch.setattr(hudi_table, "other_ingests", look_too_early)
    result = found.execute(planned)
    assert result.outcome is Outcome.FAILED
    assert result.is_safe_to_retry
    assert "'others' has committed since" in result.message
    result = found.execute(planned)
    assert result.outcome is Outcome.FAILED
    assert "the source was emptied, and the table has rows of others too" in result.message
    assert len(found.rows()) == 11


def add_other(found: PostgresFeed) -> None:
    """A row of another ingest."""
    table, known = found.table(), found.checkpoint()
    assert table is not None
    assert known is not None
    table.write(
        pa.Table.from_pylist([{"id": 99, "v": "other", "n": 1}]),
        extra_metadata=checkpoint_metadata({NAME: known, "others": known}),
    )


def test_a_truncate_dies_before_its_commit_and_comes_again(
    postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, planned = emptied(tmp_path, postgres)
    with monkeypatch.context() as patched:
        patched.setattr(hudi_table, "require_generation", die)
        with pytest.raises(SimulatedCrash):
            found.execute(planned)
    assert len(found.rows()) == 10
    require_equal(found, postgres)
    assert found.rows() == [(1, "after")]


def test_a_truncate_while_rows_are_copied(postgres: PostgresDatabase, tmp_path: Path) -> None:
    postgres.execute(ORDERS, TEN)
    found = feed(tmp_path, postgres, changes_max=4)
    for _ in range(2):
        found.execute(operation(found))
    postgres.execute("truncate orders", "insert into orders values (9, 'after', 1)")
    require_equal(found, postgres)
