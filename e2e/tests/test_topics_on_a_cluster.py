"""Tables that are made of topics: deaths of a worker and of the broker, and ten on two workers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from e2e.harness.broker_pod import BrokerPod
from e2e.harness.cluster import Manifest
from e2e.harness.lake import WORKER, Lake
from e2e.harness.topic_table import TopicTable

MANY = 10_000
TABLES = 10
EACH = 3_000


def test_each_record_is_in_once_though_worker_and_broker_are_killed(
    lake: Lake, broker: BrokerPod, tmp_path: Path
) -> None:
    lake.apply_store(engine={"warm": {"maxWorkers": 1}})
    orders = TopicTable(lake, broker, "orders")
    orders.prepare(partitions=2)
    orders.produce(range(0, MANY, 2))
    orders.produce(range(1, MANY, 2), partition=1)
    orders.apply(source=[("maxRecordsPerCommit", 500)])
    lake.cluster.wait_until(
        lambda: orders.progress.get("lagRecords") == MANY, "the lag is known", timeout_s=60
    )
    assert "oldestRecordAt" in orders.progress
    instant = lake.wait_for_inflight("orders")
    (pod,) = lake.running(WORKER)
    lake.cluster.kill_containers(pod)
    lost = lake.wait_for_operation("orders", "ingest", "Failed", timeout_s=60)
    assert "SIGKILL" in lost["message"]
    done = lake.wait_for_operation("orders", "ingest")
    assert done["instant"] != instant
    assert 0 < orders.progress.get("lagRecords", 0) < MANY
    broker.kill()
    broker.wait_until_ready()
    assert orders.progress.get("lagRecords", 0) > 0
    orders.produce(range(MANY, MANY + 10))
    lake.cluster.wait_until(
        lambda: not orders.progress.get("lagRecords"), "nothing waits", timeout_s=400
    )
    lake.wait_for_ids("orders", range(MANY + 10))
    found = orders.verify(tmp_path)
    assert found["is_equal"] and found["records"] == MANY + 10, found
    assert lake.inflight("orders") == []


def test_ten_topics_share_two_warm_workers_fairly(
    lake: Lake, broker: BrokerPod, record_property: Callable[[str, object], None]
) -> None:
    lake.apply_store(engine={"warm": {"maxWorkers": 2}})
    tables = [TopicTable(lake, broker, f"topic-{number}") for number in range(TABLES)]
    for table in tables:
        table.prepare()
        table.produce(range(EACH))
        table.apply(source=[("maxRecordsPerCommit", EACH // 3)])
    # All have something before any has everything.
    began_s = time.monotonic()
    first_s: dict[str, float] = {}
    last_s: dict[str, float] = {}

    def all_are_current() -> bool:
        for table in tables:
            progress, now_s = table.progress, round(time.monotonic() - began_s, 1)
            if progress.get("checkpoint"):
                first_s.setdefault(table.name, now_s)
                if not progress.get("lagRecords"):
                    last_s.setdefault(table.name, now_s)
        return len(last_s) == TABLES

    lake.cluster.wait_until(all_are_current, "nothing waits", timeout_s=600)
    took = {"first": sorted(first_s.values()), "all": sorted(last_s.values())}
    record_property("seconds until ten tables have something, and everything", took)
    print("seconds until ten tables have something, and everything:", took)
    for table in tables:
        assert sorted(lake.by_id(table.name)) == list(range(EACH))
    done = [item for table in tables for item in ingests(lake, table.name)]
    workers = {item["worker"] for item in done if item.get("worker")}
    assert len(workers) <= 2
    # Where all workers are busy for long an operation gets a pod of its own.
    assert sum(item.get("worker") in workers for item in done) >= len(done) // 2


def ingests(lake: Lake, table: str) -> list[Manifest]:
    operations = lake.get(table)["status"]["operations"]
    return [item for item in operations if item["kind"] == "ingest"]
