"""Records that are damaged, and records with headers whose names are no text."""

from __future__ import annotations

import json
import secrets
import socket
import time
from dataclasses import replace
from pathlib import Path
from struct import Struct

import pytest

from tideline.erasure.source_files import is_of_stream
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.kafka.declared import RecordField, ValueFormat
from tideline.ingest.sources.kafka.offsets import OnDataLoss
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.schema_registry import SchemaRegistry
from tideline.testing.topic_feed import TopicFeed, values

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PLAIN = {
    "type": "record",
    "name": "plain",
    "fields": [{"name": "id", "type": "long"}, {"name": "ts", "type": "long"}],
}
BATCH_HEAD, BATCH_BODY = Struct(">qiibI"), Struct(">hiqqqhii")
PRODUCE_HEAD, PRODUCE_TOPIC = Struct(">hhihchhi"), Struct(">ii")


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    name = f"damaged-{secrets.token_hex(4)}"
    kafka_broker.create_topic(name)
    return name


def test_bytes_that_a_disk_has_changed_are_no_value(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    for number in (1, 2, 3):
        kafka_broker.produce(topic, values([(number, 1, f"{number}" * 9)]))
    kafka_broker.damage(topic, b"222222222", b"222202222")
    feed = TopicFeed.of(tmp_path, kafka_broker.address, topic)
    operation = feed.plan()
    assert isinstance(operation, Operation)
    result = feed.execute(operation)
    assert (result.outcome, result.is_safe_to_retry) == (Outcome.FAILED, True)
    assert f"{topic}/0 has damaged records from offset 1 on" in result.message
    assert "kafka-delete-records" in result.message
    assert feed.rows() == []
    # A range that ends before is read.
    first = replace(feed.source, records_max=1)
    feed.source = first
    operation = feed.plan()
    assert isinstance(operation, Operation)
    assert feed.execute(operation).exit_code == 0
    kafka_broker.delete_records(topic, 2)
    feed.source = replace(first, on_data_loss=OnDataLoss.SKIP)
    assert feed.drain() is None
    assert feed.rows("id", "v") == [(1, "1" * 9), (3, "3" * 9)]


@pytest.mark.parametrize("asks", [True, False])
def test_a_header_whose_name_is_no_text_spoils_no_other_record(
    asks: bool, kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    fields = (RecordField.HEADERS,) if asks else ()
    aside = Location(f"file://{tmp_path}/aside")
    feed = TopicFeed.of(
        tmp_path, kafka_broker.address, topic, record_fields=fields, set_aside=aside
    )
    feed.bad_rows_max = 1
    kafka_broker.produce(topic, values([(1, 1, "a")]), headers=[("n", None), ("n", b"1")])
    (key, value) = values([(2, 1, "b")])[0]
    produce_with_header(kafka_broker.address, topic, key.encode(), value.encode(), b"\xff")
    kafka_broker.produce(topic, values([(3, 1, "c")]))
    assert feed.drain() is None
    if not asks:
        assert feed.rows("id") == [(1,), (2,), (3,)]
        return
    names = ("id", RecordField.HEADERS.value)
    assert feed.rows(*names) == [(1, [("n", None), ("n", "1")]), (3, [])]
    (kept,) = [path for path in (tmp_path / "aside").rglob("*") if path.is_file()]
    assert is_of_stream(str(kept)), "an erasure searches it"
    found = json.loads(kept.read_text())
    assert (found["offset"], found["reason"]) == (1, "the name of a header is no text")
    assert json.loads(found["record"])["id"] == 2


def test_avro_beside_such_a_header_is_a_bad_record_too(
    kafka_broker: KafkaBroker, topic: str, registry: SchemaRegistry, tmp_path: Path
) -> None:
    number = registry.register(PLAIN)
    value = registry.encode(number, {"id": 1, "ts": 1})
    aside = Location(f"file://{tmp_path}/aside")
    feed = TopicFeed.of_avro(
        tmp_path, kafka_broker.address, topic, registry.address, set_aside=aside
    )
    assert feed.source.value is ValueFormat.AVRO
    feed.bad_rows_max = 1
    produce_with_header(kafka_broker.address, topic, b"1", value, b"\xff")
    kafka_broker.produce(topic, [(b"2", registry.encode(number, {"id": 2, "ts": 1}))])
    assert feed.drain() is None
    assert feed.rows("id") == [(2,)]


def produce_with_header(address: str, topic: str, key: bytes, value: bytes, name: bytes) -> None:
    """A record with a header of this name, as clients write it that take any bytes for one."""
    content = (
        b"\0" + varint(0) * 2 + sized(key) + sized(value) + varint(1) + sized(name) + sized(b"")
    )
    records = sized(content)
    now_ms = time.time_ns() // 1_000_000
    body = BATCH_BODY.pack(0, 0, now_ms, now_ms, -1, -1, -1, 1) + records
    batch = BATCH_HEAD.pack(0, len(body) + 9, -1, 2, crc32c(body)) + body
    head = PRODUCE_HEAD.pack(0, 3, 1, 1, b"t", -1, -1, 10_000)
    named = PRODUCE_TOPIC.pack(0, len(batch))
    one, named_topic = (1).to_bytes(4), len(topic).to_bytes(2) + topic.encode()
    request = head + one + named_topic + one + named + batch
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), 10) as broker:
        broker.sendall(len(request).to_bytes(4) + request)
        answer = broker.recv(1_000)
    # Behind the length, the request's number, and both names: no error.
    at = 4 + 4 + 4 + 2 + len(topic) + 4 + 4
    assert answer[at : at + 2] == b"\0\0"


def sized(content: bytes) -> bytes:
    return varint(len(content)) + content


def varint(number: int) -> bytes:
    """Of a number that is not negative, in zigzag."""
    left, found = number << 1, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def crc32c(content: bytes) -> int:
    found = 0xFFFFFFFF
    for byte in content:
        found ^= byte
        for _ in range(8):
            found = found >> 1 ^ (0x82F63B78 if found & 1 else 0)
    return found ^ 0xFFFFFFFF
