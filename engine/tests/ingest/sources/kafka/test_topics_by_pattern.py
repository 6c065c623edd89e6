"""Topics that a pattern names, on a real broker: those of later too, and those that vanish."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tideline.ingest.sources.kafka.declared import DeclaredKafka
from tideline.ingest.sources.source import Lost, Nothing
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import TopicFeed, values

pytestmark = pytest.mark.kafka


def test_topics_that_match_are_read_those_that_come_later_too_and_one_that_vanishes_is_named(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    prefix = secrets.token_hex(4)
    found = TopicFeed.of(tmp_path, kafka_broker.address, pattern=rf"{prefix}-[a-z]+|__{prefix}")
    assert isinstance(found.plan(), Nothing)
    for number, topic in enumerate((f"{prefix}-a", f"{prefix}-b-not", f"__{prefix}")):
        kafka_broker.create_topic(topic)
        kafka_broker.produce(topic, values([(number, 1, topic)]))
    assert found.drain() is None
    assert found.rows() == [(0, f"{prefix}-a")]
    checkpoint = found.checkpoint()
    assert checkpoint is not None
    address = checkpoint.address
    kafka_broker.create_topic(f"{prefix}-later")
    kafka_broker.produce(f"{prefix}-later", values([(9, 1, "later")]))
    assert found.drain() is None
    assert found.rows("id") == [(0,), (9,)]
    checkpoint = found.checkpoint()
    assert checkpoint is not None
    assert checkpoint.address == address
    kafka_broker.delete_topic(f"{prefix}-a")
    lost = found.drain()
    assert isinstance(lost, Lost)
    assert lost.what == f"there is no topic {prefix}-a any more"


def test_a_pattern_is_of_whole_names_and_survives_storing() -> None:
    source = DeclaredKafka(brokers="b:1", topics=(), schema=(), pattern="orders-.*|crm")
    names = ("orders-1", "my-orders-1", "crm", "crm2", "__orders-1")
    assert [name for name in names if source.is_wanted(name)] == ["orders-1", "crm"]
    assert not DeclaredKafka(brokers="b:1", topics=(), schema=(), pattern=".*").is_wanted("__x")
    assert DeclaredKafka.from_stored(source.stored()) == source
    assert source.address("") == "kafka:/orders-.*|crm/"
