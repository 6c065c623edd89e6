"""Tables with partitions, from a real Postgres: each is one table, and what becomes of a partition
is copied or named."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.postgres.reader import PostgresSource
from tideline.ingest.sources.source import Lost, Nothing
from tideline.testing.faulty_store import SimulatedCrash
from tideline.testing.planted_differences import verified
from tideline.testing.postgres_feed import PostgresFeed, position
from tideline.testing.postgres_server import PostgresDatabase
from tideline.testing.shared_slot_feed import SharedSlotFeed

pytestmark = pytest.mark.postgres

# Two levels; the columns of one leaf are in another order, with a gap.
TREE = (
    "create table orders (id bigint, region text, v text, primary key (id, region))"
    " partition by list (region)",
    "create table orders_a partition of orders for values in ('a') partition by hash (id)",
    "create table orders_a0 partition of orders_a for values with (modulus 2, remainder 0)",
    "create table orders_a1 partition of orders_a for values with (modulus 2, remainder 1)",
    "create table orders_b (gap int, v text, region text not null, id bigint not null,"
    " primary key (id, region))",
    "alter table orders_b drop column gap",
    "alter table orders attach partition orders_b for values in ('b')",
)
ROWS = "insert into orders select g, chr(97 + g % 2), 'v' || g from generate_series(1, 10) g"
ATTACHED = "alter table orders attach partition orders_c for values in ('c')"
FILLED = (
    "create table orders_c (like orders including all)",
    "insert into orders_c select g, 'c', 'before' from generate_series(1, 7) g",
)


def feed(folder: Path, database: PostgresDatabase, **declared: Any) -> PostgresFeed:
    found = PostgresFeed.of(folder, database, **declared)
    found.key = ("id", "region")
    return found.typed(id="long", region="string", v="string")


def ready(folder: Path, database: PostgresDatabase, **declared: Any) -> PostgresFeed:
    database.execute(*TREE, ROWS)
    found = feed(folder, database, **declared)
    require_equal(found, database)
    return found


def require_equal(found: PostgresFeed, database: PostgresDatabase) -> None:
    assert found.drain() is None
    assert isinstance(found.plan(), Nothing)
    assert found.rows("id", "region", "v") == rows_of(database)


def rows_of(database: PostgresDatabase) -> list[tuple[Any, ...]]:
    rows = database.execute("select id, region, v from orders")
    return sorted(rows, key=lambda row: (row[0], str(row[1:])))


def operation(found: PostgresFeed) -> Operation:
    planned = found.plan()
    assert isinstance(planned, Operation), planned
    return planned


def test_a_table_of_several_levels_is_copied_and_followed_as_one(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = ready(tmp_path, postgres, changes_max=3)
    assert postgres.execute("select pubviaroot from pg_publication") == [(True,)]
    assert len(found.results) == 5
    big = "repeat(md5(random()::text), 4000)"
    postgres.execute(
        f"insert into orders values (11, 'a', {big}), (12, 'b', {big})",
        "update orders set v = 'new' where id in (1, 2)",
        # To another partition, and to one that is made now.
        "update orders set region = 'b' where id in (3, 11)",
        "create table orders_d partition of orders default",
        "update orders set region = 'z' where id in (4, 12)",
        "delete from orders where id in (5, 6)",
        "update orders set id = 107 where id = 7",
        "begin; delete from orders where id = 8; insert into orders values (8, 'a', 'again'); end",
    )
    require_equal(found, postgres)
    assert verified(found.target, found.source).found.is_equal
    # Columns are those of the table, wherever a partition has them.
    postgres.execute("update orders_b set v = null", "insert into orders_b values ('own', 'b', 20)")
    require_equal(found, postgres)


def test_rows_of_before_a_partition_was_attached_are_copied_behind_earlier_changes(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = ready(tmp_path, postgres, changes_max=3)
    postgres.execute(
        "create table orders_x partition of orders for values in ('c')",
        "insert into orders values (1, 'c', 'of another'), (2, 'c', 'of another')",
    )
    require_equal(found, postgres)
    # The log deletes keys that the partition has which is attached behind that.
    postgres.execute(
        "delete from orders where region = 'c'",
        *FILLED,
        "insert into orders select g, 'b', 'many' from generate_series(50, 60) g",
    )
    postgres.execute("alter table orders detach partition orders_x", ATTACHED)
    postgres.execute("update orders set v = 'after' where region = 'c' and id = 3")
    found = feed(tmp_path, postgres, changes_max=3, on_truncate=OnTruncate.IGNORE)
    assert found.drain() is None
    assert found.rows("id", "region", "v") == rows_of(postgres)
    assert not position(found).leaves.awaited
    assert len(position(found).leaves.copied) == 4
    # It is followed from then on.
    postgres.execute("update orders set v = 'later' where region = 'c'")
    require_equal(found, postgres)


@pytest.mark.parametrize("committed", [False, True])
def test_a_death_while_an_attached_partition_is_copied(
    committed: bool, postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ready(tmp_path, postgres, changes_max=3)
    postgres.execute(*FILLED, ATTACHED, "delete from orders where id = 2")
    place = "settle" if committed else "_copied"

    def die(*_: object) -> None:
        raise SimulatedCrash("here")

    deaths = 0
    for _ in range(8):
        planned = operation(found)
        with monkeypatch.context() as patched:
            patched.setattr(PostgresSource, place, die)
            try:
                found.execute(planned)
            except SimulatedCrash:
                deaths += 1
        # Changes that come meanwhile are in the log.
        postgres.execute(f"update orders set v = 'death {deaths}' where id = {deaths + 1}")
        result = found.execute(planned)
        assert result.outcome in (Outcome.SUCCEEDED, Outcome.NOTHING), result.message
    assert deaths >= 3
    require_equal(found, postgres)


def test_a_partition_that_comes_during_the_first_copy_is_copied_behind_it(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(*TREE, ROWS)
    found = feed(tmp_path, postgres, changes_max=4)
    for _ in range(3):
        assert found.execute(operation(found)).outcome is Outcome.SUCCEEDED
    assert position(found).copied
    postgres.execute(*FILLED, ATTACHED)
    require_equal(found, postgres)


LOSSES = {
    "alter table orders detach partition orders_b": "partition public.orders_b was detached",
    "drop table orders_b": "partition of number .* was dropped",
    "alter table orders detach partition orders_a": "partition public.orders_a0 was detached",
    "truncate orders_b": "partition public.orders_b was truncated, or rewritten",
    "truncate orders_a": "partition public.orders_a0 was truncated, or rewritten",
    "truncate orders": "was truncated, or rewritten",
    "begin; alter table orders detach partition orders_b; delete from orders_b where id < 9;"
    " alter table orders attach partition orders_b for values in ('b'); end": "was detached",
}


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(statement, marks=pytest.mark.slow) if number % 2 else statement
        for number, statement in enumerate(LOSSES)
    ],
)
def test_what_takes_rows_along_is_named_and_a_copy_is_the_remedy(
    statement: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = ready(tmp_path, postgres)
    postgres.execute(statement)
    lost = found.plan()
    assert isinstance(lost, Lost)
    assert re.search(LOSSES[statement], lost.what), lost.what
    assert "onTruncate: Ignore" in lost.remedy
    assert "tideline resync" in lost.remedy
    before = found.rows("id", "region", "v")
    assert found.again().outcome is Outcome.SUCCEEDED
    require_equal(found, postgres)
    assert found.rows("id", "region", "v") != before


@pytest.mark.parametrize("statement", ["drop table orders_b", "truncate orders"])
def test_rows_that_went_along_are_kept_by_choice(
    statement: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    before = set(ready(tmp_path, postgres).rows("id", "region", "v"))
    postgres.execute(statement)
    found = feed(tmp_path, postgres, on_truncate=OnTruncate.IGNORE)
    assert found.drain() is None
    postgres.execute("insert into orders values (30, 'a', 'behind')")
    assert found.drain() is None
    assert set(found.rows("id", "region", "v")) == before | set(rows_of(postgres))
    # It is settled: what is chosen later is of what comes later.
    failing = feed(tmp_path, postgres)
    assert isinstance(failing.plan(), Nothing)


def test_a_partition_that_came_and_went_between_two_looks_is_named(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = ready(tmp_path, postgres)
    postgres.execute(
        "create table orders_c partition of orders for values in ('c')",
        "insert into orders values (1, 'c', 'short'), (50, 'a', 'stays')",
        "drop table orders_c",
    )
    result = found.execute(operation(found))
    assert result.outcome is Outcome.FAILED
    assert "partition public.orders_c was detached or dropped behind its changes" in result.message
    found.again()
    require_equal(found, postgres)


def test_a_rewritten_partition_is_accepted_by_a_commit_that_ignores_it(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = ready(tmp_path, postgres)
    postgres.execute("vacuum full orders_b")
    assert isinstance(found.plan(), Lost)
    assert feed(tmp_path, postgres, on_truncate=OnTruncate.IGNORE).drain() is None
    require_equal(found, postgres)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "alter table orders replica identity full",
            "partition public.orders_a0 has another replica identity than its table, each has its"
            " own: alter table public.orders_a0 replica identity full",
        ),
        (
            "alter table orders_b replica identity nothing",
            "partition public.orders_b names rows by other columns than the key",
        ),
        ("alter table orders_a1 set unlogged", "partition public.orders_a1 is unlogged"),
    ],
)
def test_a_partition_that_cannot_be_followed_is_named(
    statement: str, words: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(*TREE, statement)
    with pytest.raises(ConfigError, match=words):
        feed(tmp_path, postgres).plan()


def test_publications_and_choices_that_do_not_fit_are_named(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(*TREE, ROWS, f"create publication {postgres.slot} for table orders")
    found = feed(tmp_path, postgres)
    remedy = f"alter publication {postgres.slot} set .publish_via_partition_root = true"
    with pytest.raises(ConfigError, match=remedy):
        found.plan()
    postgres.execute(f"alter publication {postgres.slot} set (publish_via_partition_root = true)")
    require_equal(found, postgres)
    with pytest.raises(ConfigError, match=r"source\.onTruncate is Fail or Ignore"):
        feed(tmp_path, postgres, on_truncate=OnTruncate.DELETE).plan()
    # A partition with partitions is a table of its own where nothing above it is published.
    above = feed(tmp_path / "above", postgres, table="orders_a")
    with pytest.raises(ConfigError, match="as those of the table that they are of"):
        above.plan()


def test_tables_of_one_slot_may_have_partitions(postgres: PostgresDatabase, tmp_path: Path) -> None:
    postgres.execute(
        "create table plain (id int primary key, v text)", "insert into plain values (1, 'x')"
    )
    feeds = SharedSlotFeed.of(tmp_path, postgres, changes_max=3)
    feeds.drain()
    postgres.execute(*TREE, ROWS)
    feeds.drain()
    postgres.execute(*FILLED, ATTACHED, "update orders set region = 'b' where region = 'a'",
                     "insert into plain values (2, 'y')")  # fmt: skip
    feeds.drain()
    assert feeds.named("orders").rows("id", "region", "v") == rows_of(postgres)
    assert feeds.named("plain").rows() == [(1, "x"), (2, "y")]
    postgres.execute("drop table orders_c")
    assert isinstance(feeds.named("orders").plan(), Lost)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 5))]
)
def test_random_histories_end_as_the_servers_table(
    seed: int, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    chosen = random.Random(seed)
    found = ready(tmp_path, postgres, changes_max=chosen.choice((3, 5, 40)))
    regions = ["a", "b"]
    for step in range(40):
        region, other = chosen.choice(regions), chosen.choice(regions)
        key = chosen.randrange(15)
        match chosen.randrange(8):
            case 0:
                name = f"r{len(regions)}"
                postgres.execute(
                    f"create table {name} (like orders including all)",
                    f"insert into {name} select g, '{name}', 'attached' from"
                    f" generate_series(0, {key}) g",
                    f"alter table orders attach partition {name} for values in ('{name}')",
                )
                regions.append(name)
            case 1 | 2:
                postgres.execute(
                    f"insert into orders values ({key}, '{region}', 's{step}')"
                    " on conflict (id, region) do update set v = excluded.v"
                )
            case 3:
                postgres.execute(f"delete from orders where id = {key} and region = '{region}'")
            case 4 | 5:
                postgres.execute(
                    f"update orders o set region = '{other}', v = 's{step}' where id = {key}"
                    f" and region = '{region}' and not exists (select from orders where id = o.id"
                    f" and region = '{other}')"
                )
            case 6:
                postgres.execute(f"update orders set v = v || '.' where id = {key}")
            case _:
                planned = found.plan()
                if isinstance(planned, Operation):
                    assert found.execute(planned).exit_code == 0
    require_equal(found, postgres)
