"""Tables of one process take turns: one with much to read does not keep another from its rows."""

from __future__ import annotations

import secrets
import textwrap
from pathlib import Path

import pytest

import tideline
from tideline.cli.main import run
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import values

pytestmark = pytest.mark.kafka

_YAML = """
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {name: NAME}
spec:
  location: NAME
  type: MERGE_ON_READ
  recordKey: [id]
  ordering: [ts]
  schema:
  - {name: id, type: long}
  - {name: ts, type: long}
  - {name: v, type: string}
  ingest:
  - name: topic
    source: {format: kafka, brokers: 'BROKERS', topics: [TOPIC], maxRecordsPerCommit: 500}
    trigger: {every: 1s}
"""


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
        text = _YAML.replace("NAME", name).replace("BROKERS", kafka_broker.address)
        path = tmp_path / f"{name}.yaml"
        path.write_text(textwrap.dedent(text.replace("TOPIC", topic)))
    state = str(tmp_path / "state")
    assert run(["run", "-f", str(tmp_path), "--once", "--state", state]) == 0
    huge, (small,) = commits(tmp_path / "a-huge"), commits(tmp_path / "b-small")
    assert len(huge) == 10
    assert huge[0] < small < huge[1]
