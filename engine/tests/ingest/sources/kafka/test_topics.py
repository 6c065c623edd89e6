"""Topics of a real broker become rows of a table, each record once."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.kafka import broker as broker_module
from tideline.ingest.sources.kafka.broker import read_records
from tideline.ingest.sources.kafka.credentials import Credentials
from tideline.ingest.sources.kafka.declared import Isolation, Mechanism, Protocol, RecordField
from tideline.ingest.sources.kafka.offsets import OnDataLoss
from tideline.ingest.sources.kafka.reader import KafkaSource
from tideline.ingest.sources.kafka.records import Records
from tideline.ingest.sources.source import Lost, Nothing
from tideline.storage.location import StoreLocation
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import TopicFeed, values

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic() -> str:
    return f"orders-{secrets.token_hex(4)}"


def feed(folder: Path, broker: KafkaBroker, *topics: str, **declared: object) -> TopicFeed:
    return TopicFeed.of(folder, broker.address, *topics, **declared)


def planned(found: TopicFeed) -> Operation:
    operation = found.plan()
    assert isinstance(operation, Operation), operation
    return operation


def test_records_of_all_partitions_are_in_and_then_what_is_new(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic, 2)
    kafka_broker.produce(topic, values((n, 1, f"a{n}") for n in range(10)), partition=0)
    kafka_broker.produce(topic, values((n, 1, f"b{n}") for n in range(10, 15)), partition=1)
    found = feed(tmp_path, kafka_broker, topic, records_max=6)
    assert found.drain() is None
    assert [result.source_records for result in found.results] == [6, 6, 3]
    assert found.rows() == [
        *((n, f"a{n}") for n in range(10)),
        *((n, f"b{n}") for n in range(10, 15)),
    ]
    kafka_broker.produce(topic, values([(3, 2, "new"), (99, 1, "more")]))
    assert found.drain() is None
    result = found.results[-1]
    assert (result.rows_inserted, result.rows_updated) == (1, 1)
    assert result.taken_in == "2 records of 1 partition"
    assert result.source_bytes > 0
    assert (3, "new") in found.rows()


def test_of_a_key_the_last_record_counts_and_one_without_a_value_deletes(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, values([(1, 5, "a"), (2, 5, "b"), (3, 5, "c"), (4, 5, "d")]))
    found = replace(feed(tmp_path, kafka_broker, topic), ordering=())
    found.drain()
    # Of times that go backwards nothing is known without an ordering column.
    later = [*values([(1, 1, "later")]), ("2", None), *values([(2, 1, "again")]), ("3", None)]
    by_object = ('{"id": 4}', None)
    kafka_broker.produce(topic, [*later, by_object, *values([(1, 0, "last")])])
    found.drain()
    assert found.rows() == [(1, "last"), (2, "again")]
    assert found.results[-1].rows_deleted == 2


def test_a_tombstone_deletes_what_is_before_it_in_the_same_commit(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    twice = [*values([(1, 5, "a"), (2, 5, "b")]), ("1", None), ("2", None)]
    kafka_broker.produce(topic, [*twice, *values([(2, 3, "again"), (3, 1, "c")])])
    found = feed(tmp_path, kafka_broker, topic)
    found.drain()
    assert len(found.results) == 1
    assert found.rows() == [(2, "again"), (3, "c")]


@pytest.mark.parametrize("key", ["12", '"12"', '{"v": "12"}'])
def test_a_key_that_is_text_is_taken_as_it_is(
    key: str, kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    found = replace(feed(tmp_path, kafka_broker, topic), key=("v",))
    kafka_broker.produce(topic, [(key, json.dumps({"id": 1, "ts": 1, "v": "12"}))])
    found.drain()
    assert found.rows() == [(1, "12")]
    kafka_broker.produce(topic, [(key, None)])
    found.drain()
    assert found.rows() == []


def test_an_operation_that_only_inserts_takes_no_deletes(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, [*values([(1, 1, "a")]), ("1", None)])
    found = replace(feed(tmp_path, kafka_broker, topic), operation="insert")
    result = found.execute(planned(found))
    assert result.outcome is Outcome.FAILED
    assert "offset 1: the record has no value, and the operation does not delete" in result.message


def test_a_topic_that_is_created_again_while_it_is_read_is_not_taken_in(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, values((n, 1, "a") for n in range(3)))
    found = feed(tmp_path, kafka_broker, topic)
    operation = planned(found)

    def after_a_new_start(*given: Any, **named: Any) -> Iterator[Records]:
        kafka_broker.delete_topic(topic)
        kafka_broker.create_topic(topic)
        kafka_broker.produce(topic, values((n, 1, "other") for n in range(3)))
        yield from read_records(*given, **named)

    monkeypatch.setattr(f"{KafkaSource.__module__}.read_records", after_a_new_start)
    result = found.execute(operation)
    assert result.outcome is Outcome.FAILED
    assert result.is_safe_to_retry
    assert f"topic {topic} was deleted while it was read" in result.message
    assert found.rows() == []


def test_an_ordering_column_decides_between_records(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, values([(1, 5, "newest"), (1, 3, "older")]))
    found = feed(tmp_path, kafka_broker, topic)
    found.drain()
    kafka_broker.produce(topic, values([(1, 4, "late")]))
    found.drain()
    assert found.rows() == [(1, "newest")]


def test_transactions_that_were_aborted_are_no_rows_and_open_ones_wait(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    producer = kafka_broker.producer(**{"transactional.id": topic})
    producer.init_transactions()

    def send(number: int) -> None:
        ((key, value),) = values([(number, 1, "x")])
        producer.produce(topic, key=key, value=value)

    producer.begin_transaction()
    send(1)
    producer.commit_transaction()
    producer.begin_transaction()
    send(2)
    producer.flush()
    producer.abort_transaction()
    producer.begin_transaction()
    send(3)
    producer.flush()
    found = feed(tmp_path, kafka_broker, topic)
    until(lambda: found.drain() is None and found.rows() == [(1, "x")])
    producer.commit_transaction()
    until(lambda: found.drain() is None and found.rows() == [(1, "x"), (3, "x")])
    # The end of a range is where the log ends, with its markers.
    assert isinstance(found.plan(), Nothing)
    every = feed(tmp_path / "all", kafka_broker, topic, isolation=Isolation.READ_UNCOMMITTED)
    every.drain()
    assert every.rows("id") == [(1,), (2,), (3,)]


def test_what_a_record_is_beside_its_value_can_be_columns(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(
        topic,
        values([(1, 1, "a")]),
        headers=[("trace", b"abc"), ("none", None)],
        timestamp_ms=1_700_000_000_123,
    )
    wanted = tuple(item for item in RecordField if not item.is_of_event)
    found = feed(tmp_path, kafka_broker, topic, record_fields=wanted)
    found.drain()
    (row,) = found.rows(*(item.value for item in wanted))
    name, number, offset, moment, key, headers = row
    assert (name, number, offset, key) == (topic, 0, 0, "1")
    assert int(moment.timestamp() * 1000) == 1_700_000_000_123
    assert dict(headers) == {"trace": "abc", "none": None}


@pytest.mark.parametrize("time_ms", [-1, 1 << 62])
def test_a_record_without_a_time_that_a_column_has_has_none(
    time_ms: int, kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(
        topic,
        message_timestamp_after_max_ms=str((1 << 63) - 1),
        message_timestamp_type="CreateTime",
    )
    kafka_broker.produce(topic, values([(1, 1, "a")]), timestamp_ms=time_ms)
    found = feed(tmp_path, kafka_broker, topic, record_fields=(RecordField.TIMESTAMP,))
    assert broker_module.look_at(found.source, Credentials(), None, asks_age=True).oldest_ms is None
    assert found.drain() is None
    assert found.rows("id", RecordField.TIMESTAMP.value) == [(1, None)]


def test_bad_records_are_set_aside_and_hold_nothing_back(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    bad = [("x", "{no json"), ("y", json.dumps({"ts": 1, "v": "no key"})), (None, None),
           ("no number", None), ("z", json.dumps({"id": 5, "v": "no order"}))]  # fmt: skip
    kafka_broker.produce(topic, [*values([(1, 1, "a")]), *bad, *values([(2, 1, "b")])])
    aside = Location(f"file://{tmp_path}/aside")
    found = replace(feed(tmp_path, kafka_broker, topic, set_aside=aside), bad_rows_max=100)
    found.drain()
    assert found.rows() == [(1, "a"), (2, "b")]
    (result,) = found.results
    assert result.rows_set_aside == 5
    store = StoreLocation.of(aside.uri).open()
    (kept,) = store.list("")
    lines = [json.loads(line) for line in store.get(kept.path).splitlines()]
    assert [line["offset"] for line in sorted(lines, key=lambda line: line["offset"])] == [
        *range(1, 6)
    ]
    assert {line["topic"] for line in lines} == {topic}
    reasons = {line["offset"]: (line["column"], line["reason"]) for line in lines}
    assert reasons[2] == ("id", "there is no value")
    assert reasons[3] == (None, "the record has neither a key nor a value")
    assert reasons[5] == ("ts", "there is no value")
    assert isinstance(found.plan(), Nothing)


def test_without_a_place_for_them_bad_records_stop_the_ingest_by_name(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, [*values([(1, 1, "a")]), ("x", "{no json")])
    found = feed(tmp_path, kafka_broker, topic)
    result = found.execute(planned(found))
    assert result.outcome is Outcome.FAILED
    assert f"{topic}/0" in result.message
    assert "offset 1: " in result.message
    assert found.rows() == []
    allowed = replace(found, bad_rows_max=100)
    refused = allowed.execute(planned(allowed))
    assert "the first at offset 1" in refused.message
    assert "source.setAside" in refused.message


def test_an_operation_that_is_repeated_changes_nothing(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, values([(1, 1, "a")]))
    found = replace(feed(tmp_path, kafka_broker, topic), operation="insert")
    operation = planned(found)
    kafka_broker.produce(topic, values([(2, 1, "b")]))
    assert found.execute(operation).outcome is Outcome.SUCCEEDED
    # What came since the plan is the next one's.
    assert found.rows() == [(1, "a")]
    assert found.execute(operation).outcome is Outcome.NOTHING
    found.drain()
    assert found.rows() == [(1, "a"), (2, "b")]


def test_retention_that_was_faster_is_named_and_skipped_by_choice(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, values((n, 1, "a") for n in range(5)))
    found = feed(tmp_path, kafka_broker, topic)
    found.drain()
    kafka_broker.produce(topic, values((n, 1, "b") for n in range(5, 10)))
    operation = planned(found)
    kafka_broker.delete_records(topic, before=8)
    # Between plan and execution: nothing is passed over.
    assert found.execute(operation).outcome is Outcome.NOTHING
    lost = found.drain()
    assert isinstance(lost, Lost)
    assert f"3 offsets of {topic}/0 from 5 are gone" in lost.what
    skipping = replace(found, source=replace(found.source, on_data_loss=OnDataLoss.SKIP))
    assert skipping.drain() is None
    assert found.rows("id") == [(n,) for n in (0, 1, 2, 3, 4, 8, 9)]
    assert any("3 offsets" in note for note in found.results[-1].notes)


def test_a_topic_that_was_created_again_is_not_taken_for_the_old_one(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, values((n, 1, "a") for n in range(3)))
    found = feed(tmp_path, kafka_broker, topic)
    found.drain()
    kafka_broker.produce(topic, values([(3, 1, "a")]))
    operation = planned(found)
    kafka_broker.delete_topic(topic)
    lost = found.drain()
    assert isinstance(lost, Lost)
    assert f"there is no topic {topic}" in lost.what
    kafka_broker.create_topic(topic)
    # Longer than the old one: its offsets would be read without a word.
    kafka_broker.produce(topic, values((n, 9, "other") for n in range(9)))
    assert found.execute(operation).outcome is Outcome.NOTHING
    lost = found.drain()
    assert isinstance(lost, Lost)
    assert "was deleted and created again" in lost.what
    assert found.rows() == [(n, "a") for n in range(3)]


def test_partitions_that_are_added_are_read_from_their_first_record(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, values([(1, 1, "a")]))
    start = str(int(time.time() * 1000) + 3_600_000)
    found = feed(tmp_path, kafka_broker, topic)
    found.drain()
    kafka_broker.add_partitions(topic, 3)
    kafka_broker.produce(topic, values([(2, 1, "b")]), partition=2)
    later = replace(found, source=replace(found.source, start=start))
    later.drain()
    assert later.rows() == [(1, "a"), (2, "b")]


def test_a_table_begins_at_a_time(kafka_broker: KafkaBroker, topic: str, tmp_path: Path) -> None:
    kafka_broker.create_topic(topic, 2)
    for number in range(4):
        kafka_broker.produce(topic, values([(number, 1, "a")]), timestamp_ms=1_000 * (number + 1))
    kafka_broker.produce(topic, values([(9, 1, "old")]), partition=1, timestamp_ms=1_000)
    found = feed(tmp_path, kafka_broker, topic, start="2500")
    found.drain()
    assert found.rows("id") == [(2,), (3,)]
    # A partition that had nothing so new begins there too.
    kafka_broker.produce(topic, values([(4, 1, "a")]), partition=1, timestamp_ms=3_000)
    found.drain()
    assert found.rows("id") == [(2,), (3,), (4,)]
    assert isinstance(feed(tmp_path / "b", kafka_broker, topic, start="9000").plan(), Nothing)


def test_brokers_that_do_not_answer_are_a_reason_to_try_again(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, values([(1, 1, "a")]))
    found = feed(tmp_path, kafka_broker, topic)
    operation = planned(found)
    monkeypatch.setattr(broker_module, "_ANSWER_S", 2.0)
    kafka_broker.kill()
    try:
        with pytest.raises(StorageUnavailableError, match="cannot be looked at"):
            found.plan()
        result = found.execute(operation)
        assert result.outcome is Outcome.FAILED
        assert result.is_safe_to_retry
    finally:
        kafka_broker.start()
    monkeypatch.undo()
    until(lambda: found.drain() is None and found.rows() == [(1, "a")])


@pytest.mark.parametrize("protocol", [Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL])
def test_a_user_signs_in_and_another_password_is_refused(
    protocol: Protocol,
    kafka_broker: KafkaBroker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    password = secrets.token_hex(8)
    kafka_broker.add_user("reader", password)
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, values([(1, 1, "a")]))
    monkeypatch.setenv("KAFKA_USERNAME", "reader")
    monkeypatch.setenv("KAFKA_PASSWORD", password)
    monkeypatch.setenv("KAFKA_CA_FILE", str(kafka_broker.ca_file))
    is_tls = protocol is Protocol.SASL_SSL
    found = feed(tmp_path, kafka_broker, topic)
    found.source = replace(
        found.source,
        brokers=kafka_broker.tls_address if is_tls else kafka_broker.scram_address,
        protocol=protocol,
        mechanism=Mechanism.SCRAM_SHA_512,
    )
    operation = planned(found)
    assert password not in json.dumps(operation.to_json_object())
    found.drain()
    assert found.rows() == [(1, "a")]

    monkeypatch.setattr(broker_module, "_ANSWER_S", 2.0)
    monkeypatch.setenv("KAFKA_PASSWORD", "another-password")
    with pytest.raises(ConfigError, match="the brokers refuse this client") as refused:
        found.plan()
    assert "another-password" not in str(refused.value)
    if is_tls:
        monkeypatch.delenv("KAFKA_CA_FILE")
        with pytest.raises(ConfigError, match=r"the brokers refuse this client: .*certificate"):
            found.plan()


def test_credentials_that_are_missing_are_named(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_USERNAME", raising=False)
    found = feed(tmp_path, kafka_broker, topic, protocol=Protocol.SASL_SSL)
    with pytest.raises(ConfigError, match="KAFKA_USERNAME is not set: the protocol is SASL_SSL"):
        found.plan()


def until(holds: object, timeout_s: float = 30.0) -> None:
    assert callable(holds)
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            if holds():
                return
        except StorageUnavailableError:
            pass
        assert time.monotonic() < deadline_s
        time.sleep(0.2)
