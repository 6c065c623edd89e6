"""Tables of one process take turns: one with much to read does not keep another from its rows."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

import tideline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import values
from tideline_operator.testing.local_run import KEYED_VALUES, declare_table, run_here

pytestmark = pytest.mark.kafka


def commits(folder: Path) -> list[str]:
    timeline = tideline.open(str(folder)).timeline()
    return [str(item.time) for item in timeline.completed().of(*COMMIT_ACTIONS).instants]


def test_a_table_with_a_huge_topic_commits_once_before_the_next_table_does(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    for name, count in (("a-huge", 5_000), ("b-small", 3)):
        topic = f"{name}-{secrets.token_hex(4)}"
        kafka_broker.create_topic(topic)
        kafka_broker.produce(topic, values((n, 1, "a") for n in range(count)))
        source = (
            f"{{format: kafka, brokers: '{kafka_broker.address}', topics: [{topic}], "
            "maxRecordsPerCommit: 500}"
        )
        spec = f"type: MERGE_ON_READ{KEYED_VALUES}"
        declare_table(tmp_path, source, spec, name=name, location=name)
    assert run_here(tmp_path) == 0
    huge, (small,) = commits(tmp_path / "a-huge"), commits(tmp_path / "b-small")
    assert len(huge) == 10
    assert huge[0] < small < huge[1]
