"""What `tideline run --once` says of records that it cannot read yet."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tideline
from tideline.testing.kafka_broker import KafkaBroker, build
from tideline.testing.kafka_cluster import FIRST, SECOND, KafkaCluster
from tideline.testing.kafka_topics import KafkaTopics
from tideline.testing.maven_jars import require_jars
from tideline.testing.topic_feed import values
from tideline_operator.testing.local_run import KEYED_VALUES, declare_table, run_here

pytestmark = pytest.mark.kafka


def run_once(folder: Path, broker: KafkaTopics, topic: str) -> int:
    source = f"{{format: kafka, brokers: '{broker.address}', topics: [{topic}]}}"
    return run_here(declare_table(folder, source, KEYED_VALUES))


def ids(folder: Path) -> list[int]:
    found = tideline.open(str(folder / "table")).to_arrow(["id"])
    return sorted(found.column("id").to_pylist())


def test_records_that_wait_for_a_transaction_are_said_with_their_number_and_since_when(
    kafka_broker: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"held-{secrets.token_hex(4)}"
    kafka_broker.create_topic(topic, 2)
    kafka_broker.produce(topic, values([(1, 1, "a"), (2, 1, "b")]), timestamp_ms=1_000)
    producer = kafka_broker.producer(**{"transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    since_ms = int(time.time() * 1_000) - 60_000
    for number in (3, 4, 5):
        producer.produce(topic, key=str(number), value="{}", partition=0, timestamp=since_ms)
    producer.flush()
    try:
        assert run_once(tmp_path, kafka_broker, topic) == 0
    finally:
        producer.abort_transaction()
    assert ids(tmp_path) == [1, 2]
    said = capsys.readouterr().err
    since = f"{datetime.fromtimestamp(since_ms // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    assert (
        f"orders  orders: 3 offsets of {topic}/0 from 2 on wait for a transaction that is open; "
        f"the oldest is of {since}: where nobody ends it, find it with "
        "kafka-transactions.sh find-hanging, and abort it"
    ) in said
    assert said.count("wait for a transaction") == 1


@pytest.mark.slow
def test_partitions_without_a_leader_are_said_and_the_others_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_jars(build)
    with KafkaCluster(tmp_path / "cluster") as cluster:
        cluster.create_on("orders", (FIRST, SECOND))
        for number in range(2):
            cluster.produce("orders", values([(number, 1, "a")]), partition=number)
        cluster.stop_second("orders")
        assert run_once(tmp_path, cluster, "orders") == 4
        assert ids(tmp_path) == [0]
        said = capsys.readouterr().err
        assert said.count("orders/1 has no leader, and is not read: start the brokers") == 1
        cluster.start_second("orders", (FIRST, SECOND))
        assert run_once(tmp_path, cluster, "orders") == 0
        assert ids(tmp_path) == [0, 1]
