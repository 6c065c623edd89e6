"""Topics are read again from their start: those that were made again, and the same ones."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tideline.errors import ConfigError
from tideline.ingest.operation.operation import HUDI, ICEBERG
from tideline.ingest.sources.source import Lost, Nothing
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import TopicFeed, values

pytestmark = pytest.mark.kafka


def made_again(broker: KafkaBroker, folder: Path, operation: str, kind: str = HUDI) -> TopicFeed:
    topic = f"orders-{secrets.token_hex(4)}"
    broker.create_topic(topic)
    broker.produce(topic, values((n, 1, "a") for n in range(3)))
    found = TopicFeed.of(folder, broker.address, topic)
    found.operation, found.format = operation, kind
    found.drain()
    broker.delete_topic(topic)
    broker.create_topic(topic)
    broker.produce(topic, values((n, 2, "b") for n in range(2, 5)))
    assert isinstance(found.plan(), Lost)
    return found


@pytest.mark.slow_with("iceberg")
@pytest.mark.parametrize("kind", [HUDI, ICEBERG])
def test_a_topic_that_was_made_again_continues_in_the_same_table(
    kind: str, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    found = made_again(kafka_broker, tmp_path, "upsert", kind)
    assert found.again().exit_code == 0
    assert len(found.rows()) == 3
    assert found.drain() is None
    # What only the old one had stays: a topic has not all rows that there are.
    assert found.rows() == [(0, "a"), (1, "a"), (2, "b"), (3, "b"), (4, "b")]
    assert isinstance(found.plan(), Nothing)


def test_records_are_inserted_again_only_of_another_topic(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    found = made_again(kafka_broker, tmp_path, "insert")
    assert found.again().exit_code == 0
    found.drain()
    assert [row[0] for row in found.rows()] == [0, 1, 2, 2, 3, 4]
    with pytest.raises(ConfigError, match="would come twice"):
        found.again()
    found.operation = "upsert"
    assert found.again().exit_code == 0
    found.drain()
    assert found.results[-1].source_records == 3
