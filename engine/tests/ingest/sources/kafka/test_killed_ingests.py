"""Ingests of a topic are killed at any moment, and so is the broker: each record is there once."""

from __future__ import annotations

import json
import random
import secrets
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.hudi.check.finding import Severity
from tideline.ingest.execute.table_access import open_table
from tideline.ingest.sources.source import Nothing
from tideline.testing import writer_process
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import TopicFeed, ingest_topics_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

KILLS = 40
BROKER_KILLS = 3
PARTITIONS = 3
DEADLINE_S = 300.0


class Producer(threading.Thread):
    """Produces records, each with an id of its own, until it is stopped."""

    def __init__(self, broker: KafkaBroker, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = broker.producer(**{"enable.idempotence": True})
        self._topic = topic
        self.acknowledged: list[int] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            for _ in range(20):
                self._send(number)
                number += 1
            self._producer.poll(0)
            time.sleep(0.02)
        assert self._producer.flush(60) == 0

    def _send(self, number: int) -> None:
        def delivered(error: object, _: object) -> None:
            assert error is None, error
            self.acknowledged.append(number)

        value = json.dumps({"id": number, "ts": 1, "v": "x"})
        self._producer.produce(
            self._topic,
            key=str(number),
            value=value,
            partition=number % PARTITIONS,
            on_delivery=delivered,
        )


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_no_record_is_lost_or_doubled(
    table_type: str, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    topic = f"killed-{secrets.token_hex(4)}"
    kafka_broker.create_topic(topic, PARTITIONS)
    # Inserts: what is taken in twice is there twice.
    feed = replace(
        TopicFeed.of(tmp_path, kafka_broker.address, topic, records_max=150, bytes_max=5_000),
        operation="insert",
        table_type=table_type,
    )
    producer = Producer(kafka_broker, topic)
    producer.start()
    stop = tmp_path / "stop"
    broker_kills = set(rng.sample(range(KILLS), BROKER_KILLS))
    ends_s = time.monotonic() + DEADLINE_S
    workers = [writer_process.start(ingest_topics_until, feed, str(stop)) for _ in range(2)]
    try:
        for kill in range(KILLS):
            assert time.monotonic() < ends_s
            time.sleep(rng.uniform(0.05, 1.5))
            victim = rng.randrange(len(workers))
            workers[victim].kill()
            workers[victim].join()
            workers[victim] = writer_process.start(ingest_topics_until, feed, str(stop))
            if kill in broker_kills:
                kafka_broker.kill()
                kafka_broker.start()
        producer.stopping.set()
        producer.join()
    finally:
        stop.touch()
        for worker in workers:
            assert writer_process.join(worker) == 0
    feed.drain()
    assert isinstance(feed.plan(), Nothing)
    ids = [number for (number,) in feed.rows("id")]
    assert sorted(ids) == sorted(producer.acknowledged)
    assert len(ids) > KILLS
    table = open_table(feed.target)
    assert table is not None
    found = table.check(keys=True)
    assert not [item for item in found if item.severity is Severity.ERROR], found
