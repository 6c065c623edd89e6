"""Avro values with unions of several types, read as Spark does: structs of members."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.ingest.sources.kafka.avro_rows import read_avro_values
from tideline.ingest.sources.kafka.decoded import WantedColumns
from tideline.ingest.sources.kafka.schema_registry import Registry
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.schema_registry import SchemaRegistry
from tideline.testing.topic_feed import TopicFeed

PAYMENT = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": "card", "type": "string"}, {"name": "tip", "type": ["null", "double"]}],
}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    found = [{"name": name, "type": kind} for name, kind in fields]
    return {"type": "record", "name": "R", "fields": found}


def read(registry: SchemaRegistry, kind: Any, *values: Any) -> tuple[pa.DataType, list[Any]]:
    """The column of values of this type, between two others."""
    number = registry.register(record(("id", "long"), ("u", kind), ("behind", "string")))
    rows = [{"id": n, "u": value, "behind": f"b{n}"} for n, value in enumerate(values)]
    found = read_avro_values(
        [registry.encode(number, row) for row in rows], Registry(registry.address), WantedColumns()
    )
    assert not found.faults, found.faults
    assert found.rows.column("id").to_pylist() == list(range(len(values)))
    assert found.rows.column("behind").to_pylist() == [row["behind"] for row in rows]
    return found.rows.schema.field("u").type, found.rows.column("u").to_pylist()


def test_each_type_is_a_member_of_a_struct(registry: SchemaRegistry) -> None:
    kind, found = read(registry, ["null", "string", "long", "boolean"], "a", 7, None, True, "", -1)
    assert kind == pa.struct({"member0": pa.string(), "member1": pa.int64(), "member2": pa.bool_()})
    none = {"member0": None, "member1": None, "member2": None}
    assert found == [
        {**none, "member0": "a"},
        {**none, "member1": 7},
        None,
        {**none, "member2": True},
        {**none, "member0": ""},
        {**none, "member1": -1},
    ]


def test_two_numbers_are_the_wider_one(registry: SchemaRegistry) -> None:
    large = 1 << 40
    assert read(registry, ["int", "long"], 1, large, -3) == (pa.int64(), [1, large, -3])
    assert read(registry, ["long", "null", "int"], 1, None) == (pa.int64(), [1, None])
    day = {"type": "int", "logicalType": "date"}
    assert read(registry, [day, "long"], large) == (pa.int64(), [large])
    # fastavro writes a number as the first of them that takes it.
    assert read(registry, ["float", "double"], 0.5, 0.25) == (pa.float64(), [0.5, 0.25])


def test_members_are_of_any_type(registry: SchemaRegistry) -> None:
    kinds = [
        "string",
        PAYMENT,
        {"type": "array", "items": "int"},
        {"type": "map", "values": "long"},
    ]
    paid = {"card": "visa", "tip": 1.5}
    _, found = read(registry, kinds, "cash", paid, [1, 2], {"a": 1}, [], {"card": "x", "tip": None})
    given = [next(name for name, value in row.items() if value is not None) for row in found]
    assert given == ["member0", "member1", "member2", "member3", "member2", "member1"]
    assert (found[1]["member1"], found[2]["member2"]) == (paid, [1, 2])
    assert (found[3]["member3"], found[4]["member2"]) == ([("a", 1)], [])
    items = {"type": "array", "items": ["null", "int", "string"]}
    _, found = read(registry, items, [1, "a", None], [], ["b"])
    assert found[0][:2] == [{"member0": 1, "member1": None}, {"member0": None, "member1": "a"}]
    assert (found[0][2], found[1], found[2][0]["member1"]) == (None, [], "b")
    _, found = read(registry, [DECIMAL, "string"], "text")
    assert found == [{"member0": None, "member1": "text"}]


def test_many_values_of_all_members(registry: SchemaRegistry) -> None:
    chance = random.Random(3)
    choices = (lambda: chance.randrange(-(1 << 50), 1 << 50), lambda: "x" * chance.randrange(300))
    values = [chance.choice((*choices, lambda: None))() for _ in range(25_000)]
    _, found = read(registry, ["null", "long", "string"], *values)
    for value, row in zip(values, found, strict=True):
        if value is None:
            assert row is None
        else:
            assert row[f"member{int(isinstance(value, str))}"] == value
            assert sum(part is not None for part in row.values()) == 1


def test_a_value_that_is_none_spoils_no_other(registry: SchemaRegistry) -> None:
    number = registry.register(record(("id", "long"), ("u", ["string", "long"])))
    good = [registry.encode(number, {"id": n, "u": f"v{n}"}) for n in range(4)]
    # The number of a type that the union has not, a record of another type, an end too early.
    bad = [good[0][:6] + b"\x08\x02x", good[1][:7], good[2] + b"x"]
    found = read_avro_values([*good, *bad], Registry(registry.address), WantedColumns())
    assert set(found.faults) == {4, 5, 6}
    assert found.numbers == [0, 1, 2, 3]
    assert [row["u"]["member0"] for row in found.rows.to_pylist()] == ["v0", "v1", "v2", "v3"]


@pytest.mark.kafka
@pytest.mark.parametrize("kind", ["MERGE_ON_READ", "copy-on-write"])
def test_a_topic_of_them_becomes_a_table(
    kind: str, kafka_broker: KafkaBroker, registry: SchemaRegistry, tmp_path: Path
) -> None:
    topic = f"unions-{kind.lower()}"
    kafka_broker.create_topic(topic)
    number = registry.register(
        record(("id", "long"), ("ts", "long"), ("v", ["null", "string", "long", PAYMENT]))
    )
    rows: list[dict[str, Any]] = [
        {"id": 1, "ts": 1, "v": "a"},
        {"id": 2, "ts": 1, "v": 5},
        {"id": 3, "ts": 1, "v": {"card": "visa", "tip": None}},
        {"id": 1, "ts": 2, "v": None},
    ]
    encoded = ((str(row["id"]), registry.encode(number, row)) for row in rows)
    kafka_broker.produce(topic, encoded)
    feed = TopicFeed.of_avro(tmp_path, kafka_broker.address, topic, registry.address)
    feed.schema = ()
    feed = feed.into(kind)
    assert feed.drain() is None
    found = dict(feed.rows("id", "v"))
    assert found[1] is None
    assert (found[2]["member1"], found[2]["member0"]) == (5, None)
    assert found[3]["member2"] == {"card": "visa", "tip": None}
