"""A stream of small commits leaves no more files than its settings say, at any moment, and no Java.

Two partitions of a real topic give ten records a commit. While `tideline run` takes them in, the
table's folder is counted again and again.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tideline
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import values
from tideline_operator.testing.local_run import KEYED_VALUES, declare_table
from tideline_operator.testing.most_files import Most

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COMMITS = 150
RECORDS = 10
KEYS = 400
RETAIN, DELTA_COMMITS, KEEP_MIN, KEEP_MAX = 4, 3, 6, 10
PATIENCE = 5
"""For how many commits a service that is due may wait."""
WAIT_S = 600.0
SPEC = """
type: {kind}
tableVersion: {version}
properties: {{hoodie.metadata.enable: "true", hoodie.archive.merge.enable: "true"}}
services:
  cleaning: {{retain: {retain}}}
  archiving: {{minCommits: {keep_min}, maxCommits: {keep_max}}}
  compaction: {{trigger: {{deltaCommits: {delta_commits}}}}}
"""


@pytest.mark.parametrize(
    ("kind", "version"),
    [("MERGE_ON_READ", 9), ("MERGE_ON_READ", 6), ("COPY_ON_WRITE", 9)],
)
def test_services_keep_up_beside_a_stream(
    kind: str, version: int, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    topic = f"orders-{secrets.token_hex(4)}"
    kafka_broker.create_topic(topic, 2)
    total = COMMITS * RECORDS
    for partition in range(2):
        rows = ((n % KEYS, n, f"v{n}") for n in range(total) if n % 2 == partition)
        kafka_broker.produce(topic, values(rows), partition=partition)
    spec = SPEC.format(
        kind=kind, version=version, retain=RETAIN, keep_min=KEEP_MIN, keep_max=KEEP_MAX,
        delta_commits=DELTA_COMMITS,
    )  # fmt: skip
    source = f"{{format: kafka, brokers: '{kafka_broker.address}', topics: [{topic}], "
    declare_table(tmp_path, f"{source}maxRecordsPerCommit: {RECORDS}}}", KEYED_VALUES + spec)
    most, events = _run(tmp_path)

    commits = [
        event for event in events if (event["event"], event.get("kind")) == ("finished", "ingest")
    ]
    assert len(commits) == COMMITS
    assert tideline.open(str(tmp_path / "table")).count() == KEYS
    # A slice for each commit that is kept, and what waits until cleaning is due again.
    slices = RETAIN + PATIENCE + 1
    if kind == "MERGE_ON_READ":
        assert most.logs_of_slice <= DELTA_COMMITS + 1, most
        assert most.data_files <= 2 * (slices + DELTA_COMMITS), most
    else:
        assert most.logs_of_slice == 0
        assert most.data_files <= slices + 2, most
    # Of compactions as well as of ingests. Cleans are archived by the same numbers.
    assert most.commits <= KEEP_MAX + 2 * PATIENCE, most
    assert most.instants <= 2 * (KEEP_MAX + 2 * PATIENCE), most
    assert most.history <= 30, most
    third = len(most.metadata_files) // 3
    middle, end = most.metadata_files[third : 2 * third], most.metadata_files[2 * third :]
    assert max(end) <= 1.1 * max(middle) < 150, most


def _run(folder: Path) -> tuple[Most, list[dict[str, object]]]:
    """Take the topic in where no Java is found."""
    no_java = {"JAVA_HOME": str(folder / "none"), "PATH": str(Path(sys.executable).parent)}
    command = [sys.executable, "-m", "tideline", "run", "-f", "orders.yaml", "--once", "--json"]
    most, out = Most(), folder / "out.jsonl"
    with out.open("wb") as lines, (folder / "err.txt").open("wb") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **no_java}, stdout=lines, stderr=errors
        )
        deadline_s = time.monotonic() + WAIT_S
        while process.poll() is None:
            assert time.monotonic() < deadline_s
            most.look(folder / "table")
            time.sleep(0.1)
    assert process.returncode == 0, (folder / "err.txt").read_text()
    return most, [json.loads(line) for line in out.read_text().splitlines()]
