"""Topics whose values are not JSON rows: Avro, change events, raw; on a real broker."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tideline.hudi.table.table_config import PARTIAL_UPDATE_MODE, UNAVAILABLE_PROPERTY
from tideline.ingest.column_type import Column, ColumnType
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation
from tideline.ingest.sources.kafka.declared import (
    UNAVAILABLE,
    RecordField,
    ValueFormat,
)
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.schema_registry import SchemaRegistry, connect_envelope
from tideline.testing.stream_feed import KINDS
from tideline.testing.topic_feed import TopicFeed

pytestmark = pytest.mark.kafka

FILLING = {PARTIAL_UPDATE_MODE: "FILL_UNAVAILABLE", UNAVAILABLE_PROPERTY: UNAVAILABLE}
ENVELOPE = connect_envelope(
    [
        {"field": "id", "type": "int64"},
        {"field": "ts", "type": "int64", "optional": True},
        {"field": "v", "type": "string", "optional": True},
    ]
)


@pytest.fixture
def topic() -> str:
    return f"changes-{secrets.token_hex(4)}"


def row(number: int, ts: int | None, text: str | None) -> dict[str, Any]:
    return {"id": number, "ts": ts, "v": text}


def change(
    operation: str, before: dict[str, Any] | None, after: dict[str, Any] | None, lsn: int = 1
) -> tuple[str, str]:
    payload = {"before": before, "after": after, "source": {"lsn": lsn}, "op": operation}
    key = json.dumps({"id": (after or before or {"id": 0})["id"]})
    return key, json.dumps({"schema": ENVELOPE, "payload": payload}, separators=(",", ":"))


def changes(folder: Path, broker: KafkaBroker, topic: str, **declared: Any) -> TopicFeed:
    return TopicFeed.of(
        folder, broker.address, topic, value=ValueFormat.DEBEZIUM_JSON, schema=(), **declared
    )


@pytest.mark.parametrize("kind", KINDS)
def test_creates_updates_and_deletes_of_a_source_table(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path, kind: str
) -> None:
    kafka_broker.create_topic(topic)
    found = changes(tmp_path, kafka_broker, topic).into(kind)
    first = [change("r", None, row(number, 5, f"a{number}")) for number in range(4)]
    kafka_broker.produce(topic, first)
    assert found.drain() is None
    assert found.rows() == [(0, "a0"), (1, "a1"), (2, "a2"), (3, "a3")]
    kafka_broker.produce(
        topic,
        [
            change("u", row(0, 0, None), row(0, 6, "b0")),
            # The connector was not given the time of the row before: it is a zero.
            change("d", row(1, 0, None), None),
            ('{"id": 1}', None),
            change("d", row(2, 0, None), None),
            ('{"id": 2}', None),
            change("c", None, row(2, 7, "again")),
        ],
    )
    assert found.drain() is None
    assert found.rows() == [(0, "b0"), (2, "again"), (3, "a3")]
    assert found.results[-1].rows_deleted >= 1


@pytest.mark.parametrize("kind", ["MERGE_ON_READ", "copy-on-write"])
def test_the_position_in_the_source_orders_events(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path, kind: str
) -> None:
    kafka_broker.create_topic(topic)
    long = ColumnType.parse("long")
    declared = changes(tmp_path, kafka_broker, topic, record_fields=(RecordField.LSN,))
    found = replace(
        declared.into(kind),
        ordering=("_event_lsn",),
        schema=(*declared.schema, Column("_event_lsn", long)),
    )
    kafka_broker.produce(topic, [change("c", None, row(1, 1, "new"), lsn=20)])
    found.drain()
    kafka_broker.produce(
        topic,
        [
            change("r", None, row(1, 1, "copied later"), lsn=10),
            change("d", row(1, 1, None), None, lsn=15),
            change("c", None, row(2, 1, "b"), lsn=21),
            change("d", row(2, 1, None), None, lsn=22),
        ],
    )
    found.drain()
    assert found.rows("id", "v", "_event_lsn") == [(1, "new", 20)]


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_were_not_available_keep_what_is_stored(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path, kind: str
) -> None:
    kafka_broker.create_topic(topic)
    filling = replace(changes(tmp_path, kafka_broker, topic), table_version=9, properties=FILLING)
    found = filling.into(kind)
    kafka_broker.produce(
        topic, [change("c", None, row(1, 1, "large")), change("c", None, row(2, 1, "b"))]
    )
    found.drain()
    kafka_broker.produce(
        topic,
        [
            change("u", None, row(1, 2, UNAVAILABLE)),
            change("c", None, row(3, 1, "in one batch")),
            change("u", None, row(3, 2, UNAVAILABLE)),
        ],
    )
    found.drain()
    assert found.rows("id", "ts", "v") == [
        (1, 2, "large"),
        (2, 1, "b"),
        (3, 2, "in one batch"),
    ]


def test_a_table_that_keeps_none_is_not_given_the_marker(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    aside = Location(f"file://{tmp_path}/aside")
    found = replace(changes(tmp_path, kafka_broker, topic, set_aside=aside), bad_rows_max=5)
    kafka_broker.produce(
        topic, [change("c", None, row(1, 1, "large")), change("u", None, row(1, 2, UNAVAILABLE))]
    )
    found.drain()
    assert found.rows("id", "ts", "v") == [(1, 1, "large")]
    (kept,) = (tmp_path / "aside").rglob("*.jsonl")
    assert "FILL_UNAVAILABLE" in json.loads(kept.read_text())["reason"]


def test_a_truncate_is_named_by_its_offset_and_passed_over_by_choice(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    found = changes(tmp_path, kafka_broker, topic)
    kafka_broker.produce(topic, [change("c", None, row(1, 1, "a"))])
    kafka_broker.produce(topic, [(None, change("t", None, None)[1])])
    operation = found.plan()
    assert isinstance(operation, Operation)
    result = found.execute(operation)
    assert result.exit_code != 0
    assert "/0 has at offset 1 that the source table was emptied" in result.message
    assert found.rows() == []
    found.source = replace(found.source, on_truncate=OnTruncate.IGNORE)
    assert found.drain() is None
    assert found.rows() == [(1, "a")]


def test_an_operation_that_only_inserts_takes_no_deletes_of_a_source(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    aside = Location(f"file://{tmp_path}/aside")
    declared = changes(tmp_path, kafka_broker, topic, set_aside=aside)
    found = replace(declared, operation="insert", ordering=(), bad_rows_max=5)
    kafka_broker.produce(
        topic, [change("c", None, row(1, 1, "a")), change("d", row(1, 1, None), None)]
    )
    found.drain()
    assert found.rows() == [(1, "a")]
    (kept,) = (tmp_path / "aside").rglob("*.jsonl")
    assert json.loads(kept.read_text())["reason"] == "the operation does not delete"


def test_avro_values_and_keys_by_the_registry(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path, registry: SchemaRegistry
) -> None:
    kafka_broker.create_topic(topic)
    fields = [
        {"name": "id", "type": "long"},
        {"name": "ts", "type": "long"},
        {"name": "v", "type": ["null", "string"]},
    ]
    value = registry.register({"type": "record", "name": "R", "fields": fields})
    key = registry.register("long")
    found = TopicFeed.of_avro(tmp_path, kafka_broker.address, topic, registry.address)
    records = [
        (registry.encode(key, number), registry.encode(value, row(number, 1, f"a{number}")))
        for number in range(3)
    ]
    kafka_broker.produce(topic, records)
    found.drain()
    kafka_broker.produce(topic, [(registry.encode(key, 1), None), (b"2", None)])
    found.drain()
    assert found.rows() == [(0, "a0")]


def test_a_key_that_is_a_number_as_bytes_is_not_read_by_the_schema_it_looks_like(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path, registry: SchemaRegistry
) -> None:
    """What Kafka's LongSerializer writes of one number is what Avro has of another, behind the
    number of a schema that the registry has."""
    kafka_broker.create_topic(topic, 2)
    key = registry.register("long")
    value = registry.register(
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": name, "type": "long"} for name in ("id", "ts")]
            + [{"name": "v", "type": "string"}],
        }
    )
    other = 10_000
    number = int.from_bytes(registry.encode(key, other))
    assert len(registry.encode(key, other)) == 8

    def written(*numbers: int) -> list[tuple[bytes, bytes]]:
        return [(n.to_bytes(8), registry.encode(value, row(n, 1, "a"))) for n in numbers]

    found = TopicFeed.of_avro(tmp_path, kafka_broker.address, topic, registry.address)
    kafka_broker.produce(topic, written(number, other, 5))
    # The lowest have no schema that a registry could have.
    for tombstone in (number, 5):
        aside = Location(f"file://{tmp_path}/aside-{tombstone}")
        found = replace(found, source=replace(found.source, set_aside=aside), bad_rows_max=2)
        kafka_broker.produce(topic, [(tombstone.to_bytes(8), None), *written(tombstone)])
        assert found.drain() is None
        assert found.rows("id") == [(5,), (other,), (number,)]
        kept = "".join(path.read_text() for path in tmp_path.glob(f"aside-{tombstone}/**/*.jsonl"))
        assert "the key is a number as bytes (LongSerializer)" in kept
    # Keys in Avro of the same length delete what they name.
    kafka_broker.produce(
        topic, [(registry.encode(key, other), None), (registry.encode(key, 7), None)], partition=1
    )
    assert found.drain() is None
    assert found.rows("id") == [(5,), (number,)]


def test_a_plain_key_has_the_type_that_values_beside_it_have(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path, registry: SchemaRegistry
) -> None:
    kafka_broker.create_topic(topic)
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": "string"}]
    value = registry.register({"type": "record", "name": "R", "fields": fields})
    declared = changes(tmp_path, kafka_broker, topic, registry=registry.address)
    source = replace(declared.source, value=ValueFormat.AVRO)
    found = replace(declared, source=source, schema=(), ordering=())
    packed = [registry.encode(value, {"id": number, "v": "a"}) for number in range(2)]
    kafka_broker.produce(topic, [("0", packed[0]), ("1", packed[1]), ("1", None)])
    found.drain()
    assert found.rows() == [(0, "a")]


def test_raw_values_are_one_column(kafka_broker: KafkaBroker, topic: str, tmp_path: Path) -> None:
    kafka_broker.create_topic(topic)
    text, number = ColumnType.parse("string"), ColumnType.parse("long")
    raw = Column("raw", text)
    stored = (raw, Column("_kafka_key", text), Column("_kafka_offset", number))
    declared = TopicFeed.of(
        tmp_path,
        kafka_broker.address,
        topic,
        schema=(raw,),
        value=ValueFormat.RAW,
        record_fields=(RecordField.KEY, RecordField.OFFSET),
    )
    found = replace(declared, schema=stored, key=("_kafka_key",), ordering=("_kafka_offset",))
    kafka_broker.produce(topic, [("a", "{no json"), ("b", "two"), ("a", "three")])
    found.drain()
    assert found.rows("_kafka_key", "raw") == [("a", "three"), ("b", "two")]
    kafka_broker.produce(topic, [("b", None)])
    found.drain()
    assert found.rows("_kafka_key", "raw") == [("a", "three")]
