"""Change events as other connectors write them, and types that change between records."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tideline.ingest.sources.kafka.avro_rows import read_avro_values
from tideline.ingest.sources.kafka.change_events import Events
from tideline.ingest.sources.kafka.declared import RecordField
from tideline.ingest.sources.kafka.decoded import Decoded, WantedColumns
from tideline.ingest.sources.kafka.schema_registry import Registry
from tideline.testing.schema_registry import CONNECT, SchemaRegistry, connect_envelope

TIMES = "io.debezium.time."
ID = {"field": "id", "type": "int32"}


def column(kind: str, name: str = "", **parameters: str) -> dict[str, Any]:
    found = {"field": "v", "type": kind, "name": name, "optional": True}
    return found | ({"parameters": parameters} if parameters else {})


def created(value: Any, of: dict[str, Any]) -> bytes:
    """An event that makes a row of `id` 1 with this value."""
    row = {"id": 1, "v": value}
    payload = {"before": None, "after": row, "source": {}, "op": "c"}
    whole = {"schema": connect_envelope([ID, of]), "payload": payload}
    return json.dumps(whole, separators=(",", ":")).encode()


def read(*values: bytes, stored: pa.Schema | None = None) -> Decoded:
    return Events(WantedColumns(stored=stored)).read_json(values)


def packed(number: int, length: int = 4) -> str:
    return base64.b64encode(number.to_bytes(length, "big", signed=True)).decode()


@pytest.mark.parametrize(
    ("of", "written", "value"),
    [
        (column("int64", f"{TIMES}MicroTime"), -3_600_500_000, "-01:00:00.5"),
        (column("int32", f"{TIMES}Time"), -1, "-00:00:00.001"),
        (column("int64", f"{TIMES}NanoTime"), 839 * 3600 * 10**9, "839:00:00"),
        (
            column("string", f"{TIMES}ZonedTimestamp"),
            "2020-01-01T02:00:00.123456789+02:00",
            datetime(2020, 1, 1, 0, 0, 0, 123_456, UTC),
        ),
        (column("bytes", f"{CONNECT}Decimal", scale="-3"), packed(5), Decimal(5_000)),
        (column("double"), "-Infinity", -math.inf),
        (column("float"), "Infinity", math.inf),
        (
            column("array") | {"items": {"type": "double", "optional": True}},
            ["NaN", 1.5, None],
            [pytest.approx(math.nan, nan_ok=True), 1.5, None],
        ),
    ],
)
def test_values_that_few_connectors_have(of: dict[str, Any], written: Any, value: Any) -> None:
    found = read(created(written, of), created(None, of))
    assert not found.faults
    assert found.rows.column("v").to_pylist() == [value, None]


def test_texts_are_no_numbers_where_the_column_is_text() -> None:
    text = column("string")
    found = read(created("NaN", text), created("one", column("double")))
    assert found.rows.to_pylist() == [{"id": 1, "v": "NaN"}]
    assert "a string where a number is expected" in found.faults[1]


def test_a_decimal_of_more_digits_than_its_column_is_bad_and_not_another_number(
    registry: SchemaRegistry,
) -> None:
    of = column("bytes", f"{CONNECT}Decimal", scale="0")
    found = read(created(packed(10**38, 16), of), created(packed(7), of))
    assert "does not fit" in found.faults[0]
    assert found.rows.column("v").to_pylist() == [Decimal(7)]
    # As a connector writes a column whose digits it does not know.
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
    number = registry.register(record(("id", "long"), ("v", kind)))
    plain = record(("id", "long"), ("v", "bytes"))
    values = [
        registry.encode(number, {"id": 1, "v": (10**9).to_bytes(4, "big")}, plain),
        registry.encode(number, {"id": 2, "v": b"\x07"}, plain),
    ]
    found = read_avro_values(values, Registry(registry.address), WantedColumns())
    assert "does not fit" in found.faults[0]
    assert found.rows.column("v").to_pylist() == [Decimal("0.07")]


def test_documents_as_text_are_named() -> None:
    document = {"type": "string", "name": "io.debezium.data.Json", "optional": True}
    schema = {
        "type": "struct",
        "fields": [
            document | {"field": "before"},
            document | {"field": "after"},
            {"type": "struct", "field": "source", "fields": []},
            {"type": "string", "field": "op"},
        ],
    }
    payload: dict[str, Any] = {"before": None, "after": '{"_id": 1}', "source": {}, "op": "c"}
    value = json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()
    assert "ExtractNewDocumentState" in read(value).faults[0]


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    found = [{"name": name, "type": kind} for name, kind in fields]
    return {"type": "record", "name": "R", "fields": found}


def test_a_transaction_that_is_text_is_a_reason(registry: SchemaRegistry) -> None:
    row = record(("id", "int")) | {"name": "Row"}
    source = record(("txId", ["null", "string"])) | {"name": "Source"}
    of = record(("before", ["null", row]), ("after", ["null", "Row"]), ("source", source))
    of["fields"].append({"name": "op", "type": "string"})
    number = registry.register(of)
    value = {"before": None, "after": {"id": 1}, "source": {"txId": "6.28.807"}, "op": "c"}
    values = [registry.encode(number, value)]
    found = Events(WantedColumns(), (RecordField.TRANSACTION,)).read_avro(
        values, Registry(registry.address)
    )
    assert "the source of the event, for _event_tx_id" in found.faults[0]
    assert Events(WantedColumns()).read_avro(values, Registry(registry.address)).rows.num_rows == 1


INT, TEXT, DAY = column("int32"), column("string"), column("int32", f"{TIMES}Date")


def test_of_types_that_do_not_go_together_the_first_counts() -> None:
    values = [created(1, INT), created("2", TEXT), created("x", TEXT), created(3, INT)]
    found = read(*values)
    rows = dict(zip(found.numbers, found.rows.column("v").to_pylist(), strict=True))
    assert rows == {0: 1, 1: 2, 3: 3}
    assert list(found.faults) == [2]
    assert "column v" in found.faults[2]
    # As rows come that are read behind these.
    again = read(*values[1:], stored=pa.schema({"id": pa.int32(), "v": pa.int32()}))
    assert again.rows.column("v").to_pylist() == [2, 3]
    assert found.rows.schema.field("v").type == again.rows.schema.field("v").type
    found = read(created(19_000, DAY), created(1, INT))
    assert found.rows.num_rows == 2


def test_of_types_of_avro_that_do_not_go_together_the_first_counts(
    registry: SchemaRegistry,
) -> None:
    first = registry.register(record(("id", "long"), ("v", "string"), ("n", "int")))
    later = registry.register(record(("id", "long"), ("v", "long"), ("n", "long")))
    values = [
        registry.encode(first, {"id": 1, "v": "a", "n": 1}),
        registry.encode(later, {"id": 2, "v": 7, "n": 1 << 40}),
    ]
    found = read_avro_values(values, Registry(registry.address), WantedColumns())
    assert not found.faults
    assert found.rows.to_pylist() == [
        {"id": 1, "v": "a", "n": 1},
        {"id": 2, "v": "7", "n": 1 << 40},
    ]
