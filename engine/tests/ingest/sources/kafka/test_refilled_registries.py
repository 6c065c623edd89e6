"""A registry that was emptied and filled again: numbers stand for other schemas than before."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.errors import ConfigError
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.kafka import schema_registry
from tideline.ingest.sources.kafka.avro_rows import read_avro_values
from tideline.ingest.sources.kafka.decoded import WantedColumns
from tideline.ingest.sources.kafka.known_schemas import KnownSchemas
from tideline.ingest.sources.kafka.position import KafkaPosition
from tideline.ingest.sources.kafka.records import KafkaRange, Span, TopicPartition
from tideline.ingest.sources.kafka.schema_id import SchemaId
from tideline.ingest.sources.kafka.schema_registry import Registry
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.schema_registry import SchemaRegistry
from tideline.testing.topic_feed import TopicFeed

ANOTHER = "by which records of the table were read, is another one now"


def record(*names: str) -> dict[str, object]:
    fields = [{"name": name, "type": "long"} for name in names]
    return {"type": "record", "name": "order", "fields": fields}


ORDER, REFILLED = record("id", "ts", "paid"), record("id", "ts", "owed")
"""The same bytes fit both."""


@pytest.fixture(autouse=True)
def asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept for a moment."""
    monkeypatch.setattr(schema_registry, "_FRESH_S", 0.0)


def values(registry: SchemaRegistry, number: int, *ids: int) -> list[tuple[bytes, bytes]]:
    return [
        (b"%d" % key, registry.encode(number, {"id": key, "ts": 1, "paid": 5}, ORDER))
        for key in ids
    ]


def refill(registry: SchemaRegistry, schema: dict[str, object]) -> None:
    registry.schemas.clear()
    registry.register(schema)


def failure(feed: TopicFeed) -> str:
    operation = feed.plan()
    assert isinstance(operation, Operation)
    result = feed.execute(operation)
    assert result.outcome is Outcome.FAILED
    return result.message


@pytest.mark.kafka
@pytest.mark.slow
def test_a_number_that_means_another_schema_than_in_the_commits_before_is_named(
    kafka_broker: KafkaBroker, registry: SchemaRegistry, tmp_path: Path
) -> None:
    topic = f"refilled-{secrets.token_hex(4)}"
    kafka_broker.create_topic(topic)
    number = registry.register(ORDER)
    kafka_broker.produce(topic, values(registry, number, 1, 2))
    feed = TopicFeed.of_avro(tmp_path, kafka_broker.address, topic, registry.address)
    assert feed.drain() is None
    checkpoint = feed.checkpoint()
    assert checkpoint is not None and isinstance(checkpoint.position, KafkaPosition)
    assert set(checkpoint.position.schemas.of(registry.address)) == {number}

    kafka_broker.produce(topic, values(registry, number, 3))
    refill(registry, REFILLED)
    message = failure(feed)
    assert ANOTHER in message and "mode IMPORT" in message
    registry.schemas.clear()
    assert f"schema {number}, by which records of the table were read, is gone" in failure(feed)
    assert feed.rows("id", "paid") == [(1, 5), (2, 5)]
    # Filled with the numbers that it had.
    refill(registry, ORDER)
    assert feed.drain() is None
    assert feed.rows("id", "paid") == [(1, 5), (2, 5), (3, 5)]

    # Or named by another address, once all that was written before is read.
    refill(registry, record("id", "ts"))
    kafka_broker.produce(topic, [(b"4", registry.encode(number, {"id": 4, "ts": 1}))])
    assert ANOTHER in failure(feed)
    elsewhere = registry.address.replace("127.0.0.1", "localhost")
    feed.source = replace(feed.source, registry=elsewhere)
    assert feed.drain() is None
    assert feed.rows("id", "paid") == [(1, 5), (2, 5), (3, 5), (4, None)]


def test_a_process_does_not_keep_what_a_registry_says_no_more(registry: SchemaRegistry) -> None:
    number = registry.register(ORDER)
    ((_, value),) = values(registry, number, 1)
    first = Registry(registry.address)
    assert read_avro_values([value], first, WantedColumns()).rows.column_names[2] == "paid"
    refill(registry, REFILLED)
    # One reading has one schema.
    assert read_avro_values([value], first, WantedColumns()).rows.column_names[2] == "paid"
    later = Registry(registry.address)
    assert read_avro_values([value], later, WantedColumns()).rows.column_names[2] == "owed"
    with pytest.raises(ConfigError, match=ANOTHER):
        read_avro_values([value], Registry(registry.address, first.used()), WantedColumns())


@pytest.mark.parametrize("answer", [(503, b""), (404, b"<html>"), (401, b""), (200, b"<html>")])
def test_a_registry_that_is_away_is_the_one_that_was_there(
    registry: SchemaRegistry, answer: tuple[int, bytes]
) -> None:
    number = registry.register(ORDER)
    ((_, value),) = values(registry, number, 1)
    first = Registry(registry.address)
    read_avro_values([value], first, WantedColumns())
    registry.answers[number] = answer
    for _ in range(3):
        later = Registry(registry.address, first.used())
        assert list(read_avro_values([value], later, WantedColumns()).numbers) == [0]
    # It is not asked again at once.
    assert len(registry.asked) == 2


def test_types_that_a_schema_refers_to_are_part_of_what_it_means(registry: SchemaRegistry) -> None:
    registry.refer("money", record("amount"))
    fields = [{"name": "id", "type": "long"}, {"name": "sum", "type": "order"}]
    sale = {"type": "record", "name": "sale", "fields": fields}
    number = registry.refer("sale", sale, {"name": "m", "subject": "money", "version": 1})
    first = Registry(registry.address)
    first.schema(SchemaId(number))
    # However it is written.
    registry.schemas[0] = {"schema": json.dumps(record("amount"), indent=1)}
    Registry(registry.address, first.used()).schema(SchemaId(number))
    registry.schemas[0] = {"schema": json.dumps(record("tax"))}
    with pytest.raises(ConfigError, match=ANOTHER):
        Registry(registry.address, first.used()).schema(SchemaId(number))


def test_positions_and_ranges_say_what_numbers_meant() -> None:
    partition = TopicPartition("orders", 0)
    known = KnownSchemas("http://r", ((1, "a"), (2, "b")))
    position = KafkaPosition({"orders": "x"}, {partition: 5}, schemas=known)
    assert KafkaPosition.from_stored(position.stored()) == position
    taken = KafkaRange((Span(partition, "x", 5, 9),), schemas=KnownSchemas("http://r", ((1, "a"),)))
    assert KafkaRange.from_stored(taken.stored()) == taken
    assert position.behind(taken).schemas.digests == ((2, "b"), (1, "a"))
    nothing = replace(taken, schemas=KnownSchemas())
    assert position.behind(nothing).schemas == known
    elsewhere = KnownSchemas("http://s", ((1, "c"),))
    assert position.behind(replace(taken, schemas=elsewhere)).schemas == elsewhere
    many = KnownSchemas("http://r", tuple((number, "d") for number in range(100)))
    assert [number for number, _ in known.with_used(many).digests] == [*range(50, 100)]


def test_positions_of_earlier_releases_know_none() -> None:
    stored = {"topics": {"orders": {"id": "a", "next": {"0": 5}}}}
    assert KafkaPosition.from_stored(stored).schemas == KnownSchemas()
    assert "schemas" not in KafkaPosition.from_stored(stored).stored()
