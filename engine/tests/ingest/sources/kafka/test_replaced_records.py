"""A partition that has other records before an offset than those that were read there."""

from __future__ import annotations

import pickle
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.ingest.sources.kafka.broker import read_records, require_same_topics
from tideline.ingest.sources.kafka.credentials import Credentials
from tideline.ingest.sources.kafka.known_schemas import KnownSchemas
from tideline.ingest.sources.kafka.offsets import KafkaOffsets
from tideline.ingest.sources.kafka.position import KafkaPosition
from tideline.ingest.sources.kafka.records import KafkaRange, Span, TopicPartition
from tideline.ingest.sources.kafka.span_tasks import SpanEnd, range_once_read
from tideline.ingest.sources.kafka.wire.look import look_by
from tideline.ingest.sources.source import Limits, Lost, Nothing
from tideline.testing.kafka_broker import KafkaBroker, build
from tideline.testing.maven_jars import require_jars
from tideline.testing.planted_differences import verified
from tideline.testing.topic_feed import TopicFeed, values

NOW = Limits(1, 0)
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    """One whose disk is a test's own."""
    require_jars(build)
    with KafkaBroker(tmp_path / "broker") as found:
        yield found


def produced(broker: KafkaBroker, first: int, count: int, partition: int = 0) -> None:
    rows = ((n, n, "v") for n in range(first, first + count))
    broker.produce("orders", values(rows), partition=partition)


def position(feed: TopicFeed) -> KafkaPosition:
    checkpoint = feed.checkpoint()
    assert checkpoint is not None and isinstance(checkpoint.position, KafkaPosition)
    return checkpoint.position


def read_to(feed: TopicFeed, wanted: dict[TopicPartition, int]) -> KafkaPosition:
    """Markers of transactions come a moment behind their commit."""
    deadline_s = time.monotonic() + 30
    while True:
        assert feed.drain() is None
        found = position(feed)
        if found.next == wanted or time.monotonic() > deadline_s:
            assert found.next == wanted
            return found
        time.sleep(0.2)


def by_wire(feed: TopicFeed, after: KafkaPosition) -> KafkaOffsets:
    """As the operator looks."""
    return look_by(
        feed.source,
        Credentials.of({}),
        lambda host, port: socket.create_connection((host, port), 3.0),
        after,
    )


@pytest.mark.kafka
@pytest.mark.slow
def test_a_log_that_was_cut_off_and_has_grown_past_the_offset_is_another_one(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    broker.create_topic("orders", 2)
    produced(broker, 0, 10)
    produced(broker, 1_000, 5, partition=1)
    feed = TopicFeed.of(tmp_path, broker.address, "orders")
    assert feed.drain() is None
    before = position(feed)
    assert set(before.epochs) == {FIRST, SECOND}
    copy = broker.copy_disk()
    # A transaction's marker is the last offset.
    producer = broker.producer(**{"transactional.id": "t"})
    producer.init_transactions()
    producer.begin_transaction()
    for key, value in values((n, n, "lost") for n in range(10, 20)):
        producer.produce("orders", key=key, value=value, partition=0)
    producer.commit_transaction()
    del producer
    after = read_to(feed, {FIRST: 21, SECOND: 5})
    assert after.epochs == before.epochs

    # The same log under another leader: all is as it was read.
    broker.kill()
    broker.start()
    produced(broker, 1_005, 2, partition=1)
    for look in (feed.look(), by_wire(feed, after)):
        assert look.replaced == frozenset()
        assert not isinstance(look.plan(after, NOW), Lost | Nothing)
    assert feed.drain() is None
    after = position(feed)
    assert after.epochs[SECOND] > before.epochs[SECOND]

    broker.restore_disk(copy)
    for look in (feed.look(), by_wire(feed, after)):
        lost = look.plan(after, NOW)
        assert isinstance(lost, Lost)
        assert "the brokers lost records" in lost.what
    produced(broker, 10, 5)
    produced(broker, 2_000, 20)
    produced(broker, 1_005, 5, partition=1)
    for look in (feed.look(), by_wire(feed, after)):
        assert FIRST in look.replaced
        lost = look.plan(after, NOW)
        assert isinstance(lost, Lost)
        assert "orders/0 has other records before offset 21 than the table has read" in lost.what
        assert "tideline resync" in lost.remedy
    with pytest.raises(ConfigError, match="orders/0 has other records before offset 21"):
        verified(feed.target, feed.source)
    # Where it happened behind a look, reading does not pass over it either.
    look = by_wire(feed, after)
    span = next(span for span in look.waiting(after) if span.partition == FIRST)
    epochs: dict[TopicPartition, int] = {}
    list(read_records(feed.source, KafkaRange((span,)), epochs=epochs))
    assert epochs[FIRST] > after.epochs[FIRST]
    with pytest.raises(StorageUnavailableError, match="lost records while they were read"):
        require_same_topics(feed.source, KafkaRange((span,)), epochs)
    # A checkpoint of an earlier release does not say in what epoch its records were written.
    earlier = replace(after, epochs={})
    assert not isinstance(by_wire(feed, earlier).plan(earlier, NOW), Lost)

    assert feed.again().exit_code == 0
    assert feed.drain() is None
    kept = {*range(10), *range(10, 15), *range(2_000, 2_020)}
    assert kept <= {row[0] for row in feed.rows("id")}
    assert position(feed).epochs[FIRST] > before.epochs[FIRST]


def test_epochs_are_of_the_last_records_that_were_read() -> None:
    known = KafkaPosition({"orders": "a"}, {FIRST: 5, SECOND: 7}, epochs={FIRST: 1, SECOND: 2})
    assert KafkaPosition.from_stored(known.stored()) == known
    spans = (Span(FIRST, "a", 5, 9, epoch=1), Span(SECOND, "a", 7, 7, epoch=2))
    taken = KafkaRange(spans)
    assert KafkaRange.from_stored(taken.stored()) == taken
    read = known.behind(taken.ended_in({FIRST: 3}))
    assert (read.next[FIRST], dict(read.epochs)) == (9, {FIRST: 3, SECOND: 2})
    # What nobody has noted is not that of before: epochs may have changed in between.
    assert dict(known.behind(taken).epochs) == {SECOND: 2}


def test_of_spans_of_one_partition_the_first_continues_and_the_last_ends() -> None:
    taken = KafkaRange((Span(FIRST, "a", 5, 12, epoch=1), Span(SECOND, "a", 7, 9)))
    spans = taken.divided(3)
    # A leader may have changed behind the first.
    assert [span.epoch for span in spans] == [1, None, None, None]
    ends = [
        SpanEnd(replace(span, end_epoch=epoch), KnownSchemas("http://r", ((number, "d"),)))
        for number, (span, epoch) in enumerate(zip(spans, (1, 2, 4, None), strict=True))
    ]
    read = range_once_read(taken, map(pickle.dumps, reversed(ends)))
    assert [span.end_epoch for span in read.spans] == [4, None]
    assert read.schemas == KnownSchemas("http://r", tuple((number, "d") for number in range(4)))


def test_checkpoints_and_operations_of_earlier_releases_are_read() -> None:
    stored = {"topics": {"orders": {"id": "a", "next": {"0": 5}}}, "offsetBytes": 0}
    assert KafkaPosition.from_stored(stored) == KafkaPosition({"orders": "a"}, {FIRST: 5})
    planned = {"spans": [["orders", 0, "a", 5, 9, 0]]}
    assert KafkaRange.from_stored(planned) == KafkaRange((Span(FIRST, "a", 5, 9),))
    assert KafkaRange.from_stored(planned).stored() == planned
