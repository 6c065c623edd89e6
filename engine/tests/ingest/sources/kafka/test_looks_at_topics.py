"""What a look at topics asks a real broker for, and what it answers."""

from __future__ import annotations

import re
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID
from confluent_kafka.admin import AdminClient

from tideline.ingest.location import Location
from tideline.ingest.sources.kafka import clients
from tideline.ingest.sources.kafka.credentials import Credentials
from tideline.ingest.sources.kafka.declared import Isolation
from tideline.ingest.sources.kafka.offsets import KafkaOffsets, PartitionOffsets
from tideline.ingest.sources.kafka.position import KafkaPosition
from tideline.ingest.sources.kafka.records import TopicPartition
from tideline.ingest.sources.kafka.wire.look import look_by
from tideline.ingest.sources.source import Limits, Nothing, Reach
from tideline.storage.object_store import ObjectStore
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import TopicFeed, values

pytestmark = pytest.mark.kafka

_SENT = re.compile(r"Sent (\w+)Request")


@pytest.fixture
def topic() -> str:
    return f"looks-{secrets.token_hex(4)}"


@pytest.fixture
def requests(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[], Counter[str]]:
    """Tells how often the client sent each kind of request, from its log, since it was asked."""
    settings = clients.client_settings

    def logged(*given: Any) -> dict[str, Any]:
        return {**settings(*given), "debug": "protocol", "log_level": 7}

    monkeypatch.setattr(clients, "client_settings", logged)
    return lambda: Counter(_SENT.findall(capfd.readouterr().err))


def looked(feed: TopicFeed, after: KafkaPosition | None = None) -> KafkaOffsets:
    return feed.source.positions(Reach(_no_store), after)


def test_a_look_at_a_hundred_partitions_costs_as_many_requests_as_at_one(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path, requests: Callable[[], Counter[str]]
) -> None:
    kafka_broker.create_topic(topic, 100)
    kafka_broker.produce(topic, values((n, 1, "a") for n in range(5)), partition=99)
    feed = TopicFeed.of(tmp_path, kafka_broker.address, topic)
    # Until partitions have their leaders they are asked for again.
    looked(feed)
    requests()
    found = looked(feed)
    assert found.partitions[TopicPartition(topic, 99)] == PartitionOffsets(0, 5, 0)
    assert len(found.partitions) == 100
    sent = requests()
    assert sent["ListOffsets"] == 2
    assert sent.total() <= 12, sent


def test_the_time_that_a_table_begins_at_is_asked_for_only_as_long_as_it_has_read_nothing(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path, requests: Callable[[], Counter[str]]
) -> None:
    kafka_broker.create_topic(topic, 2)
    for number in range(4):
        kafka_broker.produce(topic, values([(number, 1, "a")]), timestamp_ms=1_000 * (number + 1))
    feed = TopicFeed.of(tmp_path, kafka_broker.address, topic, start="2500")
    looked(feed)
    requests()
    found = looked(feed)
    assert found.partitions[TopicPartition(topic, 0)] == PartitionOffsets(0, 4, 2)
    # No record is of that time or later: it begins at the end.
    assert found.partitions[TopicPartition(topic, 1)] == PartitionOffsets(0, 0, 0)
    assert requests()["ListOffsets"] == 3
    looked(feed, KafkaPosition({}, {}))
    # One of them is for what transactions hold where nothing else waits.
    assert requests()["ListOffsets"] == 3


def test_a_look_ends_at_the_oldest_open_transaction_unless_all_records_are_wanted(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, values([(1, 1, "a"), (2, 1, "b")]))
    producer = kafka_broker.producer(**{"transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, key="3", value="{}")
    producer.flush()
    kafka_broker.produce(topic, values([(4, 1, "d")]))
    partition = TopicPartition(topic, 0)
    feed = TopicFeed.of(tmp_path, kafka_broker.address, topic)
    assert looked(feed).partitions[partition].end == 2
    every = TopicFeed.of(
        tmp_path, kafka_broker.address, topic, isolation=Isolation.READ_UNCOMMITTED
    )
    assert looked(every).partitions[partition].end == 4
    producer.abort_transaction()


def test_records_that_wait_for_an_open_transaction_are_a_backlog(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic, 2)
    kafka_broker.produce(topic, values([(1, 1, "a"), (2, 1, "b")]), timestamp_ms=1_000)
    feed = TopicFeed.of(tmp_path, kafka_broker.address, topic)
    position = KafkaPosition(
        looked(feed).topic_ids, {TopicPartition(topic, 0): 2, TopicPartition(topic, 1): 0}
    )
    producer = kafka_broker.producer(**{"transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, key="3", value="{}", partition=0, timestamp=2_000)
    producer.flush()
    kafka_broker.produce(topic, values([(4, 1, "d")]), timestamp_ms=3_000)

    def of(found: KafkaOffsets) -> tuple[int, int, int | None]:
        assert isinstance(found.plan(position, Limits(1, 0)), Nothing)
        backlog = found.backlog(position, Limits(1, 0))
        return backlog.parts, backlog.records, backlog.oldest_ms

    def by_wire() -> KafkaOffsets:
        connect = partial(socket.create_connection, timeout=3.0)
        return look_by(
            feed.source,
            Credentials.of({}),
            lambda host, port: connect((host, port)),
            position,
            asks_age=True,
        )

    assert of(feed.source.positions(Reach(_no_store, asks_age=True), position)) == (0, 2, 2_000)
    assert of(by_wire()) == (0, 2, 2_000)
    assert looked(feed).held == ()
    every = replace(feed.source, isolation=Isolation.READ_UNCOMMITTED)
    assert every.positions(Reach(_no_store), position).backlog(position, Limits(1, 0)).records == 2
    producer.abort_transaction()
    # Markers come a moment later.
    deadline_s = time.monotonic() + 30
    while looked(feed, position).is_drained(position):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    assert looked(feed, position).held == ()


def test_a_look_that_asks_for_it_says_of_what_time_the_oldest_record_is_that_waits(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path, requests: Callable[[], Counter[str]]
) -> None:
    kafka_broker.create_topic(topic, 40)
    for number in range(40):
        records = values([(number, 1, "a")])
        kafka_broker.produce(topic, records, partition=number, timestamp_ms=1_000 * (number + 1))
        kafka_broker.produce(topic, records, partition=number, timestamp_ms=5_000_000 + number)
    feed = TopicFeed.of(tmp_path, kafka_broker.address, topic)
    ids = looked(feed).topic_ids

    def oldest_ms(*following: int) -> int | None:
        offsets = {TopicPartition(topic, n): offset for n, offset in enumerate(following)}
        position = KafkaPosition(ids, offsets)
        found = feed.source.positions(Reach(_no_store, asks_age=True), position)
        return found.backlog(position, Limits(1, 0)).oldest_ms

    assert oldest_ms(*[0] * 40) == 1_000
    assert oldest_ms(*[1] * 20, *[0] * 20) == 21_000
    assert oldest_ms(*[1] * 40) == 5_000_000
    requests()
    assert oldest_ms(*[2] * 40) is None
    assert requests()["Fetch"] == 0
    assert looked(feed).oldest_ms is None


def _no_store(place: Location) -> ObjectStore:
    pytest.fail(f"a look at topics opens {place.uri}")


def test_a_broker_that_answers_without_an_offset_is_asked_again(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that has just started: a storm met it, and took it for lost records."""
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, values((n, 1, "a") for n in range(5)))
    feed = TopicFeed.of(tmp_path, kafka_broker.address, topic)
    feed.drain()
    asked = AdminClient.list_offsets
    unknown = [True, True]

    def without_an_offset(admin: AdminClient, *given: Any, **named: Any) -> dict[Any, Any]:
        answers = asked(admin, *given, **named)
        if unknown and unknown.pop():
            for answer in answers.values():
                answer.result(10).offset = OFFSET_INVALID
        return answers

    monkeypatch.setattr(AdminClient, "list_offsets", without_an_offset)
    assert looked(feed).partitions[TopicPartition(topic, 0)].end == 5
    assert not unknown
