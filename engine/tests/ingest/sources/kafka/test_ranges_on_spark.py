"""What Spark's executors read of topics is what one process reads of them, row for row."""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tideline.hudi.table.table_config import PARTIAL_UPDATE_MODE, UNAVAILABLE_PROPERTY
from tideline.ingest.column_type import Column, ColumnType
from tideline.ingest.execute.table_access import open_table
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.operation.result import OperationResult
from tideline.ingest.sources.kafka import on_spark
from tideline.ingest.sources.kafka.declared import UNAVAILABLE, RecordField, ValueFormat
from tideline.ingest.sources.kafka.position import KafkaPosition
from tideline.ingest.sources.kafka.read_engine import ReadEngine
from tideline.ingest.sources.kafka.records import KafkaRange
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.schema_registry import SchemaRegistry, connect_envelope
from tideline.testing.topic_feed import SCHEMA, TopicFeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

PARTITIONS = 3
KEYS = 60
RECORDS = 300
FIRST = 100
META = "_hoodie"
ROW: list[Mapping[str, Any]] = [
    {"field": "id", "type": "int64"},
    {"field": "ts", "type": "int64", "optional": True},
    {"field": "v", "type": "string", "optional": True},
]
AVRO_FIELDS: list[dict[str, Any]] = [
    {"name": name, "type": kind} for name, kind in (("id", "long"), ("ts", "long"), ("v", "string"))
]
LATER = {"name": "later", "type": ["null", "double"], "default": None}
ENVELOPE = connect_envelope(ROW)
FILLING = {PARTIAL_UPDATE_MODE: "FILL_UNAVAILABLE", UNAVAILABLE_PROPERTY: UNAVAILABLE}
OFFSETS = tuple(
    Column(item.value, ColumnType.parse(kind))
    for item, kind in ((RecordField.PARTITION, "int"), (RecordField.OFFSET, "long"))
)


@dataclass
class Writer:
    """Random records of few keys, those of a key in one partition."""

    broker: KafkaBroker
    topic: str
    rng: random.Random
    registry: SchemaRegistry | None = None
    schemas: dict[bool, int] = field(default_factory=dict)

    def produce(self, value: ValueFormat, count: int = RECORDS) -> None:
        producer = self.broker.producer(**{"enable.idempotence": True})
        for _ in range(count):
            number = self.rng.randrange(KEYS)
            row = {"id": number, "ts": self.rng.randrange(8), "v": f"v{self.rng.random():.9f}"}
            content = self._value(value, row)
            headers: list[tuple[str, str | bytes | None]] = []
            if value is ValueFormat.AVRO and content and self.rng.random() < 0.5:
                headers, content = [("__value_schema_id", content[:5])], content[5:]
            producer.produce(
                self.topic,
                key=str(number),
                value=content,
                partition=number % PARTITIONS,
                headers=headers,
            )
            producer.poll(0)
        assert producer.flush(30) == 0

    def _value(self, value: ValueFormat, row: dict[str, Any]) -> bytes | None:
        dice = self.rng.random()
        if value is ValueFormat.CANAL_JSON:
            return self._changes(row, dice)
        if value.is_change_event:
            return self._change(row, dice)
        if dice < 0.15:
            return None
        if value is ValueFormat.JSON:
            return json.dumps(row).encode() if dice < 0.97 else b'{"id": "no number"}'
        assert self.registry is not None
        has_later = dice < 0.4
        if has_later not in self.schemas:
            fields = [*AVRO_FIELDS, LATER] if has_later else AVRO_FIELDS
            schema = {"type": "record", "name": "r", "fields": fields}
            self.schemas[has_later] = self.registry.register(schema)
        later = {"later": dice} if has_later else {}
        return self.registry.encode(self.schemas[has_later], {**row, **later})

    def _change(self, row: dict[str, Any], dice: float) -> bytes | None:
        if dice < 0.1:
            return None
        before: dict[str, Any] | None = None
        after: dict[str, Any] | None = row
        operation = "u"
        if dice < 0.25:
            before, after, operation = {**row, "ts": 0, "v": None}, None, "d"
        elif dice < 0.5:
            after = {**row, "v": UNAVAILABLE}
        payload = {"before": before, "after": after, "source": {"lsn": 1}, "op": operation}
        return json.dumps({"schema": ENVELOPE, "payload": payload}, separators=(",", ":")).encode()

    def _changes(self, row: dict[str, Any], dice: float) -> bytes:
        """Of several rows whose keys are in one partition, some of them moved, some of one key."""
        rows = [{**row, "id": (row["id"] + PARTITIONS * step) % KEYS} for step in range(3)]
        written = [{name: str(value) for name, value in item.items()} for item in rows]
        head = {"database": "shop", "table": "orders", "isDdl": False, "es": 1}
        old = [{"id": written[0]["id"]} for _ in written] if dice < 0.4 else None
        kind = "UPDATE" if old else "DELETE" if dice < 0.55 else "INSERT"
        data = [*written, *written[:1]] if kind == "INSERT" else written
        return json.dumps({**head, "type": kind, "data": data, "old": old}).encode()


@pytest.fixture
def writer(kafka_broker: KafkaBroker) -> Writer:
    topic = f"large-{secrets.token_hex(4)}"
    kafka_broker.create_topic(topic, PARTITIONS)
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    return Writer(kafka_broker, topic, random.Random(seed))


@pytest.fixture(autouse=True)
def small_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many spans of each partition, and many blocks of each span."""
    monkeypatch.setattr(on_spark, "_SPAN_OFFSETS_MIN", 40)
    monkeypatch.setattr(on_spark, "_SPAN_BYTES", 1)
    monkeypatch.setattr(on_spark, "BLOCK_RECORDS", 17)


def feed_of(folder: Path, writer: Writer, **declared: Any) -> TopicFeed:
    folder.mkdir()
    return TopicFeed.of(folder, writer.broker.address, writer.topic, **declared)


def through_spark(feed: TopicFeed, folder: Path, spark: SparkSession) -> TopicFeed:
    """The same ingest into another table, read on Spark."""
    folder.mkdir()
    aside = feed.source.set_aside and Location(f"file://{folder}/aside")
    source = replace(feed.source, engine=ReadEngine.SPARK, set_aside=aside)
    return replace(feed, folder=folder, source=source, results=[], session_factory=lambda _: spark)


def all_rows(feed: TopicFeed) -> list[dict[str, Any]]:
    table = open_table(feed.target)
    assert table is not None
    found = table.to_arrow()
    kept = [name for name in found.column_names if not name.startswith(META)]
    rows = found.select(kept).to_pylist()
    return sorted(rows, key=lambda row: (row["id"], repr(row)))


def set_aside(feed: TopicFeed) -> dict[str, str]:
    folder = feed.folder / "aside"
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.jsonl")}


def ingest_both(
    local: TopicFeed, on_executors: TopicFeed, writer: Writer, value: ValueFormat
) -> None:
    """A first commit into both tables, then a larger one; the other's by Spark."""
    writer.produce(value, FIRST)
    take_in(local)
    take_in(on_executors)
    writer.produce(value)
    first, second = take_in(local), take_in(on_executors, on_spark=True)
    assert first.source_records == second.source_records == RECORDS
    assert first.source_bytes == second.source_bytes
    assert first.rows_set_aside == second.rows_set_aside
    # With the epochs of the last records, and what the numbers of schemas meant.
    assert position_of(local) == position_of(on_executors)
    assert len(position_of(on_executors).epochs) == PARTITIONS


def take_in(feed: TopicFeed, *, on_spark: bool = False) -> OperationResult:
    """All that waits, as one operation that was stored in between."""
    operation = feed.plan()
    assert isinstance(operation, Operation)
    stored = Operation.from_json_object(json.loads(json.dumps(operation.to_json_object())))
    assert stored == operation
    assert isinstance(stored.work, IngestRange)
    assert isinstance(stored.work.range, KafkaRange)
    assert stored.work.range.on_spark == on_spark
    result = feed.execute(stored)
    assert result.exit_code == 0, result.message
    return result


def position_of(feed: TopicFeed) -> KafkaPosition:
    found = feed.checkpoint()
    assert found is not None
    assert isinstance(found.position, KafkaPosition)
    return replace(found.position, looked_ms=0)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("ordering", [("ts",), ()])
def test_json_with_duplicates_tombstones_and_bad_records(
    writer: Writer, tmp_path: Path, spark: SparkSession, table_type: str, ordering: tuple[str, ...]
) -> None:
    aside = Location(f"file://{tmp_path}/one/aside")
    declared = feed_of(
        tmp_path / "one",
        writer,
        set_aside=aside,
        record_fields=(RecordField.PARTITION, RecordField.OFFSET),
    )
    local = replace(
        declared,
        table_type=table_type,
        ordering=ordering,
        bad_rows_max=1_000,
        schema=(*SCHEMA, *OFFSETS),
    )
    on_executors = through_spark(local, tmp_path / "other", spark)
    ingest_both(local, on_executors, writer, ValueFormat.JSON)
    assert all_rows(local) == all_rows(on_executors)
    assert len(all_rows(local)) > KEYS // 2
    assert set_aside(local) == set_aside(on_executors) != {}


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_avro_whose_columns_the_registry_knows(
    writer: Writer,
    registry: SchemaRegistry,
    tmp_path: Path,
    spark: SparkSession,
    table_type: str,
) -> None:
    writer.registry = registry
    declared = feed_of(
        tmp_path / "one", writer, value=ValueFormat.AVRO, schema=(), registry=registry.address
    )
    local = replace(declared, table_type=table_type, schema=())
    on_executors = through_spark(local, tmp_path / "other", spark)
    ingest_both(local, on_executors, writer, ValueFormat.AVRO)
    assert all_rows(local) == all_rows(on_executors)
    assert {row["later"] is None for row in all_rows(on_executors)} == {True, False}
    assert len(position_of(on_executors).schemas.digests) == 2


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_change_events_with_values_that_are_kept(
    writer: Writer, tmp_path: Path, spark: SparkSession, table_type: str
) -> None:
    declared = feed_of(tmp_path / "one", writer, value=ValueFormat.DEBEZIUM_JSON, schema=())
    local = replace(declared, table_type=table_type, table_version=9, properties=FILLING)
    on_executors = through_spark(local, tmp_path / "other", spark)
    ingest_both(local, on_executors, writer, ValueFormat.DEBEZIUM_JSON)
    assert all_rows(local) == all_rows(on_executors)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_values_that_have_several_rows(
    writer: Writer, tmp_path: Path, spark: SparkSession, table_type: str
) -> None:
    declared = feed_of(
        tmp_path / "one", writer, value=ValueFormat.CANAL_JSON, schema=(), table="shop.orders"
    )
    local = replace(declared, table_type=table_type)
    on_executors = through_spark(local, tmp_path / "other", spark)
    ingest_both(local, on_executors, writer, ValueFormat.CANAL_JSON)
    assert all_rows(local) == all_rows(on_executors)
    assert len(all_rows(local)) > KEYS // 3
