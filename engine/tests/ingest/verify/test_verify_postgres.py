"""A table compared with the table of a real Postgres that it is made of, at its own position."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.ingest.execute.table_access import open_table
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.postgres import first_changes, rows_at
from tideline.ingest.sources.postgres.seen import Seen
from tideline.ingest.verify.key_buckets import bucket_count
from tideline.ingest.verify.verification import Kind, Verification
from tideline.lake_table import LakeTable
from tideline.testing.planted_differences import named, plant, verified
from tideline.testing.postgres_feed import PostgresFeed
from tideline.testing.postgres_server import PostgresDatabase

pytestmark = pytest.mark.postgres

CREATE = """create table orders (
  id int primary key, region text, v text, size float8, at timestamptz, amount numeric(10,2))"""
ROWS = """insert into orders select n, 'r' || n % 3, 'v' || n, n / 3.0,
  '2026-01-02 03:04:05.123456'::timestamptz + n * interval '1 ms', n * 1.25
  from generate_series({}, {}) n"""


def check(feed: PostgresFeed) -> Verification:
    return verified(feed.target, feed.source)


def stored(feed: PostgresFeed) -> list[dict[str, Any]]:
    return sorted(table_of(feed).to_arrow().to_pylist(), key=lambda row: row["id"])


def table_of(feed: PostgresFeed) -> LakeTable:
    table = open_table(feed.target)
    assert table is not None
    return table


def ready(folder: Path, postgres: PostgresDatabase, rows: int, **declared: Any) -> PostgresFeed:
    """Rows that were copied."""
    postgres.execute(CREATE, ROWS.format(1, rows))
    feed = PostgresFeed.of(folder, postgres, **declared)
    feed.drain()
    return feed


@pytest.mark.parametrize(
    ("table_type", "partition_by"),
    [
        ("MERGE_ON_READ", ()),
        pytest.param("COPY_ON_WRITE", (), marks=pytest.mark.slow),
        ("COPY_ON_WRITE", ("region",)),
    ],
)
def test_a_table_is_equal_to_its_source_and_planted_faults_are_named(
    table_type: str,
    partition_by: tuple[str, ...],
    postgres: PostgresDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{bucket_count.__module__}._ROWS_PER_BUCKET", 10)
    monkeypatch.setattr(rows_at, "_CHUNK_BYTES", 500)
    monkeypatch.setattr(rows_at, "_ROW_BYTES", 100)
    postgres.execute(CREATE, ROWS.format(1, 60))
    if partition_by:
        # Else a delete does not say in which partition its row is, and the table keeps it.
        postgres.execute("alter table orders replica identity full")
    feed = replace(
        PostgresFeed.of(tmp_path, postgres), table_type=table_type, partition_by=partition_by
    )
    feed.drain()
    postgres.execute(
        "update orders set v = null where id between 11 and 20",
        "delete from orders where id between 21 and 25",
        "update orders set id = 126 where id = 26",
        "update orders set size = 'NaN' where id = 27",
    )
    feed.drain()
    clean = check(feed)
    assert clean.found.is_equal, clean.found
    assert (clean.found.equal, clean.records, clean.rows) == (55, 55, 55)
    assert (clean.found.unknown, clean.found.undecided) == (0, 0)
    rows = stored(feed)
    planted = plant(table_of(feed), rows[:8], {**rows[8], "id": 22})
    assert named(check(feed)) == planted


def _moved(postgres: PostgresDatabase) -> None:
    """What the table has not taken in yet."""
    postgres.execute(
        "update orders set v = 'new' where id in (1, 11)",
        "delete from orders where id in (2, 12)",
        "insert into orders (id, v) values (100, 'new')",
        "update orders set id = 103 where id = 3",
        "delete from orders where id = 4",
        "insert into orders (id, v) values (4, 'again')",
        "insert into orders (id, v) values (101, 'gone')",
        "delete from orders where id = 101",
    )


def test_what_changed_behind_the_position_is_not_called_wrong(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    feed = ready(tmp_path, postgres, 20)
    _moved(postgres)
    clean = check(feed)
    assert clean.found.is_equal, clean.found
    # 1, 2, 3, 4, 11 and 12 had rows whose values nobody has any more.
    assert (clean.found.equal, clean.found.undecided, clean.found.unknown) == (14, 6, 0)
    table = table_of(feed)
    row = stored(feed)[10]
    table.delete("id in (1, 2)")
    table.upsert([{**row, "v": "changed"}, {**row, "id": 100}, {**row, "id": 103}])
    assert named(check(feed)) == {
        # 2 was deleted since: it may have been left out.
        (Kind.MISSING, "1"),
        (Kind.EXTRA, "100"),
        (Kind.EXTRA, "103"),
    }
    # Nothing was moved: the table takes all of it in.
    feed.drain()
    assert {row["id"] for row in stored(feed)} >= {4, 100, 103}


def test_old_rows_of_the_log_are_compared_where_it_has_them(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(CREATE, ROWS.format(1, 20), "alter table orders replica identity full")
    feed = replace(PostgresFeed.of(tmp_path, postgres), partition_by=("region",))
    feed.drain()
    _moved(postgres)
    postgres.execute("update orders set region = 'elsewhere' where id = 5")
    clean = check(feed)
    assert (clean.found.is_equal, clean.found.equal, clean.found.undecided) == (True, 20, 0)
    row = stored(feed)[0]
    table_of(feed).upsert([{**row, "v": "changed"}])
    assert named(check(feed)) == {(Kind.DIFFERENT, "1")}


@pytest.mark.slow
def test_a_table_is_compared_while_a_stream_feeds_it(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    feed = ready(tmp_path, postgres, 50)
    stop = threading.Event()
    faults: list[BaseException] = []

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            postgres.execute(
                f"update orders set v = 'v{number}' where id % 5 = {number % 5}",
                f"delete from orders where id = {number % 50}",
                f"insert into orders (id, v) values ({number % 50}, 'back{number}')",
            )

    def ingest() -> None:
        try:
            while not stop.is_set():
                if isinstance(operation := feed.plan(), Operation):
                    result = feed.execute(operation)
                    assert result.exit_code == 0 or result.is_safe_to_retry, result.message
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=change), threading.Thread(target=ingest)]
    for thread in threads:
        thread.start()
    try:
        looks = [check(feed) for _ in range(4)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not faults
    assert all(look.found.is_equal for look in looks), [look.found for look in looks]
    assert len({look.ingests[0].position for look in looks}) > 1
    feed.drain()
    assert (check(feed).found.equal, check(feed).found.undecided) == (len(stored(feed)), 0)


def test_what_leaves_too_much_unknown_is_refused(
    postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute(CREATE, ROWS.format(1, 20))
    feed = PostgresFeed.of(tmp_path, postgres, changes_max=10)
    for _ in range(2):
        operation = feed.plan()
        assert isinstance(operation, Operation)
        feed.execute(operation)
    with pytest.raises(ConfigError, match="once it is copied"):
        check(feed)
    feed.drain()
    postgres.execute("update orders set v = 'w'")
    with monkeypatch.context() as patch:
        patch.setattr(first_changes, "KEYS_MAX", 19)
        with pytest.raises(ConfigError, match="more than 19 rows"):
            check(feed)
    postgres.execute("truncate orders")
    with pytest.raises(ConfigError, match="emptied"):
        check(feed)
    postgres.execute("drop table orders")
    with pytest.raises(ConfigError, match="there is no table"):
        check(feed)


def test_rows_that_a_truncate_left_and_columns_that_are_gone_are_unknown(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    feed = ready(tmp_path, postgres, 10, on_truncate=OnTruncate.IGNORE)
    postgres.execute("truncate orders", ROWS.format(1, 5), "alter table orders drop column amount")
    feed.drain()
    found = check(feed)
    assert found.gone == ("column amount",)
    assert (found.found.equal, found.found.unknown, found.found.is_equal) == (5, 5, True)
    row = stored(feed)[0]
    table_of(feed).upsert([{**row, "id": 99}])
    assert named(check(feed)) == {(Kind.EXTRA, "99")}


def test_rows_that_were_set_aside_are_not_missing_and_their_older_ones_not_wrong(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    aside = Location(f"file://{tmp_path}/aside")
    postgres.execute(CREATE, ROWS.format(1, 10))
    feed = replace(PostgresFeed.of(tmp_path, postgres, set_aside=aside), bad_rows_max=5)
    feed.drain()
    postgres.execute(
        "update orders set amount = 'NaN' where id = 1",
        "insert into orders (id, amount) values (50, 'NaN')",
    )
    feed.drain()
    found = check(feed)
    assert (found.found.is_equal, found.found.equal, found.bad) == (True, 9, 2)
    assert found.found.undecided == 2


@pytest.mark.parametrize(
    ("snapshot", "seen", "unseen"),
    [
        ("10:20:10,14", [9, 11, 19], [10, 14, 20, 21]),
        ("10:10:", [9], [10]),
        # Numbers in the log begin again at 2^32.
        (f"{2**32 + 5}:{2**32 + 8}:{2**32 + 6}", [2**32 - 1, 5, 7], [6, 8]),
    ],
)
def test_a_snapshot_sees_transactions_by_their_numbers(
    snapshot: str, seen: list[int], unseen: list[int]
) -> None:
    found = Seen.of(snapshot)
    assert [number for number in [*seen, *unseen] if found.has(number)] == seen
