"""Schemas that records name in headers: numbers, GUIDs, and what is neither."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from tideline.ingest.location import Location
from tideline.ingest.sources.kafka.avro_rows import read_avro_values
from tideline.ingest.sources.kafka.declared import RecordField
from tideline.ingest.sources.kafka.decoded import NoRowError, WantedColumns
from tideline.ingest.sources.kafka.schema_id import IdHeader
from tideline.ingest.sources.kafka.schema_registry import Registry
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.schema_registry import SchemaRegistry
from tideline.testing.topic_feed import TopicFeed

ROW = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "ts", "type": "long"},
        {"name": "v", "type": ["null", "string"]},
    ],
}


def row(number: int, text: str) -> dict[str, Any]:
    return {"id": number, "ts": 1, "v": text}


def by_guid(registry: SchemaRegistry, number: int) -> bytes:
    return b"\1" + registry.guid(number).bytes


def test_a_number_and_a_guid_stand_for_one_schema(registry: SchemaRegistry) -> None:
    number = registry.register(ROW)
    datum = registry.datum(number, row(1, "a"))
    values = [b"\0" + number.to_bytes(4) + datum, by_guid(registry, number) + datum]
    found = read_avro_values(values, Registry(registry.address), WantedColumns())
    assert found.rows.to_pylist() == [row(1, "a")] * 2
    assert registry.asked == [f"/schemas/ids/{number}", f"/schemas/guids/{registry.guid(number)}"]


def test_a_guid_that_the_registry_does_not_know_is_the_fault_of_its_values(
    registry: SchemaRegistry,
) -> None:
    number = registry.register(ROW)
    good = by_guid(registry, number) + registry.datum(number, row(1, "a"))
    values = [by_guid(registry, 9) + b"abc", good, by_guid(registry, 1)[:9], b"\2abc"]
    found = read_avro_values(values, Registry(registry.address), WantedColumns())
    assert found.numbers == [1]
    assert f"no schema {registry.guid(9)}: is it the one" in found.faults[0]
    assert "number or the GUID" in found.faults[2] and "number or the GUID" in found.faults[3]


def test_a_header_counts_before_the_value_and_none_is_guessed_at() -> None:
    number, guid = b"\0\0\0\0\x07", b"\1" + bytes(16)
    value = IdHeader.VALUE
    assert value.before(b"abc", ()) == b"abc"
    assert value.before(b"abc", (("__value_schema_id", None), ("other", b"\0"))) == b"abc"
    assert value.before(b"abc", (("__key_schema_id", guid),)) == b"abc"
    assert value.before(b"\0bc", (("__value_schema_id", guid),)) == guid + b"\0bc"
    assert IdHeader.KEY.before(b"k", (("__key_schema_id", number),)) == number + b"k"
    twice = (("__value_schema_id", guid), ("__value_schema_id", guid))
    assert value.before(b"abc", twice) == guid + b"abc"
    with pytest.raises(NoRowError, match="several headers __value_schema_id"):
        value.before(b"abc", (*twice, ("__value_schema_id", number)))
    for wrong in (b"\0\0\0\0", b"\2" + bytes(16), b"\1" + bytes(4), b"7", guid + b"\0"):
        with pytest.raises(NoRowError, match="neither a number nor a GUID"):
            value.before(b"abc", (("__value_schema_id", wrong),))


@pytest.mark.kafka
@pytest.mark.parametrize("fields", [(), (RecordField.HEADERS,)])
def test_values_and_tombstones_of_a_topic_have_their_schemas_in_headers(
    kafka_broker: KafkaBroker,
    tmp_path: Path,
    registry: SchemaRegistry,
    fields: tuple[RecordField, ...],
) -> None:
    topic = f"headers-{secrets.token_hex(4)}"
    kafka_broker.create_topic(topic)
    number, key = registry.register(ROW), registry.register("long")
    found = TopicFeed.of_avro(
        tmp_path,
        kafka_broker.address,
        topic,
        registry.address,
        record_fields=fields,
        set_aside=Location(f"file://{tmp_path}/aside"),
    )
    found.bad_rows_max = 5
    of_value = ("__value_schema_id", by_guid(registry, number))
    of_key = ("__key_schema_id", by_guid(registry, key))
    keys = [registry.datum(key, at) for at in range(4)]
    records = [(keys[at], registry.datum(number, row(at, f"a{at}"))) for at in range(3)]
    kafka_broker.produce(topic, records, headers=[of_key, of_value])
    kafka_broker.produce(topic, [(None, registry.encode(number, row(3, "before the value")))])
    kafka_broker.produce(topic, [(keys[1], None)], headers=[of_key])
    wrong = ("__value_schema_id", b"7")
    kafka_broker.produce(topic, [records[0]], headers=[wrong])
    kafka_broker.produce(topic, [(keys[2], None)], headers=[("__key_schema_id", b"\1")])
    assert found.drain() is None
    assert found.rows() == [(0, "a0"), (2, "a2"), (3, "before the value")]
    (kept,) = (tmp_path / "aside").rglob("*.jsonl")
    aside = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [(bad["offset"], bad["reason"].partition(" has ")[0]) for bad in aside] == [
        (5, "the header __value_schema_id"),
        (6, "the header __key_schema_id"),
    ]
