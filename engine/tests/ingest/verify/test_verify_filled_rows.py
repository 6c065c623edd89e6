"""Tables of change events that fill rows up are compared with their topics, on a real broker."""

from __future__ import annotations

import json
import random
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tideline.hudi.table.table_config import PARTIAL_UPDATE_MODE, UNAVAILABLE_PROPERTY
from tideline.ingest.execute.table_access import open_table
from tideline.ingest.sources.kafka.declared import UNAVAILABLE, RecordField, ValueFormat
from tideline.ingest.sources.kafka.replay import replay_topics
from tideline.ingest.verify.key_buckets import bucket_count
from tideline.ingest.verify.verification import Kind
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.planted_differences import named, plant, verified
from tideline.testing.schema_registry import connect_envelope
from tideline.testing.topic_feed import TopicFeed

pytestmark = pytest.mark.kafka

FILLING = {PARTIAL_UPDATE_MODE: "FILL_UNAVAILABLE", UNAVAILABLE_PROPERTY: UNAVAILABLE}
ENVELOPE = connect_envelope(
    [
        {"field": "id", "type": "int64"},
        {"field": "region", "type": "string", "optional": True},
        {"field": "v", "type": "string", "optional": True},
        {"field": "doc", "type": "string", "optional": True},
        {"field": "size", "type": "double", "optional": True},
        {
            "field": "at",
            "type": "int64",
            "name": "io.debezium.time.MicroTimestamp",
            "optional": True,
        },
    ]
)
Row = dict[str, Any]


@pytest.fixture
def topic() -> str:
    return f"changes-{secrets.token_hex(4)}"


def change(operation: str, row: Row, lsn: int) -> tuple[str, str]:
    before, after = (row, None) if operation == "d" else (None, row)
    payload = {"before": before, "after": after, "source": {"lsn": lsn}, "op": operation}
    value = json.dumps({"schema": ENVELOPE, "payload": payload}, separators=(",", ":"))
    return json.dumps({"id": row["id"]}), value


def events(count: int) -> list[tuple[str, str]]:
    """What a connector writes of a table: large values only where they changed."""
    chance, rows, found = random.Random(count), dict[int, Row](), list[tuple[str, str]]()
    for lsn in range(1, count + 1):
        number = chance.randrange(count // 6)
        if number not in rows:
            row = {"id": number, "region": f"r{number % 3}", "v": f"v{lsn}", "doc": f"d{lsn}"}
            rows[number] = row | {"size": lsn / 3, "at": 1_700_000_000_000_000 + lsn}
            found.append(change("c", rows[number], lsn))
        elif chance.random() < 0.15:
            found.append(change("d", {"id": number, "region": f"r{number % 3}"}, lsn))
            del rows[number]
        else:
            new = {name: f"{name}{lsn}" for name in ("v", "doc") if chance.random() < 0.4}
            rows[number] |= new | {"size": lsn / 7}
            shown = rows[number] | {n: UNAVAILABLE for n in ("v", "doc") if n not in new}
            found.append(change("u", shown, lsn))
    return found


def feed(folder: Path, broker: KafkaBroker, topic: str, **declared: Any) -> TopicFeed:
    found = TopicFeed.of(
        folder,
        broker.address,
        topic,
        value=ValueFormat.DEBEZIUM_JSON,
        schema=(),
        record_fields=(RecordField.LSN,),
        **declared,
    )
    return replace(
        found, ordering=("_event_lsn",), schema=(), table_version=9, properties=FILLING
    )  # fmt: skip


def stored(found: TopicFeed) -> list[Row]:
    table = open_table(found.target)
    assert table is not None
    return sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize(
    ("table_type", "partition_by"),
    [
        ("MERGE_ON_READ", ()),
        pytest.param("COPY_ON_WRITE", (), marks=pytest.mark.slow),
        pytest.param("MERGE_ON_READ", ("region",), marks=pytest.mark.slow),
    ],
)
def test_unavailable_values_are_filled_as_the_table_does_and_faults_are_named(
    table_type: str,
    partition_by: tuple[str, ...],
    kafka_broker: KafkaBroker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{bucket_count.__module__}._ROWS_PER_BUCKET", 50)
    monkeypatch.setattr(f"{replay_topics.__module__}.RECORDS_MAX", 100)
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, events(300))
    declared = feed(tmp_path, kafka_broker, topic, records_max=70)
    found = replace(declared, table_type=table_type, partition_by=partition_by)
    found.drain()
    gone = {"id": 7_777, "region": "r0", "v": "v", "doc": "d", "size": 1.5, "at": 5}
    kafka_broker.produce(topic, [change("c", gone, 1_000), change("d", gone, 1_001)])
    found.drain()
    rows = stored(found)
    clean = verified(found.target, found.source)
    counts = clean.found.equal, clean.found.unknown, clean.found.undecided
    assert counts == (len(rows), 0, 0), clean.found
    assert clean.found.is_equal and len(rows) > 30

    table = open_table(found.target)
    assert table is not None
    planted = plant(table, rows[:8], {**rows[8], "id": 7_777})
    assert named(verified(found.target, found.source)) == planted


def test_a_value_that_only_a_gone_record_had_is_not_called_wrong(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    found = feed(tmp_path, kafka_broker, topic)
    row = {"id": 1, "region": "r", "v": "v", "doc": "large", "size": 1.5, "at": 5}
    kafka_broker.produce(topic, [change("c", {**row, "id": n}, n + 1) for n in range(3)])
    found.drain()
    lacks = {**row, "doc": UNAVAILABLE}
    kafka_broker.produce(topic, [change("u", {**lacks, "id": n, "v": "w"}, 9) for n in range(2)])
    found.drain()
    kafka_broker.delete_records(topic, 3)
    partly = verified(found.target, found.source)
    # The stored values of two rows, and a row without a record.
    assert (partly.found.is_equal, partly.found.equal, partly.found.unknown) == (True, 0, 3)
    table = open_table(found.target)
    assert table is not None
    (wrong,) = (item for item in stored(found) if item["id"] == 1)
    table.upsert([{**wrong, "v": "changed"}])
    assert named(verified(found.target, found.source)) == {(Kind.DIFFERENT, "1")}
