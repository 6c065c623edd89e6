"""Tables that Hudi's streamer has fed from a topic are continued, and can be given back."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.errors import CorruptTableError
from tideline.hudi.table.layout.known_layouts import layout_of_new
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.ingest.arrow_schema import arrow_schema
from tideline.ingest.execute.table_access import create_declared_table
from tideline.ingest.sources.kafka.declared import DeclaredKafka
from tideline.ingest.sources.kafka.position import KafkaPosition
from tideline.ingest.sources.kafka.records import TopicPartition
from tideline.ingest.sources.kafka.streamer import metadata_for_streamer, position_of_streamer
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import SCHEMA, TopicFeed, values

KEY_OF_6, KEY_OF_8 = "deltastreamer.checkpoint.key", "streamer.checkpoint.key.v2"
SOURCE = DeclaredKafka(brokers="broker:9092", topics=("orders",), schema=())


def position(topic: str, **offsets: int) -> KafkaPosition:
    return KafkaPosition(
        {topic: "id"}, {TopicPartition(topic, int(n[1:])): at for n, at in offsets.items()}
    )


@pytest.mark.parametrize("key", [KEY_OF_6, KEY_OF_8])
def test_a_commit_of_the_streamer_says_where_it_is(key: str) -> None:
    found = position_of_streamer(SOURCE, {key: "orders,0:12,1:30"})
    assert found is not None
    assert found.next == {TopicPartition("orders", 0): 12, TopicPartition("orders", 1): 30}
    assert not found.topic_ids


@pytest.mark.parametrize("text", ["", "other,0:12", "20260101000000000", "orders"])
def test_other_checkpoints_are_not_of_this_source(text: str) -> None:
    assert position_of_streamer(SOURCE, {KEY_OF_8: text}) is None


def test_one_that_cannot_be_read_is_not_passed_over() -> None:
    with pytest.raises(CorruptTableError, match="streamer cannot be read"):
        position_of_streamer(SOURCE, {KEY_OF_8: "orders,0:12,1"})


def test_what_is_written_is_what_the_streamer_reads() -> None:
    writes = replace(SOURCE, writes_streamer_checkpoint=True)
    at = position("orders", p1=30, p0=12, p10=4)
    keys = {version: layout_of_new(version).properties.streamer_checkpoint for version in (6, 8, 9)}
    assert keys == {6: KEY_OF_6, 8: KEY_OF_8, 9: KEY_OF_8}
    assert metadata_for_streamer(writes, at, KEY_OF_8) == {KEY_OF_8: "orders,0:12,1:30,10:4"}
    assert metadata_for_streamer(SOURCE, at, KEY_OF_8) == {}
    two = KafkaPosition({}, {**at.next, TopicPartition("more", 0): 1})
    assert metadata_for_streamer(writes, two, KEY_OF_8) == {}


@pytest.mark.kafka
@pytest.mark.parametrize("version", [6, 8])
def test_a_table_is_continued_behind_its_streamer_and_given_back(
    kafka_broker: KafkaBroker, tmp_path: Path, version: int
) -> None:
    topic = f"taken-over-{secrets.token_hex(4)}"
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, values((n, 1, f"a{n}") for n in range(10)))
    feed = TopicFeed.of(tmp_path, kafka_broker.address, topic, writes_streamer_checkpoint=True)
    # Inserts would double what is read twice.
    feed = replace(feed, operation="insert", ordering=(), table_version=version)
    key = KEY_OF_8 if version >= 8 else KEY_OF_6
    table = create_declared_table(feed.target)
    rows = arrow_schema(SCHEMA).empty_table()
    table.write(rows, operation="insert", extra_metadata={key: f"{topic},0:7"})
    assert feed.drain() is None
    assert [key for key, _ in feed.rows()] == [7, 8, 9]
    kafka_broker.produce(topic, values([(10, 1, "a10")]))
    assert feed.drain() is None
    assert [key for key, _ in feed.rows()] == [7, 8, 9, 10]
    newest = table.timeline().completed().of(*COMMIT_ACTIONS).last()
    assert newest is not None
    extra = table.hoodie_table.commits.read(newest).extra_metadata
    assert extra[key] == f"{topic},0:11"
    # The streamer has it again, for a while.
    kafka_broker.produce(topic, values([(11, 1, "a11"), (12, 1, "a12")]))
    table.write(rows, operation="insert", extra_metadata={key: f"{topic},0:12"})
    assert feed.drain() is None
    assert [key for key, _ in feed.rows()] == [7, 8, 9, 10, 12]
