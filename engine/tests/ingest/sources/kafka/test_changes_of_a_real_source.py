"""A table of Postgres, Debezium's own connector, a broker, and our table: it has the same rows."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tideline.hudi.table.table_config import PARTIAL_UPDATE_MODE, UNAVAILABLE_PROPERTY
from tideline.ingest.column_type import Column, ColumnType
from tideline.ingest.sources.kafka.declared import UNAVAILABLE, RecordField, ValueFormat
from tideline.testing.debezium_connector import DebeziumConnector, build
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.maven_jars import require_jars
from tideline.testing.postgres_server import PostgresDatabase
from tideline.testing.stream_feed import KINDS
from tideline.testing.topic_feed import TopicFeed

pytestmark = [pytest.mark.kafka, pytest.mark.postgres, pytest.mark.slow]

FILLING = {PARTIAL_UPDATE_MODE: "FILL_UNAVAILABLE", UNAVAILABLE_PROPERTY: UNAVAILABLE}
CREATE = """\
create table orders (
  id int primary key, at timestamp, zoned timestamptz, day date, time time, amount numeric(10,2),
  free numeric, v text, doc jsonb, tags text[], octets bytea, code uuid, size float8, ok boolean,
  numbers int[], short smallint, fixed char(3)
)"""
ROW = """\
insert into orders values ({id}, '2026-01-02 03:04:05.123456', '2026-01-02 03:04:05.5+02',
  '2026-01-02', '12:30:00.000001', -1.25, 3.14159, 'a{id}', '{{"x": 1}}', '{{a,NULL}}', '\\x00ff',
  '6f1c1b1e-0000-4000-8000-00000000000{id}', 1.5, true, '{{1,2}}', -7, 'ab')"""
_WAIT_S = 60.0


@pytest.fixture(scope="module", autouse=True)
def jars() -> None:
    require_jars(build)


@pytest.fixture
def source(postgres: PostgresDatabase) -> Iterator[PostgresDatabase]:
    postgres.execute(CREATE, *(ROW.format(id=number) for number in (1, 2)))
    yield postgres


def feed_of(
    folder: Path, broker: KafkaBroker, connector: DebeziumConnector, **more: Any
) -> TopicFeed:
    declared = TopicFeed.of(
        folder,
        broker.address,
        connector.topic,
        value=ValueFormat.DEBEZIUM_JSON,
        schema=(),
        record_fields=(RecordField.LSN,),
    )
    return replace(declared, ordering=("_event_lsn",), schema=(), **more)


def drained_until(feed: TopicFeed, wanted: Any, *columns: str) -> None:
    """Ingest until the table has these rows."""
    deadline_s = time.monotonic() + _WAIT_S
    while True:
        assert feed.drain() is None
        found = feed.rows(*columns)
        if found == wanted or time.monotonic() > deadline_s:
            assert found == wanted
            return
        time.sleep(0.3)


@pytest.mark.parametrize("kind", KINDS)
def test_types_keys_large_values_and_new_columns(
    kafka_broker: KafkaBroker, source: PostgresDatabase, tmp_path: Path, kind: str
) -> None:
    with DebeziumConnector(tmp_path / "connect", kafka_broker, source, "orders") as connector:
        filling = feed_of(tmp_path, kafka_broker, connector, table_version=9, properties=FILLING)
        feed = filling.into(kind)
        drained_until(feed, [(1, "a1"), (2, "a2")], "id", "v")
        names = ("at", "zoned", "day", "time", "amount", "free", "doc", "tags", "octets", "code")
        (row, _) = feed.rows(*names, "size", "ok", "numbers", "short", "fixed")
        assert row[0] == datetime(2026, 1, 2, 3, 4, 5, 123_456)
        assert row[1] == datetime(2026, 1, 2, 1, 4, 5, 500_000, UTC)
        assert [str(item) for item in row[2:6]] == [
            "2026-01-02",
            "12:30:00.000001",
            "-1.25",
            "3.14159",
        ]
        assert (json.loads(row[6]), row[7], row[8]) == ({"x": 1}, ["a", None], b"\0\xff")
        assert row[9].startswith("6f1c1b1e-0000-4000-8000-00000000000")
        assert row[10:] == (1.5, True, [1, 2], -7, "ab ")
        large = "y" * 9_000
        source.execute(
            "alter table orders alter v set storage external",
            f"update orders set v = '{large}' where id = 2",
            "update orders set size = 2 where id = 2",
            "delete from orders where id = 1",
            "insert into orders (id, v) values (1, 'again')",
            "update orders set id = 3 where id = 1",
            "alter table orders add more bigint default 5",
            "insert into orders (id, v) values (4, 'later')",
        )
        wanted = [(2, large, 2.0), (3, "again", None), (4, "later", None)]
        drained_until(feed, wanted, "id", "v", "size")
        assert feed.rows("id", "more")[-1] == (4, 5)


@pytest.mark.parametrize("with_schemas", [True, False])
def test_many_changes_in_transactions_end_in_the_same_rows(
    kafka_broker: KafkaBroker, postgres: PostgresDatabase, tmp_path: Path, *, with_schemas: bool
) -> None:
    postgres.execute(
        "create table events (id int primary key, n bigint, v text, day date)",
        "insert into events select i, 0, 'a' || i, '2026-01-01' from generate_series(1, 50) i",
    )
    schema = tuple(
        Column(name, ColumnType.parse(kind))
        for name, kind in (("id", "int"), ("n", "long"), ("v", "string"), ("day", "date"))
    )
    dice = random.Random(7)
    with DebeziumConnector(
        tmp_path / "connect", kafka_broker, postgres, "events", with_schemas=with_schemas
    ) as connector:
        feed = feed_of(tmp_path, kafka_broker, connector)
        feed.source = replace(feed.source, records_max=37)
        if not with_schemas:
            feed.source = replace(feed.source, schema=schema)
        for turn in range(30):
            with (
                postgres.connect() as connection,
                connection.transaction(force_rollback=turn % 5 == 4),
            ):
                for _ in range(dice.randrange(1, 12)):
                    connection.execute(_statement(dice, turn).encode())
            if turn % 10 == 9:
                assert feed.drain() is None
        wanted = postgres.execute("select id, n, v, day from events order by id")
        drained_until(feed, wanted, "id", "n", "v", "day")


def _statement(dice: random.Random, turn: int) -> str:
    number, other = dice.randrange(1, 80), dice.randrange(1, 80)
    return dice.choice(
        [
            f"insert into events values ({number}, {turn}, 'new', '2026-02-0{turn % 9 + 1}')"
            f" on conflict (id) do update set n = events.n + 1, v = 'twice'",
            f"update events set n = n + 1, v = null where id = {number}",
            f"update events set v = 'b{turn}' where id between {number} and {number} + 5",
            f"delete from events where id = {number}",
            f"update events set id = {other} where id = {number} and not exists"
            f" (select 1 from events where id = {other})",
        ]
    )
