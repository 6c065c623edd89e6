"""Topics of Maxwell and Canal, with the changes of many tables; on a real broker."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tideline.ingest.column_type import Column, ColumnType
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation
from tideline.ingest.sources.kafka.declared import RecordField, ValueFormat
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.planted_differences import verified
from tideline.testing.topic_feed import TopicFeed

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic() -> str:
    return f"binlog-{secrets.token_hex(4)}"


def feed(
    folder: Path, broker: KafkaBroker, topic: str, value: ValueFormat, **more: Any
) -> TopicFeed:
    broker.create_topic(topic)
    return TopicFeed.of(
        folder, broker.address, topic, value=value, table="shop.orders", schema=(), **more
    )


def row(number: int, text: str, ts: int = 1) -> dict[str, Any]:
    return {"id": number, "ts": ts, "v": text}


def maxwell(kind: str, data: Any, old: Any = None, offset: int = 4, **more: Any) -> tuple[str, str]:
    head = {"database": "shop", "table": "orders", "type": kind, "ts": 1_477_053_217, "xid": 5}
    value = {**head, "position": f"bin.000001:{offset}", "data": data, "old": old, **more}
    return json.dumps({"database": "shop", "table": "orders"}), json.dumps(value)


def canal(kind: str, *rows: dict[str, Any], old: Any = None, **more: Any) -> tuple[None, str]:
    data = [{name: str(value) for name, value in row.items()} for row in rows] or None
    head = {"database": "shop", "table": "orders", "es": 1_589_373_560_000, "isDdl": False}
    return None, json.dumps({**head, "type": kind, "data": data, "old": old, **more})


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_table_has_the_rows_that_maxwell_says(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path, table_type: str
) -> None:
    found = replace(
        feed(tmp_path, kafka_broker, topic, ValueFormat.MAXWELL_JSON), table_type=table_type
    )
    copied = [maxwell("bootstrap-insert", row(number, f"a{number}")) for number in range(4)]
    kafka_broker.produce(topic, [maxwell("bootstrap-start", {}), *copied])
    assert found.drain() is None
    kafka_broker.produce(
        topic,
        [
            maxwell("insert", {"id": "another table's", "v": []}, table="customers"),
            maxwell("table-alter", None, {"columns": []}, sql="alter table orders add a int"),
            maxwell("update", row(0, "b0", 2), {"v": "a0", "ts": 1}),
            maxwell("update", row(9, "a1", 2), {"id": 1, "ts": 1}),
            maxwell("delete", row(2, "a2")),
            maxwell("insert", row(2, "again", 2)),
            maxwell("delete", row(3, "a3")),
        ],
    )
    assert found.drain() is None
    assert found.rows() == [(0, "b0"), (2, "again"), (9, "a1")]


def test_the_position_in_the_binlog_orders_changes(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    declared = feed(
        tmp_path,
        kafka_broker,
        topic,
        ValueFormat.MAXWELL_JSON,
        record_fields=(RecordField.SEQUENCE,),
    )
    column = Column("_event_seq", ColumnType.parse("string"))
    found = replace(declared, ordering=("_event_seq",), schema=(*declared.schema, column))
    kafka_broker.produce(topic, [maxwell("insert", row(1, "new"), offset=900)])
    found.drain()
    kafka_broker.produce(
        topic,
        [
            maxwell("bootstrap-insert", row(1, "copied later"), offset=200),
            maxwell("insert", row(2, "b"), offset=910),
            maxwell("update", row(3, "b"), {"id": 2}, offset=920),
            maxwell("insert", row(2, "older"), offset=915),
        ],
    )
    found.drain()
    assert found.rows() == [(1, "new"), (3, "b")]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_table_has_the_rows_that_canal_says(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path, table_type: str
) -> None:
    """One value has all rows of a statement, one of them bad."""
    aside = Location(f"file://{tmp_path}/aside")
    declared = feed(tmp_path, kafka_broker, topic, ValueFormat.CANAL_JSON, set_aside=aside)
    found = replace(declared, table_type=table_type, bad_rows_max=5)
    kafka_broker.produce(topic, [canal("INSERT", *(row(number, "a") for number in range(5)))])
    assert found.drain() is None
    kafka_broker.produce(
        topic,
        [
            canal("ALTER", isDdl=True, sql="alter table orders add a int"),
            canal("INSERT", {"id": "x", "v": "another table's"}, table="customers"),
            canal("UPDATE", row(2, "b"), row(1, "b"), old=[{"id": "1"}, {"id": "0"}]),
            canal("DELETE", row(3, "a"), row(4, "a")),
            canal("INSERT", row(7, "c"), {"ts": 1}, {"ts": 2}),
            canal("INSERT", row(8, "d")),
        ],
    )
    assert found.drain() is None
    assert found.rows() == [(1, "b"), (2, "b"), (7, "c"), (8, "d")]
    (kept,) = (tmp_path / "aside").rglob("*.jsonl")
    (bad,) = [json.loads(line) for line in kept.read_text().splitlines()]
    assert (bad["offset"], bad["column"], bad["reason"]) == (5, "id", "there is no value")
    compared = verified(found.target, found.source).found
    assert (compared.is_equal, compared.equal) == (True, 4)


def test_a_truncate_of_the_table_is_named_by_its_offset(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    found = feed(tmp_path, kafka_broker, topic, ValueFormat.CANAL_JSON)
    truncate = canal("TRUNCATE", isDdl=True, sql="truncate table orders")
    kafka_broker.produce(topic, [canal("INSERT", row(1, "a")), truncate])
    operation = found.plan()
    assert isinstance(operation, Operation)
    result = found.execute(operation)
    assert "/0 has at offset 1 that the source table was emptied" in result.message
    found.source = replace(found.source, on_truncate=OnTruncate.IGNORE)
    assert found.drain() is None
    assert found.rows() == [(1, "a")]
