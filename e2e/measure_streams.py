"""Measure how soon records of topics are readable on a real Kubernetes, and what that consists of.

    python -m e2e.measure_streams [--seconds S] [--rate R] [--wait W]

A separate node (e2e/one-node) is created with the tested images, MinIO and a broker. R records a
second are produced for S seconds, through TLS and by a user that signs in:

1. into one topic, which one table with a warm worker follows;
2. into ten topics, a tenth of them each, which ten tables follow with two warm workers.

A record is readable when the commit is complete in which hudi-rs then reads it. Its time is made of
two: until that commit began (the look at the topic, the hand-over to the worker, the commit
before), and the commit itself (reading the records, writing files, completing it). Of operations
the time from their record in the status to the begin of their first commit is printed as well: the
hand-over.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from bench.quiet import wait_for_quiet
from e2e.harness.broker_pod import BrokerPod
from e2e.harness.cluster import Manifest
from e2e.harness.lake import Lake
from e2e.harness.topic_table import TopicTable
from e2e.measure_freshness import Completions, lake_on_a_node, unix_s

NAME = "streams"
TABLES = 10
WANTED_P99_S, WANTED_MEDIAN_S = 5.0, 2.0
_LOOK_S = 2.0
_CURRENT_S = 180.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument(
        "--wait", type=float, default=0.0, help="minutes to wait for a quiet machine"
    )
    chosen = parser.parse_args()
    load = wait_for_quiet(chosen.wait * 60)
    record: dict[str, Any] = {
        "date": date.today().isoformat(),
        "cores": os.cpu_count(),
        "loadAtStart": round(load, 2),
    }
    with tempfile.TemporaryDirectory() as folder, lake_on_a_node(NAME, Path(folder)) as lake:
        broker = BrokerPod(lake.cluster)
        broker.start()
        record["one"] = measure(lake, broker, ["one"], 1, chosen.rate, chosen.seconds)
        names = [f"many-{number}" for number in range(TABLES)]
        record["many"] = measure(lake, broker, names, 2, chosen.rate, chosen.seconds)
    print(json.dumps(record, indent=2))


def measure(
    lake: Lake, broker: BrokerPod, names: Sequence[str], workers: int, rate: int, seconds: float
) -> dict[str, Any]:
    """Records for tables of these names, whose workers are warm when they begin."""
    lake.apply_store(engine={"warm": {"maxWorkers": workers}})
    tables = [TopicTable(lake, broker, name) for name in names]
    for table in tables:
        table.prepare()
        table.produce([0])
        table.apply()
    for table in tables:
        lake.wait_for_ids(table.name, [0])
    completions = Completions(lake, names)
    operations: dict[str, Manifest] = {}
    produced_s: dict[str, dict[int, float]] = {name: {} for name in names}
    stream = threading.Thread(
        target=_produce, args=(broker, tables, produced_s, rate, seconds), daemon=True
    )
    stream.start()
    until_s = time.monotonic() + seconds + _CURRENT_S
    while time.monotonic() < until_s:
        completions.look()
        for name in names:
            status = lake.get(name)["status"]
            operations |= {item["id"]: item for item in status["operations"]}
        waits = any(table.progress.get("lagRecords") for table in tables)
        if not stream.is_alive() and not waits:
            break
        time.sleep(_LOOK_S)
    stream.join()
    time.sleep(_LOOK_S)
    commits = completions.look()
    return _figures(lake, produced_s, commits, list(operations.values()))


def _produce(
    broker: BrokerPod,
    tables: Sequence[TopicTable],
    produced_s: Mapping[str, dict[int, float]],
    rate: int,
    seconds: float,
) -> None:
    """At an even rate, in steps of 20 ms, to each table in turn."""
    producer = broker.producer(**{"linger.ms": 1})
    began_s = time.monotonic()
    sent = 0
    while (elapsed_s := time.monotonic() - began_s) < seconds:
        while sent < elapsed_s * rate:
            table, number = tables[sent % len(tables)], 1 + sent // len(tables)
            value = json.dumps({"id": number, "ts": 1, "name": f"row {number}"})
            produced_s[table.name][number] = time.time()
            producer.produce(table.topic, key=str(number), value=value)
            sent += 1
        producer.poll(0.02)
    assert producer.flush(30) == 0


def _figures(
    lake: Lake,
    produced_s: Mapping[str, Mapping[int, float]],
    commits: Mapping[str, Mapping[str, float]],
    operations: Sequence[Manifest],
) -> dict[str, Any]:
    readable, waited, began = [], [], []
    for name, records in produced_s.items():
        instant_of = {row["id"]: row["_hoodie_commit_time"] for row in lake.stored_rows(name)}
        missing = set(records) - set(instant_of)
        assert not missing, f"{name}: {len(missing)} records are not there"
        for number, at_s in records.items():
            instant = instant_of[number]
            readable.append(commits[name][instant] - at_s)
            waited.append(unix_s(instant) - at_s)
        began += [unix_s(instant) for instant in sorted(set(instant_of.values()))]
    done = [item for item in operations if item["kind"] == "ingest" and item.get("instant")]
    handed_over = [
        max(0.0, min((at_s for at_s in began if at_s >= started_s), default=started_s) - started_s)
        for started_s in (datetime.fromisoformat(item["startedAt"]).timestamp() for item in done)
    ]
    commit_s = [
        done_s - unix_s(instant) for name in commits for instant, done_s in commits[name].items()
    ]
    median_s, p99_s = statistics.median(readable), _percentile(readable, 99)
    return {
        "tables": len(produced_s),
        "records": len(readable),
        "medianSeconds": round(median_s, 2),
        "p99Seconds": round(p99_s, 2),
        "maxSeconds": round(max(readable), 2),
        "holds": median_s <= WANTED_MEDIAN_S and p99_s <= WANTED_P99_S,
        "untilCommitBegins": _summary(waited),
        "commit": _summary(commit_s),
        "handOver": _summary(handed_over),
        "commits": len(commit_s),
        "operations": {kind: _count(operations, kind) for kind in _kinds(operations)},
    }


def _kinds(operations: Sequence[Manifest]) -> list[str]:
    return sorted({item["kind"] for item in operations})


def _count(operations: Sequence[Manifest], kind: str) -> int:
    return sum(item["kind"] == kind for item in operations)


def _summary(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    return {
        "medianSeconds": round(statistics.median(values), 2),
        "p99Seconds": round(_percentile(values, 99), 2),
    }


def _percentile(values: Sequence[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


if __name__ == "__main__":
    main()
