"""Whatever dies while work is under way: no row is lost, and none is there twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from e2e.harness.cluster import Cluster, Manifest
from e2e.harness.installation import Operator
from e2e.harness.lake import SMALL_RESOURCES, Lake, Row
from e2e.harness.object_store import ClusterMinio

DRIVER = "tideline.dev/role=driver"
EXECUTOR = "tideline.dev/role=executor"
MANY = 200_000


def some_rows(ids: Sequence[int], ts: int = 1) -> list[Row]:
    return [{"id": number, "ts": ts, "name": f"row {number} of {ts}"} for number in ids]


def kill_processes(cluster: Cluster, pod: Manifest) -> None:
    """SIGKILL for everything in a pod's container, as when memory runs out."""
    metadata = pod["metadata"]
    where = ["-n", metadata["namespace"], metadata["name"], "-c", "engine"]
    # The command that kills is among what it kills, so it does not end well.
    cluster.kubectl("exec", *where, "--", "sh", "-c", "kill -9 -1", check=False)


def wait_for_inflight(lake: Lake, table: str) -> str:
    """Wait until a commit has begun to write; returns its instant."""

    def inflight() -> list[str]:
        return [path for path in lake.paths(f"{table}/.hoodie/") if path.endswith(".inflight")]

    lake.cluster.wait_until(inflight, "a commit begins", timeout_s=240, every_s=0.05)
    return inflight()[0].rpartition("/")[2].partition(".")[0]


def wait_for_pod(lake: Lake, labels: str) -> Manifest:
    def running() -> list[Manifest]:
        return [pod for pod in lake.pods(labels) if pod["status"].get("phase") == "Running"]

    lake.cluster.wait_until(running, f"a pod {labels} runs", timeout_s=240, every_s=0.1)
    return running()[0]


@pytest.mark.ci
def test_a_driver_killed_while_it_writes_is_rolled_back_and_its_files_taken_in_once(
    lake: Lake,
) -> None:
    lake.land("people", "many", some_rows(range(MANY)))
    lake.apply_table("people")
    instant = wait_for_inflight(lake, "people")
    kill_processes(lake.cluster, wait_for_pod(lake, DRIVER))
    lost = lake.wait_for_operation("people", "ingest", "Failed", timeout_s=60)
    assert lost["message"]
    assert instant in lake.wait_for("people", "Healthy", "False", timeout_s=30)["message"]
    # The heartbeat would count as alive for ten minutes more.
    undone = lake.wait_for_operation("people", "rollback", timeout_s=90)
    assert undone["startedAt"] > lost["finishedAt"]
    assert instant not in [path.rpartition("/")[2][:17] for path in lake.paths("people/.hoodie/2")]
    done = lake.wait_for_operation("people", "ingest")
    assert done["startedAt"] > undone["finishedAt"]
    assert done["instant"] != instant
    assert done.get("attempt", 1) == 2
    assert sorted(lake.by_id("people")) == list(range(MANY))
    left = [path for path in lake.paths("people/") if instant in path and ".hoodie" not in path]
    assert left == []


@pytest.mark.ci
def test_an_executor_killed_while_it_writes_does_not_end_the_write(lake: Lake) -> None:
    share = MANY // 8
    for number in range(8):
        ids = range(number * share, (number + 1) * share)
        lake.land("people", f"share-{number}", some_rows(ids))
    executor = {**SMALL_RESOURCES["executor"], "min": 2, "max": 2}
    lake.apply_table("people", resources={**SMALL_RESOURCES, "executor": executor})
    wait_for_inflight(lake, "people")
    executors = lake.pods(EXECUTOR)
    assert len(executors) == 2
    kill_processes(lake.cluster, executors[0])
    done = lake.wait_for_operation("people", "ingest")
    assert done.get("attempt", 1) == 1
    assert sorted(lake.by_id("people")) == list(range(MANY))


def test_an_operation_written_before_its_job_was_created_is_started_by_the_next_operator(
    lake: Lake, operator: Operator
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-jobs", "namespace": lake.namespace},
        "spec": {"hard": {"count/jobs.batch": "0"}},
    }
    lake.cluster.apply(quota)
    lake.land("people", "first", some_rows(range(10)))
    lake.apply_table("people")
    refused = lake.wait_for_operation("people", "ingest", "Failed")
    assert "quota" in refused["message"]
    assert lake.jobs("people") == []
    operator.scale(0)
    # What a death between the two steps leaves: the operation is written, and there is no Job.
    kept = ("id", "kind", "subject", "startedAt", "memoryBytes")
    written = {name: refused[name] for name in kept if name in refused}
    change = {"status": {"operations": [{**written, "phase": "Pending", "attempt": 1}]}}
    lake.cluster.patch_status("LakeTable", "people", lake.namespace, change)
    lake.cluster.kubectl("delete", "resourcequota", "no-jobs", "-n", lake.namespace)
    operator.scale(1)
    lake.wait_for_ids("people", range(10))
    done = lake.wait_for_operation("people", "ingest")
    assert (done["id"], done.get("attempt", 1)) == (refused["id"], 1)
    assert [job["metadata"]["name"] for job in lake.jobs("people")] == [f"{refused['id']}-1"]


def test_jobs_go_on_while_no_operator_runs_and_are_not_started_again(
    lake: Lake, operator: Operator
) -> None:
    lake.land("people", "many", some_rows(range(MANY)))
    lake.apply_table("people")
    wait_for_pod(lake, DRIVER)
    operator.scale(0)
    lake.cluster.wait_until(
        lambda: all(job.get("status", {}).get("succeeded") for job in lake.jobs("people")),
        "the Job ends by itself",
        timeout_s=240,
    )
    operator.scale(1)
    done = lake.wait_for_operation("people", "ingest")
    assert done.get("attempt", 1) == 1
    assert sorted(lake.by_id("people")) == list(range(MANY))
    assert len([job for job in lake.jobs("people") if "-ingest-" in job["metadata"]["name"]]) == 1


@pytest.mark.ci
def test_another_replica_takes_over_when_the_leader_is_killed(
    lake: Lake, operator: Operator
) -> None:
    operator.scale(2)
    try:
        leader = operator.leader()
        pod = next(pod for pod in operator.pods() if pod["metadata"]["name"] in leader)
        operator.kill(pod["metadata"]["name"])
        lake.land("people", "first", some_rows(range(10)))
        lake.apply_table("people")
        lake.wait_for_ids("people", range(10))
        assert operator.leader() != leader
    finally:
        operator.scale(1)


def test_tables_go_on_after_the_object_store_was_away(lake: Lake, minio: ClusterMinio) -> None:
    lake.land("people", "first", some_rows(range(10)))
    lake.apply_table("people")
    lake.wait_for_ids("people", range(10))
    minio.restart()
    lake.land("people", "second", some_rows(range(10, 20)))
    lake.wait_for_ids("people", range(20))
    lake.wait_for("people", "Ready")


def test_a_job_that_is_deleted_by_hand_is_done_again(lake: Lake) -> None:
    lake.land("people", "many", some_rows(range(MANY)))
    lake.apply_table("people")
    wait_for_inflight(lake, "people")
    for job in lake.jobs("people"):
        lake.cluster.delete("Job", job["metadata"]["name"], lake.namespace)
    lake.wait_for_ids("people", range(MANY))
