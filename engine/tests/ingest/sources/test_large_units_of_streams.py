"""What a stream cannot divide: a record of 50 MB, a transaction of 200,000 rows."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from tideline.ingest.operation.operation import Operation
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.postgres_feed import ORDERS, orders_feed
from tideline.testing.postgres_server import PostgresDatabase
from tideline.testing.topic_feed import TopicFeed, values

LARGE_BYTES = 50 << 20
FITS: Any = {"max.message.bytes": str(64 << 20)}
SENDS: Any = {"message.max.bytes": 64 << 20}
ROWS = 200_000


@pytest.fixture
def topic() -> str:
    return f"large-{secrets.token_hex(4)}"


@pytest.mark.slow
@pytest.mark.kafka
def test_records_of_50_mb_come_in_among_small_ones(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic, **FITS)
    sizes = {1: 3, 2: LARGE_BYTES, 3: 5, 4: LARGE_BYTES, 5: 7}
    rows = [(number, 1, "x" * size) for number, size in sizes.items()]
    kafka_broker.produce(topic, values(rows), **SENDS)
    found = TopicFeed.of(tmp_path, kafka_broker.address, topic)
    assert found.drain() is None
    read = found.lake().to_arrow(["id", "v"])
    lengths = pc.utf8_length(read["v"]).to_pylist()
    assert dict(zip(read["id"].to_pylist(), lengths, strict=True)) == sizes


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize("is_aborted", [False, True], ids=["committed", "aborted"])
def test_a_transaction_of_a_topic(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path, is_aborted: bool
) -> None:
    kafka_broker.create_topic(topic)
    found = TopicFeed.of(tmp_path, kafka_broker.address, topic, records_max=30_000)
    producer = kafka_broker.producer(**{"transactional.id": topic, "linger.ms": 50})
    producer.init_transactions()
    producer.begin_transaction()
    for key, value in values((number, 1, "in") for number in range(ROWS)):
        producer.produce(topic, key=key, value=value, partition=0)
        producer.poll(0 if len(producer) < 50_000 else 0.05)
    assert producer.flush(60) == 0
    kafka_broker.produce(topic, values([(ROWS, 1, "behind it")]))
    found.drain()
    assert not found.results, "nothing is read behind an open transaction"
    if is_aborted:
        producer.abort_transaction()
    else:
        producer.commit_transaction()
    # The broker answers before its marks are in the partition.
    until_s = time.monotonic() + 30
    while not isinstance(found.plan(), Operation):
        assert time.monotonic() < until_s
        time.sleep(0.05)
    assert found.drain() is None
    expected = {ROWS} if is_aborted else set(range(ROWS + 1))
    assert set(found.lake().to_arrow(["id"])["id"].to_pylist()) == expected


@pytest.mark.slow
@pytest.mark.postgres
def test_transactions_of_postgres(postgres: PostgresDatabase, tmp_path: Path) -> None:
    postgres.execute(ORDERS)
    found = orders_feed(tmp_path, postgres)
    assert found.drain() is None
    postgres.execute(
        f"insert into orders (id, v) select n, 'a' from generate_series(1, {ROWS}) n",
        "update orders set v = 'b' where id % 2 = 0",
        "delete from orders where id % 5 = 0",
    )
    assert found.drain() is None
    read = found.lake().to_arrow(["id", "v"])
    assert dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True)) == {
        n: "ab"[n % 2 == 0] for n in range(1, ROWS + 1) if n % 5
    }
