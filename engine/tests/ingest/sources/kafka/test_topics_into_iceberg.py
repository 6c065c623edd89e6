"""Records of a topic in an Iceberg table: each once, on a real broker."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tideline.ingest.location import Location
from tideline.ingest.operation.operation import ICEBERG, Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.kafka.position import KafkaPosition
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import TopicFeed, values

pytestmark = pytest.mark.kafka


def feed(folder: Path, broker: KafkaBroker, topic: str) -> TopicFeed:
    aside = Location(f"file://{folder}/aside")
    found = TopicFeed.of(folder, broker.address, topic, set_aside=aside)
    found.operation, found.format, found.ordering = "insert", ICEBERG, ()
    found.partition_by, found.bad_rows_max = ("bucket(2, id)",), 10
    return found


def test_records_are_appended_once(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    topic = f"iceberg-{secrets.token_hex(4)}"
    kafka_broker.create_topic(topic, 2)
    kafka_broker.produce(topic, values((n, n, f"v{n}") for n in range(50)), partition=0)
    kafka_broker.produce(topic, values((n, n, f"v{n}") for n in range(50, 80)), partition=1)
    found = feed(tmp_path, kafka_broker, topic)
    operation = found.plan()
    assert isinstance(operation, Operation)
    assert found.execute(operation).rows_inserted == 80
    assert found.execute(operation).outcome is Outcome.NOTHING
    bad = [("x", "no JSON"), ("y", '{"id": null, "ts": 1}')]
    kafka_broker.produce(topic, [*bad, *values([(80, 1, None)])], partition=0)
    assert found.drain() is None
    assert found.results[-1].rows_set_aside == 2
    assert found.rows("id") == [(n,) for n in range(81)]
    checkpoint = found.checkpoint()
    assert checkpoint is not None
    assert isinstance(checkpoint.position, KafkaPosition)
    assert checkpoint.generation == 2
