"""Change events in Debezium's envelope: their types, their operations, and what is none."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tideline.ingest.sources.kafka.change_events import Events, TruncateError
from tideline.ingest.sources.kafka.declared import UNAVAILABLE, RecordField
from tideline.ingest.sources.kafka.decoded import Decoded, WantedColumns
from tideline.ingest.sources.kafka.schema_registry import Registry
from tideline.testing.schema_registry import CONNECT, connect_envelope, schema_registry

TIMES = "io.debezium.time."
ID = {"field": "id", "type": "int32"}
V = {"field": "v", "type": "string", "optional": True}
PLAIN = connect_envelope([ID, V])


def event(
    operation: str | None,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    *,
    schema: Any = PLAIN,
    **source: Any,
) -> bytes:
    payload = {"before": before, "after": after, "source": source, "op": operation, "ts_ms": 1}
    whole = payload if schema is None else {"schema": schema, "payload": payload}
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()


def read(
    values: Sequence[bytes],
    *fields: RecordField,
    declared: pa.Schema | None = None,
    passes_truncates: bool = False,
) -> Decoded:
    return Events(WantedColumns(declared), fields, passes_truncates).read_json(values)


def test_rows_after_are_upserts_rows_before_are_deletes_and_messages_pass() -> None:
    found = read(
        [
            event("r", None, {"id": 1, "v": "a"}),
            event("m", None, None),
            event("u", {"id": 1, "v": None}, {"id": 1, "v": "ä"}),
            event("d", {"id": 2, "v": None}, None),
            event("c", None, {"id": 3, "v": None}),
        ]
    )
    assert found.rows.to_pylist() == [
        {"id": 1, "v": "a"},
        {"id": 1, "v": "ä"},
        {"id": 2, "v": None},
        {"id": 3, "v": None},
    ]
    assert (found.numbers, set(found.deletes)) == ([0, 2, 3, 4], {2})
    assert not found.faults


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (event("d", None, None), "REPLICA IDENTITY FULL"),
        (event("u", {"id": 1}, None), "no row after"),
        (event("x", None, {"id": 1}), "no operation of a change event: 'x'"),
        (event(None, None, {"id": 1}), "no operation of a change event: None"),
        (event("c", None, {"id": "one"}), "after/id"),
        (b'{"schema":{"type":"int32"},"payload":7}', "not that of a change event"),
        (b'{"schema":{"type":', "no JSON object"),
        (b"[1]", "need the columns"),
    ],
)
def test_what_is_no_event_is_named_and_spoils_no_other(value: bytes, reason: str) -> None:
    good = event("c", None, {"id": 1, "v": "a"})
    found = read([good, value, good])
    assert found.numbers == [0, 2]
    assert list(found.faults) == [1]
    assert reason in found.faults[1]


def test_a_truncate_stops_or_passes_by_choice() -> None:
    values = [event("c", None, {"id": 1, "v": "a"}), event("t", None, None)]
    with pytest.raises(TruncateError) as raised:
        read(values)
    assert raised.value.number == 1
    assert read(values, passes_truncates=True).numbers == [0]


def test_values_mean_what_the_names_of_their_types_say() -> None:
    def named(field: str, kind: str, name: str, **parameters: str) -> dict[str, Any]:
        found = {"field": field, "type": kind, "name": name, "optional": True}
        return found | ({"parameters": parameters} if parameters else {})

    variable = {
        "field": "free",
        "type": "struct",
        "name": "io.debezium.data.VariableScaleDecimal",
        "fields": [{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}],
    }
    schema = connect_envelope(
        [
            ID,
            named("amount", "bytes", f"{CONNECT}Decimal", scale="2"),
            variable,
            named("day", "int32", f"{TIMES}Date"),
            named("ms", "int64", f"{TIMES}Timestamp"),
            named("us", "int64", f"{TIMES}MicroTimestamp"),
            named("ns", "int64", f"{TIMES}NanoTimestamp"),
            named("zoned", "string", f"{TIMES}ZonedTimestamp"),
            named("time", "int64", f"{TIMES}MicroTime"),
            named("short", "int32", f"{TIMES}Time"),
            named("doc", "string", "io.debezium.data.Json"),
            {"field": "days", "type": "array", "items": named("", "int32", f"{TIMES}Date")},
            {"field": "octets", "type": "bytes"},
        ]
    )

    def packed(number: int) -> str:
        return base64.b64encode(number.to_bytes(4, "big", signed=True)).decode()

    row = {
        "id": 1,
        "amount": packed(-125),
        "free": {"scale": 3, "value": packed(-1500)},
        "day": 19_000,
        "ms": 1_700_000_000_123,
        "us": 1_700_000_000_123_456,
        "ns": 1_700_000_000_123_456_789,
        "zoned": "2026-11-28T12:00:00.25Z",
        "time": 45_000_000_001,
        "short": 3_600_000,
        "doc": '{"a": 1}',
        "days": [19_000, None],
        "octets": base64.b64encode(b"\0\xff").decode(),
    }
    found = read([event("c", None, row, schema=schema)])
    assert not found.faults
    moment = datetime(2023, 11, 14, 22, 13, 20, 123_456)
    assert found.rows.to_pylist() == [
        {
            "id": 1,
            "amount": Decimal("-1.25"),
            "free": "-1.500",
            "day": date(2022, 1, 8),
            "ms": moment.replace(microsecond=123_000),
            "us": moment,
            "ns": moment,
            "zoned": datetime(2026, 11, 28, 12, 0, 0, 250_000, UTC),
            "time": "12:30:00.000000001".replace("000000001", "000001"),
            "short": "01:00:00",
            "doc": '{"a": 1}',
            "days": [date(2022, 1, 8), None],
            "octets": b"\0\xff",
        }
    ]


VARIABLE = {
    "field": "a",
    "type": "struct",
    "name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}],
}
FIVE = base64.b64encode(b"\5").decode()


@pytest.mark.parametrize(
    ("fields", "value", "reason"),
    [
        # What Debezium writes for infinity is another moment in microseconds.
        (
            [{"field": "a", "type": "int64", "name": f"{TIMES}Timestamp"}],
            9_223_372_036_825_200_000,
            "out of bounds timestamp",
        ),
        (
            [{"field": "a", "type": "int64", "name": f"{TIMES}MicroTimestamp"}],
            9_223_372_036_825_200_000,
            "outside the years 1 to 9999",
        ),
        (
            [{"field": "a", "type": "int64", "name": f"{TIMES}MicroTimestamp"}],
            -62_135_596_800_000_001,
            "outside the years 1 to 9999",
        ),
        (
            [{"field": "a", "type": "int32", "name": f"{TIMES}Date"}],
            2_932_897,
            "outside the years 1 to 9999",
        ),
        # Five bytes would become as many digits as the scale says.
        ([VARIABLE], {"scale": 2_000_000_000, "value": FIVE}, "a scale of 2,000,000,000"),
        ([VARIABLE], {"scale": -2_000_000_000, "value": FIVE}, "a scale of -2,000,000,000"),
        (
            [
                {
                    "field": "a",
                    "type": "bytes",
                    "name": f"{CONNECT}Decimal",
                    "parameters": {"scale": "-2000000000"},
                }
            ],
            FIVE,
            "a scale of -2,000,000,000",
        ),
        ([V | {"field": "a"}, ID | {"field": "a"}], 1, "has the field a twice"),
    ],
)
def test_values_that_have_no_place_in_a_table_spoil_no_other(
    fields: list[dict[str, Any]], value: object, reason: str
) -> None:
    good = event("c", None, {"id": 1, "v": "a"})
    bad = event("c", None, {"id": 2, "a": value}, schema=connect_envelope([ID, *fields]))
    found = read([good, bad, good])
    assert found.numbers == [0, 2]
    assert reason in found.faults[1]


def test_the_first_and_the_last_year_are_read() -> None:
    ends = [("us", "int64", "MicroTimestamp"), ("day", "int32", "Date")]
    fields = [{"field": a, "type": kind, "name": f"{TIMES}{name}"} for a, kind, name in ends]
    schema = connect_envelope([ID, *fields])
    first = {"id": 1, "us": -62_135_596_800_000_000, "day": -719_162}
    last = {"id": 2, "us": 253_402_300_799_999_999, "day": 2_932_896}
    found = read([event("c", None, row, schema=schema) for row in (first, last)])
    assert found.rows.to_pylist() == [
        {"id": 1, "us": datetime.min, "day": date.min},
        {"id": 2, "us": datetime.max, "day": date.max},
    ]


def test_a_schema_that_changes_while_events_come_is_read_event_by_event() -> None:
    later = connect_envelope([ID, V, {"field": "n", "type": "int64", "optional": True}])
    found = read(
        [
            event("c", None, {"id": 1, "v": "a"}),
            event("c", None, {"id": 2, "v": "b", "n": 5}, schema=later),
            event("c", None, {"id": 3, "v": "c"}),
        ]
    )
    rows = dict(zip(found.numbers, found.rows.to_pylist(), strict=True))
    assert rows[1] == {"id": 2, "v": "b", "n": 5}
    assert rows[2] == {"id": 3, "v": "c", "n": None}


def test_without_schemas_the_declared_columns_say_what_values_are() -> None:
    declared = pa.schema(
        {"id": pa.int64(), "day": pa.date32(), "at": pa.timestamp("us", "UTC"), "x": pa.float64()}
    )
    row = {"id": 1, "day": 19_000, "at": "2026-11-28T12:00:00Z", "x": 1.5}
    found = read(
        [
            event("c", None, row, schema=None),
            event("u", None, row | {"at": 1_700_000_000_123}, schema=None),
            event("d", {"id": 1}, None, schema=None),
        ],
        declared=declared,
    )
    assert found.rows.to_pylist()[0] == {
        "id": 1,
        "day": date(2022, 1, 8),
        "at": datetime(2026, 11, 28, 12, tzinfo=UTC),
        "x": 1.5,
    }
    # Milliseconds or microseconds: nothing says.
    assert "after/at" in found.faults[1]
    assert (found.numbers, set(found.deletes)) == ([0, 2], {1})
    decimals = pa.schema({"id": pa.int64(), "amount": pa.decimal128(10, 2)})
    refused = read([event("c", None, {"id": 1, "amount": "1234"}, schema=None)], declared=decimals)
    assert "decimals need the schemas" in refused.faults[0]


def test_the_place_of_an_event_in_its_source_can_be_columns() -> None:
    values = [
        event("c", None, {"id": 1}, lsn=77, txId=5, ts_ms=9),
        event("c", None, {"id": 2}, file="mysql-bin.000012", pos=345, row=1, ts_ms=10),
    ]
    fields = [item for item in RecordField if item.is_of_event]
    first, second = read(values, *fields).rows.to_pylist()
    assert (first["_event_lsn"], first["_event_tx_id"], first["_event_origin_ts_ms"]) == (77, 5, 9)
    assert (first["_change_operation_type"], first["_event_seq"]) == ("c", None)
    assert second["_event_seq"] == "0000000012.00000000000000000345.0000000001"
    assert second["_event_lsn"] is None


def test_payloads_are_cut_out_of_values_only_where_that_is_the_same() -> None:
    tricky = connect_envelope([ID, V | {"doc": 'a ,"payload": inside'}])
    spaced = json.dumps(json.loads(event("c", None, {"id": 2, "v": "b"}))).encode()
    ends_otherwise = event("c", None, {"id": 3, "v": "c"})[:-1] + b',"more":1}'
    found = read(
        [
            event("c", None, {"id": 1, "v": ',"payload":'}, schema=tricky),
            spaced,
            ends_otherwise,
            event("c", None, {"id": 4, "v": "d"}),
            b'{"schema":null,"payload":null}',
        ]
    )
    rows = dict(zip(found.numbers, found.rows.to_pylist(), strict=True))
    assert {number: row["id"] for number, row in rows.items()} == {0: 1, 1: 2, 2: 3, 3: 4}
    assert rows[0]["v"] == ',"payload":'
    assert not found.faults


def test_events_in_avro_mean_what_their_connect_names_say() -> None:
    def connect(kind: str, name: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "connect.version": 1, "connect.name": name, **more}

    decimal = connect("bytes", f"{CONNECT}Decimal", logicalType="decimal", precision=64, scale=2)
    value = {
        "type": "record",
        "name": "Value",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "amount", "type": ["null", decimal]},
            {"name": "at", "type": ["null", connect("long", f"{TIMES}MicroTimestamp")]},
            {"name": "day", "type": ["null", connect("int", f"{TIMES}Date")]},
        ],
    }
    envelope = {
        "type": "record",
        "name": "Envelope",
        "namespace": "server.public.orders",
        "fields": [
            {"name": "before", "type": ["null", value]},
            {"name": "after", "type": ["null", "Value"]},
            {
                "name": "source",
                "type": {
                    "type": "record",
                    "name": "Source",
                    "fields": [{"name": "lsn", "type": ["null", "long"]}],
                },
            },
            {"name": "op", "type": "string"},
        ],
    }
    row = {"id": 1, "amount": Decimal("-1.25"), "at": 1_700_000_000_123_456, "day": 19_000}
    with schema_registry() as registry:
        number = registry.register(envelope)
        other = registry.register({"type": "record", "name": "R", "fields": []})
        created = {"before": None, "after": row, "source": {"lsn": 7}, "op": "c"}
        deleted = {"before": row, "after": None, "source": {"lsn": 8}, "op": "d"}
        values = [
            registry.encode(number, created),
            registry.encode(number, deleted),
            registry.encode(other, {}),
        ]
        events = Events(WantedColumns(), (RecordField.LSN,))
        found = events.read_avro(values, Registry(registry.address))
    assert found.rows.to_pylist()[0] == {
        "id": 1,
        "amount": Decimal("-1.25"),
        "at": datetime(2023, 11, 14, 22, 13, 20, 123_456),
        "day": date(2022, 1, 8),
        "_event_lsn": 7,
    }
    assert (found.numbers, set(found.deletes)) == ([0, 1], {1})
    assert "not that of a change event" in found.faults[2]


def test_a_list_that_was_not_available_is_no_row_for_no_table_keeps_it() -> None:
    texts = {"field": "t", "type": "array", "optional": True, "items": {"type": "string"}}
    schema = connect_envelope([ID, texts])
    lacks = event("u", None, {"id": 1, "t": [UNAVAILABLE]}, schema=schema)
    found = Events(WantedColumns(None), fills=True).read_json([lacks])
    assert found.numbers == []
    assert "column t" in found.faults[0] and "tables do not keep lists" in found.faults[0]
