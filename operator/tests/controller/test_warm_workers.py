"""Warm workers on a real API server: the controller, and workers as processes of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tideline.clock import SystemClock
from tideline.ingest.operation.assignment import REPORT_ANNOTATION
from tideline_operator.api_objects import (
    CONFIG_MAPS,
    JOBS,
    LAKE_STORES,
    LAKE_TABLES,
    PODS,
    SECRETS,
    Manifest,
)
from tideline_operator.decide.observed import Observed
from tideline_operator.reading.access import Access
from tideline_operator.reading.table_reading import TableReading
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus, OperationPhase
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.worker_pods import WorkerPods, until_worker, worker_jobs

pytestmark = pytest.mark.api_server

OPERATION = "tideline.dev/operation"


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


@pytest.fixture
def workers(case: ControllerCase, api_server: ApiServer, tmp_path: Path) -> WorkerPods:
    return WorkerPods(case, api_server, tmp_path)


def declare_store(case: ControllerCase, **warm: Any) -> None:
    case.declare_store(engine={"warm": warm})


def declare(case: ControllerCase, name: str = "people", **spec: Any) -> None:
    off = {service: {"enabled": False} for service in ("cleaning", "archiving", "clustering")}
    case.declare(name, storeRef="store", services=off, **spec)


def ended(case: ControllerCase, table: str = "people", kind: str = "ingest") -> list[Manifest]:
    """The operations of that kind that succeeded."""
    return [
        operation
        for operation in case.operations(table)
        if operation["kind"] == kind and operation["phase"] == "Succeeded"
    ]


def until_ingested(case: ControllerCase, number: int = 1, table: str = "people") -> None:
    case.until(lambda: len(ended(case, table)) >= number, f"{number} ingests", timeout_s=60)


def test_one_worker_carries_out_what_two_tables_need(
    case: ControllerCase, workers: WorkerPods
) -> None:
    declare_store(case)
    declare(case)
    case.land_rows(a=1)
    case.start()
    with workers:
        until_ingested(case)
        declare(case, "orders")
        case.land_rows("orders", b=2)
        until_ingested(case, table="orders")
        (job,) = case.cluster.all_jobs()
        names = {
            operation["worker"]
            for table in ("people", "orders")
            for operation in case.operations(table)
        }
        assert names == {job["metadata"]["name"]}
        (pod,) = workers.pods.values()
        shown = case.api.get(PODS, pod.name, case.namespace)
        assert shown is not None
        assert OPERATION not in shown["metadata"]["labels"]
        # What is done with does not pile up.
        left = case.api.list(CONFIG_MAPS, case.namespace, labels="tideline.dev/assignee")[0]
        assert left == []
        case.until_ready()
        assert case.measured("tideline_warm_workers", state="idle") == 1
        assert case.measured("tideline_warm_workers", state="busy") == 0


def test_an_idle_worker_ends_and_the_next_operation_starts_another(
    case: ControllerCase, workers: WorkerPods
) -> None:
    declare_store(case, idle="1s")
    declare(case)
    case.start()
    with workers:
        case.until(lambda: workers.ended, "the worker ended", timeout_s=60)
        assert workers.ended[0].process.returncode == 0
        case.land_rows(a=1)
        until_ingested(case)
    assert {operation.get("attempt", 1) for operation in case.operations()} == {1}


def test_an_idle_worker_that_is_stopped_ends_at_once_and_another_goes_on(
    case: ControllerCase, workers: WorkerPods
) -> None:
    declare_store(case)
    declare(case)
    case.start()
    with workers:
        case.until(lambda: ended(case, kind="create"), "it was created", timeout_s=60)
        workers.until_one().stop()
        case.until(lambda: workers.ended, "the worker ended", timeout_s=10)
        assert workers.ended[0].process.returncode == 143
        case.land_rows(a=1)
        until_ingested(case)
    assert [operation.get("failures", 0) for operation in case.operations()] == [0, 0]


def test_a_store_without_warm_workers_gets_none(case: ControllerCase) -> None:
    case.declare_store()
    declare(case)
    case.start()
    case.until_job("create")
    assert worker_jobs(case) == []


def test_a_worker_killed_before_its_operation_began_costs_no_attempt(
    case: ControllerCase, workers: WorkerPods
) -> None:
    declare_store(case)
    declare(case)
    case.start()
    first = until_worker(case)
    pod = case.cluster.start_pod(first)
    uid = pod["metadata"]["uid"]
    case.until(lambda: case.operations()[-1].get("podUid") == uid, "it was handed over")
    end = {"exitCode": 143, "reason": "Error", "message": "", "finishedAt": "2026-01-01T00:00:00Z"}
    case.cluster.set_pod(pod["metadata"]["name"], "Failed", {"terminated": end})
    case.cluster.end_job(first, failed=True)
    name = first["metadata"]["name"]
    second = until_worker(case, but=(name,))
    with workers:
        case.until(lambda: ended(case, kind="create"), "it was created", timeout_s=60)
    (created,) = [operation for operation in case.operations() if operation["kind"] == "create"]
    assert created["worker"] == second["metadata"]["name"]
    assert (created.get("attempt", 1), created.get("failures", 0)) == (1, 0)


def test_a_worker_killed_in_the_middle_is_a_dead_driver(
    case: ControllerCase, workers: WorkerPods
) -> None:
    declare_store(case)
    declare(case)
    case.start()
    first = until_worker(case)
    pod = case.cluster.start_pod(first)
    uid = pod["metadata"]["uid"]
    case.until(lambda: case.operations()[-1].get("podUid") == uid, "it was handed over")
    taken = json.dumps({"operation": case.operations()[-1]["id"], "attempt": 1})
    end = {
        "exitCode": 137,
        "reason": "OOMKilled",
        "message": taken,
        "finishedAt": "2026-01-01T00:00:00Z",
    }
    case.cluster.set_pod(pod["metadata"]["name"], "Failed", {"terminated": end})
    case.cluster.end_job(first, failed=True)
    case.until(lambda: case.operations()[-1]["phase"] == "Failed", "its end was seen")
    assert case.operations()[-1]["error"] == "OutOfMemory"
    assert "OOMKilled" in case.operations()[-1]["message"]
    with workers:
        case.until(lambda: ended(case, kind="create"), "the next attempt", timeout_s=60)
    assert case.operations()[-1]["attempt"] == 2


def test_a_result_is_not_lost_when_worker_and_controller_end_before_it_is_in_the_status(
    case: ControllerCase, workers: WorkerPods
) -> None:
    declare_store(case, idle="1s")
    declare(case)
    case.start()
    job = until_worker(case)
    # Its pod is there, and the process begins when the controller has gone.
    pod = case.cluster.start_pod(job)
    uid = pod["metadata"]["uid"]
    case.until(lambda: case.operations()[-1].get("podUid") == uid, "it was handed over")
    case.until(lambda: case.operations()[-1]["phase"] == "Running", "it is noted")
    case.stop()
    workers.run_in(job, pod)
    with workers:
        case.until(lambda: workers.ended, "the worker ended", timeout_s=60)
        assert "succeeded" in workers.ended[0].message.read_text()
        assert case.operations()[-1]["phase"] == "Running"
        case.start()
        case.until(lambda: ended(case, kind="create"), "its result came")
    (created,) = [operation for operation in case.operations() if operation["kind"] == "create"]
    assert created["worker"] == job["metadata"]["name"]


def test_a_worker_that_is_busy_is_waited_for(case: ControllerCase) -> None:
    declare_store(case, maxWorkers=1)
    declare(case)
    case.start()
    until_worker(case)
    declare(case, "orders")
    case.until(
        lambda: "in line for 1 warm worker" in case.condition("Ready", "orders").get("message", ""),
        "it waits",
    )
    assert len(case.cluster.all_jobs()) == 1


class LooksLate(TableReading):
    """Looks at the table `people` after its first operation only when `orders` has the worker."""

    def __init__(self, case: ControllerCase) -> None:
        super().__init__(SystemClock())
        self._case = case
        self.looked_late = False

    def observe(
        self,
        access: Access,
        table: ResolvedTable,
        status: LakeTableStatus,
        *,
        running: frozenset[str] = frozenset(),
    ) -> Observed:
        has_ended = any(item.phase is OperationPhase.SUCCEEDED for item in status.operations)
        if table.resource.metadata.name == "people" and has_ended and not self.looked_late:
            self._case.until(lambda: self._case.operations("orders"), "orders has the worker")
            self.looked_late = True
        return super().observe(access, table, status, running=running)


def test_a_worker_is_free_for_others_before_its_table_is_looked_at(
    case: ControllerCase, workers: WorkerPods
) -> None:
    declare_store(case, maxWorkers=1)
    reader = LooksLate(case)
    declare(case)
    case.start(reader=reader)
    until_worker(case)
    declare(case, "orders")
    case.until(
        lambda: "in line for 1 warm worker" in case.condition("Ready", "orders").get("message", ""),
        "it waits",
    )
    with workers:
        case.until(lambda: ended(case, kind="create"), "people was created")
        case.until(lambda: ended(case, "orders", "create"), "orders was created")
    assert reader.looked_late


def test_an_operation_that_is_too_large_gets_a_job_of_its_own(
    case: ControllerCase, workers: WorkerPods
) -> None:
    declare_store(case, maxBytes="10")
    declare(case)
    case.land_rows(a=1)
    case.start()
    with workers:
        job = case.until_job("ingest")
        assert "tideline.dev/worker" not in job["metadata"]["labels"]
        assert case.operations()[-1].get("worker", "") == ""


def test_a_rotated_secret_makes_another_worker(case: ControllerCase, workers: WorkerPods) -> None:
    """A worker has the credentials it was started with."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "keys", "namespace": case.namespace},
        "stringData": {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"},
    }
    case.api.create(SECRETS, secret, case.namespace)
    declare_store(case)
    case.api.patch(
        LAKE_STORES,
        "store",
        {"spec": {"credentials": {"secretName": "keys"}}},
        case.namespace,
    )
    declare(case)
    case.start()
    with workers:
        case.until(lambda: ended(case, kind="create"), "it was created", timeout_s=60)
        (first,) = worker_jobs(case)
        changed = {"stringData": {"AWS_SECRET_ACCESS_KEY": "c"}}
        case.api.patch(SECRETS, "keys", changed, case.namespace)
        case.stop()
        case.start()
        case.land_rows(a=1)
        until_ingested(case)
        assert case.operations()[-1]["worker"] != first["metadata"]["name"]


def test_a_table_that_is_deleted_stops_the_worker_that_has_its_operation(
    case: ControllerCase,
) -> None:
    declare_store(case)
    declare(case, deletionPolicy="Delete")
    case.start()
    job = until_worker(case)
    pod = case.cluster.start_pod(job)
    uid = pod["metadata"]["uid"]
    case.until(lambda: case.operations()[-1].get("podUid") == uid, "it was handed over")
    case.api.delete(LAKE_TABLES, "people", case.namespace)

    def is_stopped() -> bool:
        found = case.api.get(JOBS, job["metadata"]["name"], case.namespace)
        return found is None or bool(found["metadata"].get("deletionTimestamp"))

    case.until(is_stopped, "the worker is stopped")
    case.api.patch(LAKE_TABLES, "people", {"metadata": {"finalizers": None}}, case.namespace)


def test_what_a_busy_worker_says_survives_the_loss_of_the_status(case: ControllerCase) -> None:
    declare_store(case)
    declare(case)
    case.start()
    job = until_worker(case)
    pod = case.cluster.start_pod(job)
    uid = pod["metadata"]["uid"]
    case.until(lambda: case.operations()[-1].get("podUid") == uid, "it was handed over")
    operation = case.operations()[-1]["id"]
    case.stop()
    labels = {OPERATION: operation, "tideline.dev/table": "people", "tideline.dev/kind": "create"}
    report = json.dumps({"operation": operation, "attempt": 1})
    shown = {"metadata": {"labels": labels, "annotations": {REPORT_ANNOTATION: report}}}
    case.api.patch(PODS, pod["metadata"]["name"], shown, case.namespace)
    lost = {"status": {"operations": None}}
    case.api.patch(LAKE_TABLES, "people", lost, case.namespace, subresource="status")
    case.start()
    case.until(lambda: case.operations(), "it is known again")
    (entry,) = case.operations()
    assert (entry["id"], entry["phase"], entry["podUid"]) == (operation, "Running", uid)
    assert len(case.cluster.all_jobs()) == 1
