"""Avro values by the schemas of a registry, and registries that answer otherwise."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.ingest.sources.kafka import registry_requests
from tideline.ingest.sources.kafka.avro_rows import read_avro_keys, read_avro_values
from tideline.ingest.sources.kafka.decoded import WantedColumns
from tideline.ingest.sources.kafka.schema_registry import Registry
from tideline.testing.schema_registry import SchemaRegistry


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    found = [{"name": name, "type": kind} for name, kind in fields]
    return {"type": "record", "name": "R", "fields": found}


PLAIN = record(("id", "long"), ("v", ["null", "string"]))


def test_columns_are_those_of_the_schemas_by_which_values_were_written(
    registry: SchemaRegistry,
) -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2}
    later = record(
        ("id", "long"),
        ("v", ["null", "string"]),
        ("amount", decimal),
        ("day", {"type": "int", "logicalType": "date"}),
        ("at", {"type": "long", "logicalType": "timestamp-micros"}),
        ("kind", {"type": "enum", "name": "K", "symbols": ["A", "B"]}),
        ("tags", {"type": "array", "items": "string"}),
        ("more", {"type": "map", "values": "int"}),
    )
    first, second = registry.register(PLAIN), registry.register(later)
    row = {
        "id": 2,
        "v": None,
        "amount": Decimal("-1.25"),
        "day": 19_000,
        "at": 1_700_000_000_123_456,
        "kind": "B",
        "tags": ["x"],
        "more": {"a": 1},
    }
    values = [
        registry.encode(first, {"id": 1, "v": "a"}),
        registry.encode(second, row),
        registry.encode(first, {"id": 3, "v": "c"}),
    ]
    found = read_avro_values(values, Registry(registry.address), WantedColumns())
    assert not found.faults
    rows = dict(zip(found.numbers, found.rows.to_pylist(), strict=True))
    assert (rows[0]["id"], rows[0]["v"], rows[0]["amount"]) == (1, "a", None)
    assert (rows[2]["id"], rows[2]["v"]) == (3, "c")
    assert rows[1]["amount"] == Decimal("-1.25")
    assert (rows[1]["kind"], rows[1]["tags"], rows[1]["more"]) == ("B", ["x"], [("a", 1)])
    assert found.rows.schema.field("day").type == pa.date32()
    assert found.rows.schema.field("at").type == pa.timestamp("us", "UTC")


def test_declared_columns_are_cast_and_others_left_out(registry: SchemaRegistry) -> None:
    number = registry.register(record(("id", "int"), ("n", "string"), ("more", "int")))
    values = [
        registry.encode(number, {"id": 1, "n": "17", "more": 1}),
        registry.encode(number, {"id": 2, "n": "x", "more": 1}),
    ]
    declared = pa.schema({"id": pa.int64(), "n": pa.int64(), "absent": pa.string()})
    found = read_avro_values(values, Registry(registry.address), WantedColumns(declared))
    assert found.rows.to_pylist() == [{"id": 1, "n": 17, "absent": None}]
    assert found.numbers == [0]
    assert "column n" in found.faults[1]


def test_a_value_that_does_not_end_where_its_bytes_do_spoils_no_other(
    registry: SchemaRegistry,
) -> None:
    number = registry.register(PLAIN)
    good = registry.encode(number, {"id": 1, "v": "a"})
    # One byte too many here and one too few there would fit as a whole.
    values = [good, good + b"\x02", good[:-1], b"", b"\0\0", b"{}", good]
    found = read_avro_values(values, Registry(registry.address), WantedColumns())
    assert found.numbers == [0, 6]
    assert found.rows.to_pylist() == [{"id": 1, "v": "a"}] * 2
    assert set(found.faults) == {1, 2, 3, 4, 5}
    assert "number or the GUID of a schema" in found.faults[5]


def test_a_key_is_a_record_or_the_value_of_the_only_column(registry: SchemaRegistry) -> None:
    keys = pa.schema({"id": pa.int64()})
    as_record, alone = registry.register(record(("id", "int"))), registry.register("long")
    values = [registry.encode(as_record, {"id": 5}), registry.encode(alone, 6)]
    found = read_avro_keys(values, Registry(registry.address), WantedColumns(keys))
    assert sorted(row["id"] for row in found.rows.to_pylist()) == [5, 6]
    assert not found.faults


def test_an_array_of_nothing_makes_no_memory_of_a_few_bytes(registry: SchemaRegistry) -> None:
    number = registry.register(record(("a", {"type": "array", "items": "null"})))
    bomb = b"\0" + number.to_bytes(4, "big") + b"\xfe\xff\xff\xff\x0f\0"
    found = read_avro_values([bomb], Registry(registry.address), WantedColumns())
    assert not found.numbers
    assert "no bytes" in found.faults[0]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((404, b'{"error_code": 40403}'), "is it the one of this topic"),
        ((200, b'{"schema": "{}", "schemaType": "PROTOBUF"}'), "is no Avro, but PROTOBUF"),
        ((200, b'{"schema": "{}", "references": [{"name": "x"}]}'), "refers to others"),
        ((200, b'{"schema": "no schema"}'), "cannot be read"),
        ((200, b'{"schema": "' + b" " * (5 << 20) + b'"}'), "more than"),
    ],
)
def test_a_schema_that_is_none_is_the_fault_of_its_values_alone(
    registry: SchemaRegistry, answer: tuple[int, bytes], reason: str
) -> None:
    good = registry.register(PLAIN)
    registry.answers[7] = answer
    values = [b"\0\0\0\0\x07abc", registry.encode(good, {"id": 1, "v": "a"})]
    found = read_avro_values(values, Registry(registry.address), WantedColumns())
    assert found.numbers == [1]
    assert reason in found.faults[0]


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ((401, b""), ConfigError, "refuses this client: 401"),
        ((302, b"http://127.0.0.1:1/schemas/ids/1"), StorageUnavailableError, "answers 302: give"),
        ((503, b""), StorageUnavailableError, "answers 503"),
        ((200, b"<html>"), ConfigError, "is no schema registry"),
        ((200, b"[]"), ConfigError, "is no schema registry"),
        ((200, b'{"schema": null}'), ConfigError, "is no schema registry"),
        # A proxy that does not find the registry says nothing about its schemas.
        ((404, b"<html>"), StorageUnavailableError, "is schemaRegistry its address"),
        ((404, b'{"error_code": 404}'), StorageUnavailableError, "is schemaRegistry its address"),
        ((404, b"[]"), StorageUnavailableError, "is schemaRegistry its address"),
    ],
)
def test_a_registry_that_answers_otherwise_is_named(
    registry: SchemaRegistry, answer: tuple[int, bytes], error: type[Exception], words: str
) -> None:
    registry.answers[1] = answer
    with pytest.raises(error, match=words):
        read_avro_values([b"\0\0\0\0\x01abc"], Registry(registry.address), WantedColumns())


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"],
    ids=["headers", "body"],
)
def test_an_answer_that_never_ends_has_its_time_as_a_whole(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_requests, "_ANSWER_S", 0.3)
    ended = threading.Event()
    with answering(answer, ended) as address:
        with pytest.raises(StorageUnavailableError, match="takes more than"):
            read_avro_values([b"\0\0\0\0\x01abc"], Registry(address), WantedColumns())
        ended.set()


def test_an_answer_that_is_cut_off_is_asked_for_again() -> None:
    head = b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"schema": '
    ended = threading.Event()
    ended.set()
    with (
        answering(head, ended) as address,
        pytest.raises(StorageUnavailableError, match="was cut off"),
    ):
        read_avro_values([b"\0\0\0\0\x01abc"], Registry(address), WantedColumns())


@contextlib.contextmanager
def answering(answer: bytes, ended: threading.Event) -> Iterator[str]:
    """The address of a server that trickles after this answer, until it ended."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        trickling = threading.Thread(target=trickle, args=(listening, answer, ended))
        trickling.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        trickling.join()


def trickle(listening: socket.socket, answer: bytes, ended: threading.Event) -> None:
    """Answer one request, and a byte more every moment until it ended."""
    connection, _ = listening.accept()
    with connection, contextlib.suppress(OSError):
        connection.recv(10_000)
        connection.sendall(answer)
        while not ended.wait(0.05):
            connection.sendall(b"a")


@pytest.mark.parametrize("address", ["file:///etc", "ftp://127.0.0.1", "nothing"])
def test_only_http_is_an_address(address: str) -> None:
    with pytest.raises(ConfigError, match="address of http"):
        read_avro_values([b"\0\0\0\0\x01abc"], Registry(address), WantedColumns())


def test_a_registry_that_is_away_is_a_reason_to_try_again() -> None:
    with pytest.raises(StorageUnavailableError, match="does not answer"):
        read_avro_values([b"\0\0\0\0\x01abc"], Registry("http://127.0.0.1:1"), WantedColumns())


def test_credentials_are_the_environments_and_a_schema_is_fetched_once(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEMA_REGISTRY_USERNAME", "user")
    monkeypatch.setenv("SCHEMA_REGISTRY_PASSWORD", "hidden")
    number = registry.register(PLAIN)
    value = registry.encode(number, {"id": 1, "v": "a"})
    for _ in range(3):
        read_avro_values([value], Registry(registry.address), WantedColumns())
    assert registry.authorizations == ["Basic dXNlcjpoaWRkZW4="]
