"""Deaths while work is under way: no row is lost, and none is duplicated.

Each test makes sure that what it kills has died, and that it died in the middle of a write.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from e2e.harness.cluster import Manifest
from e2e.harness.installation import Operator
from e2e.harness.lake import DRIVER, EXECUTOR, SMALL_RESOURCES, Lake, Row
from e2e.harness.long_write import MANY, assert_each_row_once, begin_to_write
from e2e.harness.object_store import ClusterMinio


def some_rows(ids: Sequence[int], ts: int = 1) -> list[Row]:
    return [{"id": number, "ts": ts, "name": f"row {number} of {ts}"} for number in ids]


def wait_for_task(lake: Lake, executors: Sequence[Manifest]) -> Manifest:
    """Wait until a task runs on one of these executors: its pod."""
    found: list[Manifest] = []

    def runs_a_task() -> bool:
        for pod in executors:
            log = lake.cluster.kubectl("logs", "-n", lake.namespace, pod["metadata"]["name"])
            if log.count(": Running task ") > log.count(": Finished task "):
                found.append(pod)
        return bool(found)

    lake.cluster.wait_until(runs_a_task, "an executor writes", timeout_s=60, every_s=0.1)
    return found[0]


@pytest.mark.ci
def test_a_driver_killed_while_it_writes_is_rolled_back_and_its_files_ingested_once(
    lake: Lake,
) -> None:
    instant = begin_to_write(lake)
    lake.cluster.kill_containers(lake.wait_for_pod(DRIVER))
    lost = lake.wait_for_operation("people", "ingest", "Failed", timeout_s=60)
    assert "SIGKILL" in lost["message"]
    assert instant in lake.wait_for("people", "Healthy", "False", timeout_s=30)["message"]
    # The heartbeat would count as alive for another ten minutes.
    undone = lake.wait_for_operation("people", "rollback", timeout_s=90)
    assert undone["startedAt"] > lost["finishedAt"]
    stored = [path.rpartition("/")[2][:17] for path in lake.paths("people/.hoodie/timeline/2")]
    assert stored
    assert instant not in stored
    done = lake.wait_for_operation("people", "ingest")
    assert done["startedAt"] > undone["finishedAt"]
    assert done["instant"] != instant
    assert done.get("attempt", 1) == 2
    assert_each_row_once(lake, lost=instant)


@pytest.mark.ci
def test_an_executor_killed_while_it_writes_is_replaced_and_the_write_goes_on(lake: Lake) -> None:
    share = MANY // 8
    for number in range(8):
        ids = range(number * share, (number + 1) * share)
        lake.land("people", f"share-{number}", some_rows(ids))
    executor = {**SMALL_RESOURCES["executor"], "min": 2, "max": 2}
    # On its own the driver writes so few rows alone, and there are no executors.
    lake.apply_table(
        "people",
        resources={**SMALL_RESOURCES, "executor": executor},
        engine={"small": "Spark"},
    )
    instant = lake.wait_for_inflight("people")
    executors = lake.running(EXECUTOR)
    assert len(executors) == 2
    lake.cluster.kill_containers(wait_for_task(lake, executors))
    assert lake.inflight("people") == [instant], "the write was over before the executor died"
    first = {pod["metadata"]["name"] for pod in executors}
    lake.cluster.wait_until(
        lambda: {pod["metadata"]["name"] for pod in lake.pods(EXECUTOR)} - first,
        "an executor comes in its place",
        timeout_s=60,
        every_s=0.1,
    )
    done = lake.wait_for_operation("people", "ingest")
    assert (done["instant"], done.get("attempt", 1)) == (instant, 1)
    assert_each_row_once(lake)


def test_an_operation_recorded_before_its_job_was_created_is_started_by_the_next_operator(
    lake: Lake, operator: Operator
) -> None:
    lake.forbid_jobs()
    lake.land("people", "first", some_rows(range(10)))
    lake.apply_table("people")
    refused = lake.wait_for_operation("people", "ingest", "Failed")
    assert "quota" in refused["message"]
    assert lake.jobs("people") == []
    operator.scale(0)
    # What a death between the two steps leaves: the operation is recorded, and there is no Job.
    kept = ("id", "kind", "subject", "startedAt", "memoryBytes")
    written = {name: refused[name] for name in kept if name in refused}
    change = {"status": {"operations": [{**written, "phase": "Pending", "attempt": 1}]}}
    lake.cluster.patch_status("LakeTable", "people", lake.namespace, change)
    lake.allow_jobs()
    operator.scale(1)
    lake.wait_for_ids("people", range(10))
    done = lake.wait_for_operation("people", "ingest")
    assert (done["id"], done.get("attempt", 1)) == (refused["id"], 1)
    assert [job["metadata"]["name"] for job in lake.jobs("people")] == [f"{refused['id']}-1"]


def test_jobs_go_on_while_no_operator_runs_and_are_not_started_again(
    lake: Lake, operator: Operator
) -> None:
    begin_to_write(lake)
    operator.scale(0)
    lake.cluster.wait_until(
        lambda: all(job.get("status", {}).get("succeeded") for job in lake.jobs("people")),
        "the Job ends without an operator",
        timeout_s=240,
    )
    assert lake.get("people")["status"]["operations"][-1]["phase"] == "Running"
    operator.scale(1)
    done = lake.wait_for_operation("people", "ingest")
    assert done.get("attempt", 1) == 1
    assert_each_row_once(lake)
    assert len(lake.jobs("people")) == 1


@pytest.mark.ci
def test_the_other_replica_takes_over_when_the_leader_is_killed_while_a_job_runs(
    lake: Lake, operator: Operator
) -> None:
    operator.scale(2)
    try:
        leading = operator.leading_pod()
        (standby,) = [pod for pod in operator.pods() if pod_name(pod) != pod_name(leading)]
        begin_to_write(lake)
        (before,) = lake.jobs("people")
        # No replacement of the killed one finds a node.
        operator.close_nodes()
        operator.kill(leading)
        assert lake.get("people")["status"]["operations"][-1]["phase"] == "Running"
        lake.cluster.wait_until(
            lambda: operator.leader().startswith(pod_name(standby)),
            "the other replica leads",
            timeout_s=60,
        )
        done = lake.wait_for_operation("people", "ingest")
        assert done.get("attempt", 1) == 1
        (after,) = lake.jobs("people")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert_each_row_once(lake)
    finally:
        operator.open_nodes()
        operator.scale(1)


def pod_name(pod: Manifest) -> str:
    return str(pod["metadata"]["name"])


def test_a_write_survives_an_outage_of_the_object_store(lake: Lake, minio: ClusterMinio) -> None:
    # Spark repeats tasks that fail. A driver alone gives up sooner, and the next attempt writes.
    instant = begin_to_write(lake, "Spark")
    minio.go_away()
    try:
        lake.wait_for("people", "Ready", "False", reason="StorageUnavailable", timeout_s=120)
        lake.wait_for("people", "Healthy", "Unknown", timeout_s=10)
        (entry,) = lake.get("people")["status"]["operations"]
        assert entry["phase"] == "Running", "the write was over before the store was missed"
    finally:
        minio.come_back()
    assert lake.inflight("people") == [instant], "the write was over before the store went away"
    done = lake.wait_for_operation("people", "ingest")
    assert (done["instant"], done.get("attempt", 1)) == (instant, 1)
    assert_each_row_once(lake)
    lake.wait_for("people", "Ready")
    lake.wait_for("people", "Healthy")


def test_a_job_that_is_deleted_by_hand_is_retried(lake: Lake) -> None:
    # The driver alone would be done before its Job is.
    instant = begin_to_write(lake, "Spark")
    (job,) = lake.jobs("people")
    (driver,) = lake.running(DRIVER)
    name = job["metadata"]["name"]
    lake.cluster.kubectl("delete", "job", name, "-n", lake.namespace, "--wait=false")
    lake.cluster.wait_gone("Job", name, lake.namespace, timeout_s=120)
    lake.cluster.wait_gone("Pod", driver["metadata"]["name"], lake.namespace, timeout_s=120)
    done = lake.wait_for_operation("people", "ingest")
    assert done.get("attempt", 1) == 2
    assert done["instant"] != instant
    assert [again["metadata"]["name"] for again in lake.jobs("people")] == [f"{done['id']}-2"]
    assert_each_row_once(lake, lost=instant)
