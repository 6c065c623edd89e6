"""A topic goes to Hudi's own streamer and back: each continues where the other was."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.ingest.sources.checkpoint import INGEST_KEY
from tideline.testing.hudi_streamer import HudiStreamer, build
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.maven_jars import require_jars
from tideline.testing.topic_feed import TopicFeed, values

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.interop, pytest.mark.spark]

KEY = "deltastreamer.checkpoint.key"
PARTITIONS, RECORDS = 3, 7


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_each_continues_behind_the_other(
    kafka_broker: KafkaBroker, tmp_path: Path, table_type: str
) -> None:
    require_jars(build)
    topic = f"handed-over-{secrets.token_hex(4)}"
    kafka_broker.create_topic(topic, PARTITIONS)
    produced = 0

    def produce() -> None:
        """To each partition another number of records, of keys that come once."""
        nonlocal produced
        for partition in range(PARTITIONS):
            count = RECORDS + partition
            rows = [(produced + n, 1, f"v{produced + n}") for n in range(count)]
            kafka_broker.produce(topic, values(rows), partition=partition)
            produced += count

    # Inserts would double what is read twice.
    feed = TopicFeed.of(tmp_path, kafka_broker.address, topic, writes_streamer_checkpoint=True)
    feed = replace(feed, operation="insert", table_version=6, table_type=table_type)
    table = tmp_path / "table"
    streamer = HudiStreamer(kafka_broker.address, topic, table, table_type, tmp_path / "work")

    def rows() -> list[tuple[int, str]]:
        return [(number, f"v{number}") for number in range(produced)]

    for _ in range(2):
        produce()
        assert feed.drain() is None
        assert feed.rows() == rows()
        produce()
        streamer.round()
        assert _newest_checkpoint(feed) == _ends(kafka_broker, topic)
        assert feed.rows() == rows()
    # Nothing is new to either.
    assert feed.drain() is None
    streamer.round()
    assert feed.rows() == rows()


def _newest_checkpoint(feed: TopicFeed) -> str:
    table = feed.table()
    assert table is not None
    newest = table.timeline().completed().of(*COMMIT_ACTIONS).last()
    assert newest is not None
    found = table.hoodie_table.commits.read(newest).extra_metadata
    assert INGEST_KEY not in found, "the streamer has not committed"
    return found[KEY]


def _ends(broker: KafkaBroker, topic: str) -> str:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "ends"})
    ends = (
        consumer.get_watermark_offsets(TopicPartition(topic, number), 30.0)[1]
        for number in range(PARTITIONS)
    )
    text = ",".join([topic, *(f"{number}:{end}" for number, end in enumerate(ends))])
    consumer.close()
    return text
