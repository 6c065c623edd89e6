"""Ranges of topics that Spark reads, where tasks, drivers, transactions and offsets go away."""

from __future__ import annotations

import json
import secrets
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.sources.kafka import on_spark
from tideline.ingest.sources.kafka.declared import Mechanism, Protocol, ValueFormat
from tideline.ingest.sources.kafka.read_engine import ReadEngine
from tideline.ingest.sources.source import Lost
from tideline.testing import writer_process
from tideline.testing.dying_spans import ingest_where_tasks_die
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.schema_registry import connect_envelope
from tideline.testing.topic_feed import TopicFeed, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

DEADLINE_S = 300.0
USER, PASSWORD = "spans", "never-in-a-log-2026"
TRUNCATE = json.dumps(
    {
        "schema": connect_envelope([{"field": "id", "type": "int64"}]),
        "payload": {"before": None, "after": None, "source": {"lsn": 1}, "op": "t"},
    },
    separators=(",", ":"),
)


@pytest.fixture(autouse=True)
def small_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_spark, "_SPAN_OFFSETS_MIN", 20)
    monkeypatch.setattr(on_spark, "_SPAN_BYTES", 1)


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> Iterator[str]:
    name = f"spans-{secrets.token_hex(4)}"
    kafka_broker.create_topic(name)
    kafka_broker.produce(name, values([(0, 1, "first")]))
    yield name


def planned(feed: TopicFeed) -> Operation:
    operation = feed.plan()
    assert isinstance(operation, Operation)
    return operation


@pytest.fixture
def feed(kafka_broker: KafkaBroker, topic: str, tmp_path: Path, spark: SparkSession) -> TopicFeed:
    """With a first commit: the next one is Spark's."""
    declared = TopicFeed.of(tmp_path, kafka_broker.address, topic, engine=ReadEngine.SPARK)
    found = replace(declared, operation="insert", session_factory=lambda _: spark)
    found.execute(planned(found))
    assert found.rows() == [(0, "first")]
    return found


def test_aborted_transactions_that_lie_across_spans(
    kafka_broker: KafkaBroker, topic: str, feed: TopicFeed
) -> None:
    producer = kafka_broker.producer(**{"transactional.id": topic})
    producer.init_transactions()
    for transaction in range(4):
        producer.begin_transaction()
        for key, value in values((transaction * 50 + n, 1, "x") for n in range(1, 51)):
            producer.produce(topic, key=key, value=value)
        producer.flush()
        if transaction % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    assert feed.drain() is None
    ids = [number for (number,) in feed.rows("id")]
    assert ids == [0, *range(1, 51), *range(101, 151)]
    assert feed.results[-1].source_records == 100


def test_offsets_that_vanish_while_they_are_read_are_named(
    kafka_broker: KafkaBroker, topic: str, feed: TopicFeed
) -> None:
    kafka_broker.produce(topic, values((n, 1, "x") for n in range(1, 101)))

    def tell(words: str) -> None:
        if words.startswith("reading"):
            kafka_broker.delete_records(topic, before=60)

    result = execute_operation(planned(feed), session_factory=feed.session_factory, progress=tell)
    assert result.is_safe_to_retry
    assert f"{topic}/0 has no such offset any more" in result.message
    assert feed.rows() == [(0, "first")]
    lost = feed.plan()
    assert isinstance(lost, Lost)
    assert f"59 offsets of {topic}/0 from 1 are gone" in lost.what


def test_a_bad_record_is_named_by_its_offset(
    kafka_broker: KafkaBroker, topic: str, feed: TopicFeed, spark: SparkSession
) -> None:
    kafka_broker.produce(topic, values((n, 1, "x") for n in range(1, 50)))
    kafka_broker.produce(topic, [("1", "no JSON")])
    result = feed.execute(planned(feed))
    assert result.exit_code != 0
    assert "offset 50" in result.message
    assert feed.rows() == [(0, "first")]
    # What was kept of the range is let go.
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty()


def test_a_truncate_is_named_by_its_offset(
    kafka_broker: KafkaBroker, topic: str, feed: TopicFeed
) -> None:
    source = replace(feed.source, value=ValueFormat.DEBEZIUM_JSON)
    kafka_broker.produce(topic, [("1", TRUNCATE)])
    found = replace(feed, source=source)
    result = found.execute(planned(found))
    assert result.exit_code != 0
    assert f"{topic}/0 has at offset 1 that the source table was emptied" in result.message


def test_tasks_and_drivers_that_die_repeat_what_they_read(
    kafka_broker: KafkaBroker, topic: str, feed: TopicFeed, tmp_path: Path
) -> None:
    kafka_broker.add_user(USER, PASSWORD)
    kafka_broker.produce(topic, values((n, 1, "x") for n in range(1, 101)))
    source = replace(
        feed.source,
        brokers=kafka_broker.scram_address,
        protocol=Protocol.SASL_PLAINTEXT,
        mechanism=Mechanism.SCRAM_SHA_512,
    )
    operation = planned(feed)
    assert isinstance(operation.work, IngestRange)
    operation = replace(operation, work=replace(operation.work, source=source))
    given = {"KAFKA_USERNAME": USER, "KAFKA_PASSWORD": PASSWORD}
    logs = tmp_path / "logs"
    logs.mkdir()
    for dies_before_commit in (True, False):
        child = writer_process.start(
            ingest_where_tasks_die, operation, given, logs, dies_before_commit
        )
        child.join(DEADLINE_S)
        assert child.exitcode == (-signal.SIGKILL if dies_before_commit else 0)
        rows = feed.rows()
        assert rows == ([(0, "first")] if dies_before_commit else [(0, "first"), *hundred()])
    written = b"".join(path.read_bytes() for path in logs.rglob("*") if path.is_file())
    assert b"SparkListenerTaskEnd" in written
    assert b"Python worker exited unexpectedly" in written or b"crashed" in written
    assert PASSWORD.encode() not in written


def hundred() -> list[tuple[int, str]]:
    return [(number, "x") for number in range(1, 101)]
