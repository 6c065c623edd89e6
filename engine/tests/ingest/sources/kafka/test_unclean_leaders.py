"""A leader that was not in sync takes over, on a real cluster: records that were read are gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tideline.ingest.sources.source import Lost
from tideline.testing.cluster_storm import StormCluster
from tideline.testing.kafka_broker import build
from tideline.testing.kafka_cluster import FIRST, SECOND
from tideline.testing.maven_jars import require_jars
from tideline.testing.topic_feed import TopicFeed, values

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPIC, ANSWER_S, FETCHED_S = "orders", 30.0, 5.0
# A replica that is not in sync fetches one batch, and has used its share for as many seconds.
SETTINGS = "replica.fetch.max.bytes=100\nreplication.quota.window.num=600\n"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StormCluster]:
    require_jars(build)
    with StormCluster(tmp_path / "cluster", settings=SETTINGS) as found:
        yield found


def configure(cluster: StormCluster, kind: ResourceType, name: str, key: str, text: str) -> None:
    entry = ConfigEntry(key, text, incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(kind, name, incremental_configs=[entry])
    admin = cluster.admin()
    for future in admin.incremental_alter_configs([wanted]).values():
        future.result(ANSWER_S)


def produce(cluster: StormCluster, first: int, count: int, word: str) -> None:
    cluster.produce(TOPIC, values((n, n, word) for n in range(first, first + count)))


def test_what_it_never_had_is_named_and_nothing_else_is_taken_for_it(
    cluster: StormCluster, tmp_path: Path
) -> None:
    cluster.create_on(TOPIC, [SECOND])
    feed = TopicFeed.of(tmp_path, cluster.address, TOPIC)
    produce(cluster, 0, 10, "both")
    produce(cluster, 10, 10, "lost")
    assert feed.drain() is None
    assert [row[0] for row in feed.rows()] == list(range(20))
    rate = "follower.replication.throttled.rate"
    configure(cluster, ResourceType.BROKER, str(FIRST), rate, "1")
    configure(cluster, ResourceType.TOPIC, TOPIC, "follower.replication.throttled.replicas", "*")
    cluster.begin_move(TOPIC, 0, [SECOND, FIRST])
    time.sleep(FETCHED_S)

    cluster.stop_second(TOPIC)
    admin = cluster.admin()
    admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(TOPIC, 0)]).result(ANSWER_S)
    cluster.wait_for_leaders(TOPIC, [FIRST])
    lost = feed.plan()
    assert isinstance(lost, Lost)
    assert lost.what.startswith("orders/0 ends at offset 10, the table has read to 20")
    produce(cluster, 30, 25, "since")
    lost = feed.plan()
    assert isinstance(lost, Lost)
    assert lost.what.startswith("orders/0 has other records before offset 20")

    cluster.start_second(TOPIC, [FIRST])
    assert feed.again().exit_code == 0
    assert feed.drain() is None
    expected = [*((n, "both") for n in range(10)), *((n, "since") for n in range(30, 55))]
    found = dict(feed.rows())
    assert {n: found[n] for n, _ in expected} == dict(expected)
