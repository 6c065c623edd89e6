"""Warm workers: one pod for operations of many tables, and deaths before and while it works."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest

from e2e.harness.cluster import Manifest
from e2e.harness.installation import Operator
from e2e.harness.lake import WORKER, Lake, Row

MANY = 200_000


@pytest.fixture
def warm(lake: Lake) -> Lake:
    """A lake whose drivers stay."""
    lake.apply_store(engine={"warm": {"maxWorkers": 1}})
    return lake


def some_rows(ids: range, ts: int = 1) -> list[Row]:
    return [{"id": number, "ts": ts, "name": f"row {number} of {ts}"} for number in ids]


def workers(lake: Lake) -> list[Manifest]:
    return lake.cluster.list("Job", lake.namespace, labels=WORKER)


def test_one_worker_takes_in_the_files_of_two_tables_within_seconds(
    warm: Lake, record_property: Callable[[str, object], None]
) -> None:
    for table in ("people", "orders"):
        warm.land(table, "first", some_rows(range(10)))
        warm.apply_table(table)
        warm.wait_for_ids(table, range(10))
    took = []
    for number in range(10, 20):
        table = ("people", "orders")[number % 2]
        count = len(ingests(warm, table))
        warm.land(table, f"one-{number}", some_rows(range(number, number + 1)))
        landed_s = time.monotonic()
        warm.wait_for_operation(table, "ingest", count=count + 1)
        took.append(round(time.monotonic() - landed_s, 1))
    record_property("seconds from landing to commit", took)
    print("seconds from landing to commit:", took)
    assert sorted(warm.by_id("people")) == [*range(10), *range(10, 20, 2)]
    assert sorted(warm.by_id("orders")) == [*range(10), *range(11, 20, 2)]
    (job,) = workers(warm)
    done = [*ingests(warm, "people"), *ingests(warm, "orders")]
    assert {item["worker"] for item in done} == {job["metadata"]["name"]}
    assert warm.jobs("people") == []
    # Without a worker a pod alone takes longer than this to start.
    assert statistics.median(took) < 15


def test_a_worker_killed_while_it_writes_is_a_dead_driver(warm: Lake) -> None:
    warm.land("people", "many", some_rows(range(MANY)))
    warm.apply_table("people")
    instant = warm.wait_for_inflight("people")
    (pod,) = warm.running(WORKER)
    assert pod["metadata"]["labels"]["tideline.dev/table"] == "people"
    warm.cluster.kill_containers(pod)
    lost = warm.wait_for_operation("people", "ingest", "Failed", timeout_s=60)
    assert "SIGKILL" in lost["message"]
    undone = warm.wait_for_operation("people", "rollback", timeout_s=90)
    assert undone["startedAt"] > lost["finishedAt"]
    done = warm.wait_for_operation("people", "ingest")
    assert done["instant"] != instant
    assert done.get("attempt", 1) == 2
    assert sorted(warm.by_id("people")) == list(range(MANY))
    assert warm.inflight("people") == []
    assert len({job["metadata"]["name"] for job in workers(warm)}) == 2


def test_an_idle_worker_that_is_killed_costs_the_next_operation_nothing(warm: Lake) -> None:
    warm.land("people", "first", some_rows(range(10)))
    warm.apply_table("people")
    warm.wait_for_ids("people", range(10))
    (pod,) = warm.running(WORKER)
    assert "tideline.dev/operation" not in pod["metadata"]["labels"]
    warm.cluster.kill_containers(pod)
    warm.land("people", "second", some_rows(range(10, 20)))
    warm.wait_for_ids("people", range(20))
    done = ingests(warm, "people")[-1]
    assert (done["phase"], done.get("attempt", 1), done.get("failures", 0)) == ("Succeeded", 1, 0)
    first = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
    assert done["worker"] != first


def test_leaders_that_are_killed_while_they_assignment_lose_and_repeat_nothing(
    warm: Lake, operator: Operator
) -> None:
    operator.scale(2)
    try:
        warm.land("people", "first", some_rows(range(10)))
        warm.apply_table("people")
        warm.wait_for_ids("people", range(10))
        for number in range(10, 13):
            leading = operator.leading_pod()
            warm.land("people", f"one-{number}", some_rows(range(number, number + 1)))
            warm.cluster.wait_until(
                lambda: under_way(warm, "people"), "it is recorded", timeout_s=30, every_s=0.02
            )
            operator.kill(leading)
            warm.wait_for_ids("people", range(number + 1))
        warm.wait_for_operation("people", "ingest", count=4)
        done = ingests(warm, "people")
        assert [(item.get("attempt", 1), item.get("failures", 0)) for item in done] == [(1, 0)] * 4
        assert len({item["worker"] for item in done}) == 1
    finally:
        operator.scale(1)


def test_a_write_at_a_worker_goes_on_while_the_operator_is_away(
    warm: Lake, operator: Operator
) -> None:
    warm.land("people", "many", some_rows(range(MANY)))
    warm.apply_table("people")
    instant = warm.wait_for_inflight("people")
    operator.scale(0)
    warm.cluster.wait_until(
        lambda: not warm.inflight("people"), "it ends without an operator", timeout_s=120
    )
    assert under_way(warm, "people")
    operator.scale(1)
    done = warm.wait_for_operation("people", "ingest")
    assert (done["instant"], done.get("attempt", 1)) == (instant, 1)
    assert sorted(warm.by_id("people")) == list(range(MANY))


def under_way(lake: Lake, table: str) -> bool:
    """Whether the status names an operation that has begun or is about to."""
    operations = lake.get(table).get("status", {}).get("operations", [])
    return any(operation["phase"] in ("Pending", "Running") for operation in operations)


def ingests(lake: Lake, table: str) -> list[Manifest]:
    operations = lake.get(table)["status"]["operations"]
    return [
        operation
        for operation in operations
        if (operation["kind"], operation["phase"]) == ("ingest", "Succeeded")
    ]
