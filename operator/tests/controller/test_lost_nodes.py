"""Nodes that are lost or cut off: their pods stay in deletion, and nobody confirms their end.

Each case is played by a controller in memory, and on a real API server.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.open_table import open_table
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import next_instant_time
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.operation.assignment import REPORT_ANNOTATION
from tideline.ingest.operation.operation import RollBack, writer_name
from tideline.ingest.operation.result import Outcome
from tideline.storage.heartbeat import heartbeat_path
from tideline.storage.location import StoreLocation
from tideline.testing.iceberg_model import IcebergModel
from tideline_operator.api_objects import LAKE_STORES, PODS, Manifest
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.memory_api import MemoryCase
from tideline_operator.testing.shifted_clock import ShiftedClock
from tideline_operator.testing.worker_pods import until_worker

NODE = "node-1"
GRACE_S, SILENT_S = 60.0, DEFAULT_LIMITS.silent_s_max
SERVERS = ["memory", pytest.param("real server", marks=pytest.mark.api_server)]


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture(params=SERVERS)
def case(
    request: pytest.FixtureRequest, clock: ShiftedClock, tmp_path: Path
) -> Iterator[ControllerCase]:
    if request.param == "memory":
        yield MemoryCase(tmp_path, clock)
        return
    server = request.getfixturevalue("api_server")
    namespace = request.getfixturevalue("namespace")
    with ControllerCase(server, namespace, tmp_path, clock) as case:
        yield case


def running_ingest(case: ControllerCase) -> tuple[Manifest, Manifest]:
    """An ingest's Job and its driver, which the controller has seen."""
    case.land("a.parquet")
    case.declare()
    case.start()
    case.cluster.carry_out(case.until_job("create"))
    job = case.until_job("ingest")
    return job, seen_pod(case, job)


def seen_pod(case: ControllerCase, job: Manifest) -> Manifest:
    pod = case.cluster.start_pod(job, node=NODE)
    uid = pod["metadata"]["uid"]
    case.until(lambda: case.operations()[-1].get("podUid") == uid, "the pod was seen")
    return pod


class Write:
    """A write under way, and its heartbeat."""

    def __init__(self, case: ControllerCase, clock: ShiftedClock, pod: Manifest) -> None:
        self._clock = clock
        labels = pod["metadata"]["labels"]
        writer = writer_name(labels["tideline.dev/operation"], pod["metadata"]["uid"])
        hoodie = open_table(StoreLocation.of(f"file://{case.folder}/people"))
        self.time = next_instant_time(clock.now_ms(), hoodie.timeline().newest_time())
        self._heartbeat = case.folder / "people" / heartbeat_path(str(self.time))
        hoodie.store.put(heartbeat_path(str(self.time)), writer.encode())
        hoodie.timelines.to_inflight(hoodie.timelines.create_requested(self.time, Action.COMMIT))
        self.renew()

    def renew(self) -> None:
        self._date(self._clock.now_ms() / 1000)

    def grow_old(self) -> None:
        """By the machine's clock, which an engine goes by."""
        self._date(time.time() - SILENT_S - 1)

    def _date(self, moment_s: float) -> None:
        os.utime(self._heartbeat, (moment_s, moment_s))


def wait(case: ControllerCase, clock: ShiftedClock, seconds: float) -> None:
    """Let time pass, and the controller look at the table."""
    clock.advance(seconds)
    touch(case)


def until_lost(case: ControllerCase, clock: ShiftedClock) -> None:
    """The grace period passes as well, and what follows on a failure."""
    wait(case, clock, GRACE_S + 2)

    def lost() -> Manifest | None:
        failed = (operation for operation in case.operations() if operation["phase"] == "Failed")
        return next(failed, None)

    found = case.until(lost, "it counts as lost")
    assert found["error"] == "WorkerDied"
    assert "its node does not confirm it" in found["message"]
    wait(case, clock, 5)


def touch(case: ControllerCase) -> None:
    turns = case.turns()
    case.change("people", {"metadata": {"labels": {"touched": f"at-{time.monotonic_ns()}"}}})
    case.until(lambda: case.turns() > turns, "another turn was taken")


def roll_back(case: ControllerCase, job: Manifest, write: Write) -> None:
    operation = case.cluster.operation_of(job)
    assert isinstance(operation.work, RollBack)
    assert operation.work.instants == (str(write.time),)
    write.grow_old()
    result = execute_operation(operation, session_factory=_no_spark)
    assert result.outcome is Outcome.SUCCEEDED, result
    case.cluster.finish(job, result)


def _no_spark(_: object) -> NoReturn:
    raise AssertionError("a rollback needs no Spark")


def others(case: ControllerCase, job: Manifest) -> list[str]:
    names = [str(active_job["metadata"]["name"]) for active_job in case.cluster.active_jobs()]
    return [name for name in names if name != job["metadata"]["name"]]


def test_a_dead_driver_is_rolled_back_and_its_operation_run_again(
    case: ControllerCase, clock: ShiftedClock
) -> None:
    job, pod = running_ingest(case)
    write = Write(case, clock, pod)
    case.cluster.lose_driver(job, pod)
    wait(case, clock, SILENT_S)
    assert case.operations()[-1]["phase"] == "Running"
    assert others(case, job) == []
    until_lost(case, clock)
    rollback = case.until_job(but=(job["metadata"]["name"],))
    roll_back(case, rollback, write)
    again = case.until_job("ingest", but=(job["metadata"]["name"],))
    assert case.cluster.carry_out(again).outcome is Outcome.SUCCEEDED


def test_while_a_driver_that_is_cut_off_renews_its_heartbeat_nothing_begins(
    case: ControllerCase, clock: ShiftedClock
) -> None:
    job, pod = running_ingest(case)
    write = Write(case, clock, pod)
    case.cluster.lose_driver(job, pod)
    clock.advance(SILENT_S + GRACE_S + 2)
    write.renew()
    touch(case)
    for _ in range(3):
        touch(case)
        assert others(case, job) == []
        clock.advance(SILENT_S - 60)
        write.renew()
    wait(case, clock, SILENT_S + 1)
    roll_back(case, case.until_job(but=(job["metadata"]["name"],)), write)


def test_executors_on_a_lost_node_do_not_keep_a_dead_write(
    case: ControllerCase, clock: ShiftedClock
) -> None:
    job, pod = running_ingest(case)
    executor = case.cluster.start_executor(job, node=NODE)
    write = Write(case, clock, pod)
    end = {"exitCode": 137, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}
    case.cluster.set_pod(pod["metadata"]["name"], "Failed", {"terminated": end})
    case.cluster.end_job(job, failed=True)
    case.cluster.lose_node(executor)
    touch(case)
    assert others(case, job) == []
    case.until(
        lambda: case.condition("Healthy")["reason"] == "DeadWriter", "the dead write is seen"
    )
    wait(case, clock, SILENT_S + 1)
    roll_back(case, case.until_job(but=(job["metadata"]["name"],)), write)


def test_an_operation_at_a_warm_worker_goes_to_another(
    case: ControllerCase, clock: ShiftedClock
) -> None:
    store: Manifest = {
        "apiVersion": LAKE_STORES.api_version,
        "kind": LAKE_STORES.kind,
        "metadata": {"name": "store", "namespace": case.namespace},
        "spec": {"engine": {"warm": {"maxWorkers": 1}}},
    }
    case.api.create(LAKE_STORES, store, case.namespace)
    case.declare(storeRef="store")
    case.start()
    first = until_worker(case)
    pod = seen_pod(case, first)
    case.until(lambda: case.operations()[-1]["phase"] == "Running", "it was handed over")
    name, pod_name = first["metadata"]["name"], pod["metadata"]["name"]
    taken = json.dumps({"operation": case.operations()[-1]["id"], "attempt": 1})
    shown = {"metadata": {"annotations": {REPORT_ANNOTATION: taken}}}
    case.api.patch(PODS, pod_name, shown, case.namespace)
    case.cluster.lose_driver(first, pod)
    wait(case, clock, SILENT_S)
    assert others(case, first) == []
    until_lost(case, clock)
    second = until_worker(case, but=(name,))
    seen_pod(case, second)
    (create,) = case.operations()
    assert (create["worker"], create["attempt"]) == (second["metadata"]["name"], 2)


def test_the_work_on_an_iceberg_table_is_planned_again(
    case: ControllerCase, clock: ShiftedClock
) -> None:
    """It has no heartbeat, and needs none: of two commits the table takes one."""
    IcebergModel.create_in(f"{case.folder}/people", 5)
    spec: dict[str, Any] = dict.fromkeys(("recordKey", "ordering", "schema", "ingest"))
    spec["services"] = {"removeOrphanFiles": {"enabled": False}}
    case.declare(format="Iceberg", **spec)
    case.start()
    job = case.until_job("rewrite")
    pod = seen_pod(case, job)
    case.cluster.lose_driver(job, pod)
    wait(case, clock, SILENT_S)
    assert others(case, job) == []
    until_lost(case, clock)
    again = case.until_job("rewrite", but=(job["metadata"]["name"],))
    assert case.cluster.operation_of(again).work == case.cluster.operation_of(job).work
