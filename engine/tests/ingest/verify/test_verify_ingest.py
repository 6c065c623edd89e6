"""A table compared with the topics of a real broker: what differs is named, and nothing else."""

from __future__ import annotations

import json
import random
import secrets
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.errors import ConfigError
from tideline.ingest.column_type import Column, ColumnType
from tideline.ingest.execute.table_access import open_table
from tideline.ingest.sources.kafka.declared import LATEST, RecordField
from tideline.ingest.sources.kafka.replay import replay_topics
from tideline.ingest.verify.key_buckets import bucket_count
from tideline.ingest.verify.verification import Kind, Verification
from tideline.lake_table import LakeTable
from tideline.testing import planted_differences
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import TopicFeed, values

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic() -> str:
    return f"orders-{secrets.token_hex(4)}"


def feed(folder: Path, broker: KafkaBroker, topic: str, **declared: object) -> TopicFeed:
    return TopicFeed.of(folder, broker.address, topic, **declared)


def verified(found: TopicFeed) -> Verification:
    return planted_differences.verified(found.target, found.source, found.operation)


def table_of(found: TopicFeed) -> LakeTable:
    table = open_table(found.target)
    assert table is not None
    return table


def named(found: Verification) -> set[tuple[Kind, str]]:
    return {(row.kind, row.key) for row in found.found.first}


def history(count: int, seed: int) -> list[tuple[str, str | None]]:
    """Orders with updates, late ones, tombstones, and orders of deleted keys; those of seeds 0 and
    1 have other keys."""
    chance = random.Random(seed)
    records: list[tuple[str, str | None]] = []
    for moment in range(count):
        number = chance.randrange(count // 4) * 2 + seed
        if chance.random() < 0.15:
            records.append((str(number), None))
            continue
        late = chance.choice((0, 0, 0, 40))
        records += values([(number, moment - late, f"v{moment}")])
    return records


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize("version", [6, 9])
def test_a_table_is_equal_to_its_topic_and_planted_faults_are_named(
    table_type: str,
    version: int,
    kafka_broker: KafkaBroker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Many buckets, and ranges that end inside of the topic.
    monkeypatch.setattr(f"{bucket_count.__module__}._ROWS_PER_BUCKET", 50)
    monkeypatch.setattr(f"{replay_topics.__module__}.RECORDS_MAX", 100)
    kafka_broker.create_topic(topic, 2)
    found = feed(tmp_path, kafka_broker, topic, records_max=70)
    found = replace(found, table_type=table_type, table_version=version)
    for partition in range(2):
        kafka_broker.produce(topic, history(300, partition), partition=partition)
    found.drain()
    kafka_broker.produce(topic, values([(1, 999, "not read yet")]))
    clean = verified(found)
    assert clean.found.is_equal, clean.found
    assert clean.found.unknown == 0
    assert clean.found.equal + clean.found.undecided >= clean.rows == len(found.rows()) > 50
    assert clean.found.undecided < 10
    assert clean.records == 600

    changed, deleted = _plant(found)
    faulty = verified(found)
    assert named(faulty) == {
        (Kind.DIFFERENT, str(changed)),
        (Kind.MISSING, str(deleted)),
        (Kind.EXTRA, "9999"),
    }
    counts = faulty.found.missing, faulty.found.extra, faulty.found.different
    assert counts == (1, 1, 1)
    (difference,) = (row for row in faulty.found.first if row.kind is Kind.DIFFERENT)
    assert {name: new for name, (_, new) in difference.columns.items()} == {"v": "changed"}


def _plant(found: TopicFeed) -> tuple[int, int]:
    """A row changed, one deleted, one added, by another writer; the first two of these."""
    table, rows = table_of(found), found.rows("id", "ts", "v")
    changed, deleted = rows[3], rows[7]
    table.upsert([{"id": changed[0], "ts": changed[1], "v": "changed"}])
    table.delete(f"id = {deleted[0]}")
    table.upsert([{"id": 9_999, "ts": 1, "v": "added"}])
    return changed[0], deleted[0]


def test_a_row_that_a_gone_record_may_have_made_is_not_called_extra(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    found = feed(tmp_path, kafka_broker, topic, records_max=10)
    kafka_broker.produce(topic, values((n, 50, "a") for n in range(20)))
    found.drain()
    # A late one, which the table does not take, and new ones.
    kafka_broker.produce(topic, values([(0, 1, "late"), *((n, 60, "b") for n in range(1, 12))]))
    found.drain()
    kafka_broker.delete_records(topic, 20)
    partly = verified(found)
    assert partly.gone == (f"20 offsets of {topic}/0 before 20",)
    # Eight that are only in the table, and the one that a record was too late for.
    assert (partly.found.equal, partly.found.unknown) == (11, 9)
    assert partly.found.is_equal

    table = table_of(found)
    table.upsert([{"id": 5, "ts": 70, "v": "changed"}, {"id": 999, "ts": 1, "v": "added"}])
    table.delete("id = 6")
    assert named(verified(found)) == {
        (Kind.DIFFERENT, "5"),
        (Kind.EXTRA, "999"),
        (Kind.MISSING, "6"),
    }


def test_of_a_compacted_topic_the_last_records_are_compared(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(
        topic, cleanup_policy="compact", segment_ms="1", min_cleanable_dirty_ratio="0.01"
    )
    found = replace(feed(tmp_path, kafka_broker, topic), ordering=())
    for turn in range(20):
        kafka_broker.produce(topic, values((n, turn, f"v{turn}") for n in range(3)))
    found.drain()
    deadline_s = time.monotonic() + 30
    while verified(found).records == 60:
        assert time.monotonic() < deadline_s, "the topic was not compacted"
        time.sleep(0.5)
    compacted = verified(found)
    assert compacted.found.is_equal
    assert (compacted.found.equal, compacted.found.unknown) == (3, 0)
    table_of(found).delete("id = 1")
    assert named(verified(found)) == {(Kind.MISSING, "1")}


def test_keys_of_a_partitioned_table_are_rows_of_their_partitions(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    found = replace(feed(tmp_path, kafka_broker, topic), partition_by=("v",))
    kafka_broker.produce(topic, values([(1, 1, "a"), (1, 2, "b"), (2, 1, "a"), (2, 3, "a")]))
    found.drain()
    clean = verified(found)
    assert (clean.found.is_equal, clean.found.equal) == (True, 3)
    # Its key does not say in which partition the row is: the table keeps it.
    kafka_broker.produce(topic, [("1", None)])
    found.drain()
    kept = verified(found)
    assert {(row.kind, row.key, row.partition) for row in kept.found.first} == {
        (Kind.EXTRA, "1", "a"),
        (Kind.EXTRA, "1", "b"),
    }


def test_rows_that_are_only_inserted_are_compared_as_a_bag(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    found = replace(feed(tmp_path, kafka_broker, topic), operation="insert", ordering=())
    kafka_broker.produce(topic, values([(1, 1, "a"), (1, 1, "a"), (1, 2, "b"), (2, 1, "c")]))
    found.drain()
    clean = verified(found)
    assert (clean.found.is_equal, clean.found.equal) == (True, 4)
    table_of(found).append([{"id": 1, "ts": 1, "v": "a"}, {"id": 3, "ts": 1, "v": "d"}])
    assert verified(found).found.extra == 2
    assert named(verified(found)) == {(Kind.EXTRA, "1"), (Kind.EXTRA, "3")}


def test_columns_of_every_kind_and_of_the_record_are_compared(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kinds = ("long", "decimal(10,2)", "date", "timestamp", "double", "array<long>",
             "struct<a:string,b:array<string>>")  # fmt: skip
    schema = tuple(
        Column(name, ColumnType.parse(kind)) for name, kind in zip("iabcdef", kinds, strict=True)
    )
    kafka_broker.create_topic(topic)
    rows = [
        {"i": n, "a": f"{n}.50", "b": "2026-11-28", "c": "2026-11-28T10:00:00.123Z", "d": n / 3,
         "e": [n, None], "f": {"a": "x", "b": ["y", str(n)]}}
        for n in range(3)
    ]  # fmt: skip
    rows.append({"i": 3})
    kafka_broker.produce(topic, ((str(row["i"]), json.dumps(row)) for row in rows))
    found = feed(
        tmp_path, kafka_broker, topic, schema=schema, record_fields=tuple(RecordField)
    )  # fmt: skip
    found = replace(found, key=("i",), ordering=(), schema=())
    found.drain()
    clean = verified(found)
    assert (clean.found.equal, clean.found.is_equal) == (4, True)
    table = table_of(found)
    stored = table.to_arrow().to_pylist()
    for row in stored:
        row["f"] = row["f"] and {**row["f"], "b": [*row["f"]["b"], "more"]}
        row["e"] = [7]
    table.upsert(stored)
    changed = verified(found)
    assert changed.found.different == 4
    assert {name for row in changed.found.first for name in row.columns} == {"e", "f"}


def test_a_table_that_began_at_the_end_is_compared_from_there(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, values((n, 1, "before") for n in range(5)))
    found = feed(tmp_path, kafka_broker, topic, start=LATEST)
    found.drain()
    kafka_broker.produce(topic, values((n, 1, "behind") for n in range(3, 9)))
    found.drain()
    clean = verified(found)
    assert (clean.found.is_equal, clean.found.equal, clean.records) == (True, 6, 6)
    table_of(found).delete("id = 4")
    assert named(verified(found)) == {(Kind.MISSING, "4")}


def test_a_topic_that_is_another_one_now_is_not_compared(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, values([(1, 1, "a")]))
    found = feed(tmp_path, kafka_broker, topic)
    found.drain()
    kafka_broker.delete_topic(topic)
    with pytest.raises(ConfigError, match="there is no topic"):
        verified(found)
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, values([(1, 1, "a")]))
    with pytest.raises(ConfigError, match="deleted and created again"):
        verified(found)
