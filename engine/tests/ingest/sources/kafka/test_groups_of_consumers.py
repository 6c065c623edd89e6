"""Groups of consumers, their offsets and their rebalances decide nothing about a table."""

from __future__ import annotations

import secrets
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tideline.ingest.operation.operation import Operation
from tideline.ingest.sources.kafka.clients import GROUP
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import TopicFeed, values

pytestmark = pytest.mark.kafka

RECORDS = 400


def member(broker: KafkaBroker) -> Consumer:
    """Of the group that our clients name."""
    return Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6_000,
        }
    )


def groups(broker: KafkaBroker) -> set[str]:
    admin = broker.admin()
    found = admin.list_consumer_groups(request_timeout=20).result(25)
    return {group.group_id for group in found.valid}


def test_an_ingest_is_in_no_group_and_reads_all_beside_one_of_its_name_that_rebalances(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    topic = f"grouped-{secrets.token_hex(4)}"
    kafka_broker.create_topic(topic, 3)

    def produce(first: int) -> None:
        for number in range(3):
            rows = ((n, 1, "a") for n in range(first + number, first + RECORDS, 3))
            kafka_broker.produce(topic, values(rows), partition=number)

    produce(0)
    feed = TopicFeed.of(tmp_path, kafka_broker.address, topic, records_max=100)
    assert feed.drain() is None
    assert GROUP not in groups(kafka_broker)

    ended = threading.Event()
    rebalances: list[int] = []

    def rebalance() -> None:
        """Members come, read, commit the ends of all partitions, and leave."""
        while not ended.is_set():
            with member(kafka_broker) as consumer:
                consumer.subscribe(
                    [topic], on_assign=lambda _, given: rebalances.append(len(given))
                )
                consumer.consume(1_000, 1.0)
                ends = [TopicPartition(topic, n, 10_000) for n in range(3)]
                # Some come while it rebalances again.
                with suppress(KafkaException):
                    consumer.commit(offsets=ends, asynchronous=False)

    threads = [threading.Thread(target=rebalance) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(1, 6):
            produce(turn * RECORDS)
            while isinstance(operation := feed.plan(), Operation):
                assert feed.execute(operation).exit_code == 0
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert GROUP in groups(kafka_broker)
    assert len(rebalances) > 1
    assert feed.rows("id") == [(n,) for n in range(6 * RECORDS)]
