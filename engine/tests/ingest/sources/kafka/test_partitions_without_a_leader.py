"""Partitions whose broker is down, on a real cluster of two brokers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tideline.errors import ConfigError
from tideline.ingest.sources.kafka.credentials import Credentials
from tideline.ingest.sources.kafka.declared import LATEST
from tideline.ingest.sources.kafka.offsets import KafkaOffsets
from tideline.ingest.sources.kafka.wire.look import look_by
from tideline.ingest.sources.source import Lost, Nothing
from tideline.testing.kafka_broker import build
from tideline.testing.kafka_cluster import FIRST, SECOND, KafkaCluster
from tideline.testing.maven_jars import require_jars
from tideline.testing.planted_differences import verified
from tideline.testing.topic_feed import TopicFeed, values

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PLACES = (FIRST, SECOND, FIRST)
CLIENTS = 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    require_jars(build)
    with KafkaCluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def by_wire(feed: TopicFeed) -> KafkaOffsets:
    checkpoint = feed.checkpoint()
    position = None if checkpoint is None else checkpoint.position
    connect = partial(socket.create_connection, timeout=3.0)
    return look_by(
        feed.source, Credentials.of({}), lambda host, port: connect((host, port)), position
    )


def together(feed: TopicFeed) -> list[KafkaOffsets]:
    """Looks by clients of their own."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(lambda _: feed.look(), range(CLIENTS)))


def words(found: KafkaOffsets) -> list[tuple[str, bool]]:
    return [(item.words, item.is_fault) for item in found.held_up(0)]


def test_the_others_are_read_and_it_continues_where_it_was(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    topic = "orders"
    cluster.create_on(topic, PLACES)
    for number in range(3):
        cluster.produce(topic, values([(number, 1, "a")]), partition=number)
    feed = TopicFeed.of(tmp_path, cluster.address, topic)
    assert feed.drain() is None
    assert len(feed.rows()) == 3
    cluster.produce(topic, values([(11, 1, "b")]), partition=1)
    together(feed)
    cluster.stop_second(topic)
    try:
        for number in (0, 2):
            cluster.produce(topic, values([(20 + number, 1, "b")]), partition=number)
        expected = "orders/1 has no leader, and is not read: start the brokers that have it"
        # Kept clients have chosen the broker that is down, some of them.
        for found in (*together(feed), by_wire(feed)):
            assert words(found) == [(expected, True)]
            assert [str(item) for item in found.partitions] == ["orders/0", "orders/2"]
        assert feed.drain() is None
        assert [number for number, _ in feed.rows()] == [0, 1, 2, 20, 22]
        with pytest.raises(ConfigError, match="orders/1 has no leader, and is not read"):
            verified(feed.target, feed.source)
        _begins_once_all_are_there(cluster, tmp_path, topic)
    finally:
        cluster.start_second(topic, PLACES)
    cluster.produce(topic, values([(12, 1, "c")]), partition=1)
    assert feed.drain() is None
    assert [number for number, _ in feed.rows()] == [0, 1, 2, 11, 12, 20, 22]
    assert words(feed.look()) == []


def _begins_once_all_are_there(cluster: KafkaCluster, folder: Path, topic: str) -> None:
    """A table that begins at the end cannot say where that is of one without a leader."""
    for start in (LATEST, "1000"):
        late = TopicFeed.of(folder / start, cluster.address, topic, start=start)
        assert isinstance(late.plan(), Nothing)
        assert words(late.look())
    first = TopicFeed.of(folder / "first", cluster.address, topic)
    assert first.drain() is None
    assert [number for number, _ in first.rows()] == [0, 2, 20, 22]
    position = first.checkpoint()
    assert position is not None
    planned = replace(first.look(), begins_at_end=True).plan_again(position.position, inserts=False)
    assert isinstance(planned, Lost)
    assert str(planned).endswith("it begins once they have one")
