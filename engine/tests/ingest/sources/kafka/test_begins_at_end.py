"""A table that begins at the end of its topics, by a commit that holds only where that was."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tideline.ingest.execute.table_access import open_table
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.kafka.declared import LATEST
from tideline.ingest.sources.source import Nothing
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import TopicFeed, values

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic() -> str:
    return f"end-{secrets.token_hex(4)}"


def feed(folder: Path, broker: KafkaBroker, topic: str, table_type: str) -> TopicFeed:
    found = TopicFeed.of(folder, broker.address, topic, start=LATEST)
    found.table_type = table_type
    return found


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_what_comes_after_the_first_commit_is_in_and_nothing_before(
    table_type: str, kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic, 2)
    kafka_broker.produce(topic, values([(1, 1, "before"), (2, 1, "before")]))
    found = feed(tmp_path, kafka_broker, topic, table_type)
    first = found.plan()
    assert isinstance(first, Operation)
    # Between the look and the commit: behind the end that the look saw.
    kafka_broker.produce(topic, values([(3, 1, "between")]), partition=1)
    result = found.execute(first)
    assert (result.outcome, result.rows_written) == (Outcome.SUCCEEDED, 0), result.message
    assert result.taken_in == "0 records of 2 partitions"
    assert found.rows() == []
    kafka_broker.produce(topic, values([(4, 1, "after")]))
    found.drain()
    assert found.rows() == [(3, "between"), (4, "after")]
    assert isinstance(found.plan(), Nothing)
    assert found.execute(first).outcome is Outcome.NOTHING


def test_partitions_and_topics_that_come_later_are_read_from_their_first_record(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    other = f"{topic}-other"
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, values([(1, 1, "before")]))
    found = TopicFeed.of(tmp_path, kafka_broker.address, topic, other, start=LATEST)
    found.drain()
    kafka_broker.add_partitions(topic, 2)
    kafka_broker.produce(topic, values([(2, 1, "new partition")]), partition=1)
    kafka_broker.create_topic(other)
    kafka_broker.produce(other, values([(3, 1, "new topic")]))
    found.drain()
    assert found.rows() == [(2, "new partition"), (3, "new topic")]


def test_an_attempt_that_died_before_its_commit_leaves_no_beginning(
    kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka_broker.create_topic(topic)
    found = feed(tmp_path, kafka_broker, topic, "MERGE_ON_READ")
    lost = found.plan()
    assert isinstance(lost, Operation)
    kafka_broker.produce(topic, values([(1, 1, "before the first commit")]))
    found.drain()
    assert found.rows() == []
    # The lost one, if it comes back, does not take the table back to its end.
    assert found.execute(lost).outcome is Outcome.NOTHING
    table = open_table(found.target)
    assert table is not None
    kafka_broker.produce(topic, values([(2, 1, "after")]))
    found.drain()
    assert found.rows() == [(2, "after")]
