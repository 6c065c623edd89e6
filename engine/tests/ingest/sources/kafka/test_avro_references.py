"""Avro schemas whose types are defined by other subjects of the registry."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tideline.ingest.sources.kafka.avro_references import Definitions
from tideline.ingest.sources.kafka.avro_rows import read_avro_keys, read_avro_values
from tideline.ingest.sources.kafka.change_events import Events
from tideline.ingest.sources.kafka.decoded import Decoded, WantedColumns
from tideline.ingest.sources.kafka.schema_registry import Registry
from tideline.testing.schema_registry import SchemaRegistry

KIND = {"type": "enum", "name": "Kind", "namespace": "shop.base", "symbols": ["A", "B"]}
MONEY = {
    "type": "record",
    "name": "shop.base.Money",
    "fields": [
        {"name": "kind", "type": "Kind"},
        {"name": "cents", "type": "long"},
        {"name": "on", "type": {"type": "int", "logicalType": "date"}},
    ],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "paid", "type": "shop.base.Money"},
        {"name": "parts", "type": {"type": "array", "items": "shop.base.Money"}},
        {"name": "kind", "type": ["null", "shop.base.Kind"]},
    ],
}
PAID = {"kind": "A", "cents": 5, "on": 19_000}


def to(subject: str, version: int = 1) -> dict[str, Any]:
    return {"name": subject, "subject": subject, "version": version}


def whole(*others: Any, schema: Any) -> Any:
    definitions = Definitions()
    for other in others:
        definitions.add(other)
    return definitions.whole(schema)


def orders(registry: SchemaRegistry) -> tuple[int, Any]:
    """The number of the schema, and what its values are written by."""
    registry.refer("kinds", KIND)
    registry.refer("pay/money", MONEY, to("kinds"))
    number = registry.refer("orders", ORDER, to("pay/money"), to("kinds"))
    return number, whole(KIND, MONEY, schema=ORDER)


def read(registry: SchemaRegistry, *values: bytes) -> Decoded:
    return read_avro_values(values, Registry(registry.address), WantedColumns())


def fault(registry: SchemaRegistry, number: int) -> str:
    return read(registry, b"\0" + number.to_bytes(4) + b"abc").faults[0]


def test_types_of_other_subjects_are_read_each_fetched_once(registry: SchemaRegistry) -> None:
    number, written = orders(registry)
    row = {"id": 1, "paid": PAID, "parts": [PAID, {**PAID, "cents": 6}], "kind": "B"}
    for _ in range(2):
        found = read(registry, registry.encode(number, row, written))
        assert not found.faults
        (read_row,) = found.rows.to_pylist()
        assert (read_row["id"], read_row["kind"]) == (1, "B")
        assert [part["cents"] for part in (read_row["paid"], *read_row["parts"])] == [5, 5, 6]
        assert str(read_row["paid"]["on"]) == "2022-01-08"
    assert registry.asked == [
        f"/schemas/ids/{number}",
        "/subjects/pay%2Fmoney/versions/1?deleted=true",
        "/subjects/kinds/versions/1?deleted=true",
    ]


def test_the_version_that_is_named_counts_not_the_newest(registry: SchemaRegistry) -> None:
    registry.refer("kinds", KIND)
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "id", "type": "long"}, {"name": "k", "type": "shop.base.Kind"}],
    }
    number = registry.refer("r", schema, to("kinds"))
    later = {**KIND, "symbols": ["Z", "A", "B"]}
    registry.refer("kinds", later)
    newer = registry.refer("r", schema, to("kinds", 2))
    values = [
        registry.encode(number, {"id": 1, "k": "A"}, whole(KIND, schema=schema)),
        registry.encode(newer, {"id": 2, "k": "A"}, whole(later, schema=schema)),
    ]
    assert [row["k"] for row in read(registry, *values).rows.to_pylist()] == ["A", "A"]


def test_change_events_and_keys_have_types_of_other_subjects(registry: SchemaRegistry) -> None:
    """As one writes them that keeps the row of a table in a subject of its own."""
    decimal = {
        "type": "bytes",
        "connect.name": "org.apache.kafka.connect.data.Decimal",
        "logicalType": "decimal",
        "precision": 64,
        "scale": 2,
    }
    day = {"type": "int", "connect.name": "io.debezium.time.Date"}
    row = {
        "type": "record",
        "name": "shop.orders.Value",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "amount", "type": ["null", decimal]},
            {"name": "day", "type": ["null", day]},
        ],
    }
    envelope = {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.orders",
        "fields": [
            {"name": "before", "type": ["null", "Value"]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "source", "type": {"type": "record", "name": "S", "fields": []}},
            {"name": "op", "type": "string"},
        ],
    }
    registry.refer("row", row)
    number = registry.refer("orders-value", envelope, to("row"))
    after = {"id": 7, "amount": b"\x00\xfa", "day": 19_000}
    plain = {**row, "fields": [row["fields"][0], {"name": "amount", "type": ["null", "bytes"]},
                               {"name": "day", "type": ["null", "int"]}]}  # fmt: skip
    value = {"before": None, "after": after, "source": {}, "op": "c"}
    written = registry.encode(number, value, whole(plain, schema=envelope))
    found = Events(WantedColumns()).read_avro([written], Registry(registry.address))
    assert not found.faults
    (event,) = found.rows.to_pylist()
    assert (event["id"], str(event["amount"]), str(event["day"])) == (7, "2.50", "2022-01-08")

    named = registry.refer("orders-key", "shop.orders.Value", to("row"))
    key = registry.encode(named, after, plain)
    wanted = WantedColumns(pa.schema({"id": pa.int64()}))
    assert read_avro_keys([key], Registry(registry.address), wanted).rows.column(
        "id"
    ).to_pylist() == [7]


def test_what_is_wrong_with_references_is_the_fault_of_the_values_alone(
    registry: SchemaRegistry,
) -> None:
    number, written = orders(registry)
    good = registry.encode(number, {"id": 1, "paid": PAID, "parts": [], "kind": None}, written)
    gone = registry.refer("gone", ORDER, to("pay/money", 4))
    registry.refer("a", KIND, to("b"))
    registry.refer("b", KIND, to("c"))
    registry.refer("c", KIND, to("a"))
    circle = registry.refer("d", ORDER, to("a"))
    registry.refer("other", {**KIND, "symbols": ["A"]})
    double = registry.refer("e", ORDER, to("pay/money"), to("other"))
    registry.refer("proto", KIND)
    registry.schemas[-1]["schemaType"] = "PROTOBUF"
    foreign = registry.refer("f", ORDER, to("proto"))
    lacking = registry.refer("g", ORDER, to("kinds"))
    odd = registry.register(ORDER, references=[{"name": "x"}])
    reasons = {
        gone: "refers to others, and the schema registry has no pay/money version 4",
        circle: "these refer to each other: a version 1 -> b version 1 -> c version 1 -> a ver",
        double: "two schemas define the type shop.base.Kind otherwise",
        foreign: "proto version 1 is no Avro, but PROTOBUF",
        lacking: "unknown Avro type of column paid",
        odd: "refers to others, but not to versions of subjects",
    }
    for wanted, reason in reasons.items():
        assert reason in fault(registry, wanted)
    found = read(registry, b"\0" + gone.to_bytes(4) + b"abc", good)
    assert found.numbers == [1]


def test_references_without_end_are_given_up(registry: SchemaRegistry) -> None:
    for number in range(150):
        registry.refer(f"s{number}", {**KIND, "name": f"K{number}"}, to(f"s{number + 1}"))
    wanted = registry.refer("top", ORDER, to("s0"))
    assert "these are more than 100" in fault(registry, wanted)
    assert len(registry.asked) == 101


def test_a_chain_of_types_deeper_than_is_read_is_a_fault(registry: SchemaRegistry) -> None:
    """A definition in each place of a name, one in the other."""
    chain = [
        {"type": "record", "name": f"T{at}", "fields": [{"name": "x", "type": f"T{at + 1}"}]}
        for at in range(5_000)
    ]
    registry.refer("chain", [*chain[::-1], {**KIND, "name": "T5000", "namespace": ""}])
    wanted = registry.refer("top", "T0", to("chain"))
    assert "cannot be read" in fault(registry, wanted)


def test_names_mean_what_their_namespaces_say() -> None:
    near = {"type": "fixed", "name": "F", "namespace": "a", "size": 2}
    far = {"type": "fixed", "name": "F", "namespace": "b", "size": 3}
    odd = {"type": "fixed", "name": "a.string", "size": 4}
    schema = {
        "type": "record",
        "name": "a.R",
        "fields": [
            {"name": "x", "type": "F"},
            {"name": "y", "type": "b.F"},
            {"name": "z", "type": "string"},
            {"name": "again", "type": {"type": "map", "values": ["null", "F"]}},
        ],
    }
    found = whole(near, far, odd, schema=schema)
    types = [item["type"] for item in found["fields"]]
    assert [types[0]["size"], types[1]["size"]] == [2, 3]
    assert types[2:] == ["string", {"type": "map", "values": ["null", "F"]}]
    assert whole(schema=schema) == schema
