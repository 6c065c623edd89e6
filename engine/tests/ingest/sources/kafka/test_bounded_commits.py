"""Commits that are bounded by bytes and by time, on a real broker."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest

from tideline.ingest.execute import in_process
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.kafka.offsets import KafkaOffsets
from tideline.ingest.sources.kafka.position import KafkaPosition
from tideline.ingest.sources.own_reach import own_reach
from tideline.ingest.sources.source import Limits, Nothing
from tideline.storage.location import StoreLocation
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import TopicFeed, values

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic() -> str:
    return f"bounded-{secrets.token_hex(4)}"


def wide(count: int, first: int = 0) -> list[tuple[str, str]]:
    return values((n, 1, "x" * 1_000) for n in range(first, first + count))


def test_commits_have_about_as_many_bytes_as_they_may(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic, 2)
    kafka_broker.produce(topic, wide(2_000), partition=0)
    kafka_broker.produce(topic, wide(2_000, first=2_000), partition=1)
    bytes_max = 1_500_000
    found = TopicFeed.of(tmp_path, kafka_broker.address, topic, bytes_max=bytes_max)
    assert found.drain() is None
    assert len(found.rows("id")) == 4_000
    first, *others, _ = found.results
    assert first.source_records == 1_000
    assert others
    for result in others:
        assert 0.9 * bytes_max < result.source_bytes <= bytes_max * 1.05


def test_an_attempt_that_is_repeated_after_others_have_learned_more_reads_the_same(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, wide(1_500))
    found = TopicFeed.of(tmp_path, kafka_broker.address, topic, bytes_max=200_000)
    operation = found.plan()
    assert isinstance(operation, Operation)
    stored = Operation.from_json_object(json.loads(json.dumps(operation.to_json_object())))
    assert stored == operation
    kafka_broker.produce(topic, wide(100, first=1_500))
    assert found.execute(stored).source_records == 1_000
    assert found.execute(stored).outcome is Outcome.NOTHING
    assert found.drain() is None
    assert len(found.rows("id")) == 1_600


def test_records_that_do_not_fit_into_memory_are_refused_with_what_helps(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, wide(100))
    monkeypatch.setattr(in_process, "batch_bytes_max", lambda: 50_000)
    found = TopicFeed.of(tmp_path, kafka_broker.address, topic)
    operation = found.plan()
    assert isinstance(operation, Operation)
    result = found.execute(operation)
    assert result.outcome is Outcome.FAILED
    assert "give source.maxBytesPerCommit, or lower source.maxRecordsPerCommit" in result.message
    assert found.rows() == []


def test_commits_are_no_more_frequent_than_declared_unless_they_are_full(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, wide(5))
    found = TopicFeed.of(
        tmp_path, kafka_broker.address, topic, commit_every_ms=600_000, records_max=10
    )

    def plan_later(seconds: int) -> object:
        checkpoint = found.checkpoint()
        assert checkpoint is not None
        position = checkpoint.position
        assert isinstance(position, KafkaPosition)
        reach = own_reach(lambda _: StoreLocation.of(str(tmp_path)).open())
        available = found.source.positions(reach, position)
        assert isinstance(available, KafkaOffsets)
        return available.plan(position, Limits(1, position.looked_ms + seconds * 1_000))

    operation = found.plan()
    assert isinstance(operation, Operation)
    assert found.execute(operation).source_records == 5
    kafka_broker.produce(topic, wide(5, first=5))
    assert isinstance(plan_later(599), Nothing)
    assert not isinstance(plan_later(600), Nothing)
    kafka_broker.produce(topic, wide(5, first=10))
    assert not isinstance(plan_later(1), Nothing)
