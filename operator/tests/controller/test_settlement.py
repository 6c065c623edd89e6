"""What became of the operations under way: statuses compared with Jobs and pods, caches behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.ingest.operation.assignment import REPORT_ANNOTATION, WorkerReport
from tideline.ingest.operation.result import WORKER_DIED, OperationResult, Outcome
from tideline.testing.fake_clock import FakeClock
from tideline_operator.api_objects import JOBS, ApiResource, Manifest
from tideline_operator.controller.object_cache import ObjectCache
from tideline_operator.controller.settlement import Settlement, Settler, to_be_replaced
from tideline_operator.controller.warm_workers import WarmWorkers
from tideline_operator.controller.worker_settlement import WorkerSettler
from tideline_operator.kube import KubeApi
from tideline_operator.launch.driver_job import OPERATION_LABEL, TABLE_LABEL
from tideline_operator.launch.engine_pod import LaunchSettings
from tideline_operator.launch.job_outcome import JOB_NAME_LABEL, Active
from tideline_operator.launch.made_from import MADE_FROM_LABEL
from tideline_operator.launch.worker_job import WORKER_LABEL
from tideline_operator.launch.worker_launcher import WorkerLauncher
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import LakeTableStatus, OperationPhase, OperationStatus

KEY = ("lake", "people")
ID = "people-ingest-1"
START_MS, PATIENCE_S = 1_767_225_600_000, 120.0
SILENT_S = int(DEFAULT_LIMITS.silent_s_max)
DONE = OperationResult(ID, Outcome.SUCCEEDED, instant="20260101000000000")


class LiveServer(KubeApi):
    """What the API server has by now; the caches may differ."""

    def __init__(self) -> None:
        self.jobs: list[Manifest] = []
        self.pods: list[Manifest] = []
        self.deleted: list[str] = []

    def get(self, resource: ApiResource, name: str, *_: Any) -> Any:
        assert resource is JOBS
        return next((job for job in self.jobs if job["metadata"]["name"] == name), None)

    def list(self, resource: ApiResource, *_: Any, **__: Any) -> Any:
        return (self.pods if resource.kind == "Pod" else []), "1"

    def delete(self, resource: ApiResource, name: str, *_: Any, **__: Any) -> Any:
        assert resource is JOBS
        self.deleted.append(name)


class Case:
    """A table with one operation under way."""

    def __init__(self, phase: OperationPhase = OperationPhase.RUNNING, attempt: int = 1) -> None:
        self.server = LiveServer()
        self.jobs, self.pods = ObjectCache(label=TABLE_LABEL), ObjectCache(label=TABLE_LABEL)
        self.workers = WarmWorkers(FakeClock())
        self.entry = OperationStatus(
            id=ID, kind="ingest", phase=phase, attempt=attempt, started_at=Timestamp(START_MS)
        )
        self.status = LakeTableStatus(operations=(self.entry,))

    def settle(self, after_s: float = 1.0) -> Settlement:
        launcher = WorkerLauncher(self.server, LaunchSettings("engine"))
        at_workers = WorkerSettler(self.server, self.workers, launcher)
        settler = Settler(self.server, self.jobs, self.pods, PATIENCE_S, at_workers)
        return settler.settle(KEY, self.status, START_MS + int(after_s * 1000))


def job(attempt: int = 1, *conditions: str, **metadata: Any) -> Manifest:
    labels = {TABLE_LABEL: "people", OPERATION_LABEL: ID, "tideline.dev/kind": "ingest"}
    return {
        "metadata": {
            "name": f"{ID}-{attempt}",
            "namespace": "lake",
            "uid": f"job-{attempt}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            **metadata,
        },
        "status": {"conditions": [{"type": kind, "status": "True"} for kind in conditions]},
    }


def driver(phase: str, state: Manifest | None = None, attempt: int = 1) -> Manifest:
    labels = {TABLE_LABEL: "people", OPERATION_LABEL: ID, "tideline.dev/role": "driver"}
    containers = [] if state is None else [{"name": "engine", "state": state}]
    return {
        "metadata": {
            "name": f"{ID}-{attempt}-x",
            "namespace": "lake",
            "uid": f"pod-{attempt}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            "ownerReferences": [{"uid": f"job-{attempt}"}],
        },
        "status": {"phase": phase, "containerStatuses": containers},
    }


RUNNING = driver("Running", {"running": {}})
SUCCEEDED = driver("Succeeded", {"terminated": {"exitCode": 0, "message": DONE.to_json()}})


def test_a_recorded_operation_without_a_job_is_still_to_be_started() -> None:
    found = Case(OperationPhase.PENDING).settle()
    assert found.pending is not None and found.pending.id == ID
    assert not found.is_half_started and not found.running and not found.ended


def test_a_job_whose_pod_waits_may_lack_its_config_map_and_is_started_once_more() -> None:
    case = Case(OperationPhase.PENDING)
    case.jobs.put(job())
    found = case.settle()
    assert found.pending is not None and found.is_half_started


def test_a_job_that_no_cache_has_yet_is_read_from_the_server() -> None:
    case = Case(OperationPhase.PENDING)
    case.server.jobs.append(job())
    case.pods.put(RUNNING)
    found = case.settle()
    assert found.running == {ID} and found.pending is None
    assert found.status.operations[0].pod_uid == "pod-1"


def test_a_job_deleted_by_hand_counts_as_lost_once_its_pods_have_ended() -> None:
    case = Case()
    case.pods.put(RUNNING)
    found = case.settle()
    assert found.running == {ID} and not found.ended
    case.pods.remove(RUNNING)
    ((entry, result),) = case.settle().ended
    assert (entry.id, result.outcome, result.error) == (ID, Outcome.FAILED, WORKER_DIED)
    assert result.message == "its Job was deleted"


def test_a_result_is_the_end_of_its_operation() -> None:
    case = Case()
    case.jobs.put(job(1, "Complete"))
    case.pods.put(SUCCEEDED)
    found = case.settle()
    assert found.ended == [(replace(case.entry, pod_uid="pod-1"), DONE)]
    assert found.status.operations[0].phase is OperationPhase.SUCCEEDED
    assert not found.running


def test_a_termination_message_after_the_end_of_the_job_counts() -> None:
    case = Case()
    case.jobs.put(job(1, "Complete"))
    case.server.jobs.append(job(1, "Complete"))
    case.server.pods.append(SUCCEEDED)
    ((_, result),) = case.settle().ended
    assert result == DONE


def test_a_job_without_pods_for_too_long_is_deleted_and_then_counts_as_given_up() -> None:
    case = Case()
    case.jobs.put(job())
    found = case.settle(PATIENCE_S - 1)
    assert found.running and not case.server.deleted
    assert found.late_at_ms == START_MS + int(PATIENCE_S * 1000)
    found = case.settle(PATIENCE_S)
    assert case.server.deleted == [f"{ID}-1"] and found.is_given_up and not found.ended
    case.status = found.status
    case.jobs.remove(job())
    ((_, result),) = case.settle(PATIENCE_S + 1).ended
    assert result.message.startswith("given up after 120 s: waiting for its pod")


def test_a_job_that_is_missing_in_the_status_is_adopted() -> None:
    case = Case()
    case.status = LakeTableStatus()
    case.jobs.put(job(3))
    case.pods.put(driver("Running", {"running": {}}, attempt=3))
    found = case.settle()
    (entry,) = found.status.operations
    assert (entry.id, entry.attempt, entry.phase) == (ID, 3, OperationPhase.RUNNING)
    assert found.running == {ID} and found.attempts == {ID: 3}


@pytest.mark.parametrize(
    ("condition", "kind"),
    [("Complete", "ingest"), ("Failed", "ingest"), ("", "of another product")],
)
def test_jobs_that_ended_or_are_not_ours_are_not_adopted(condition: str, kind: str) -> None:
    case = Case()
    case.status = LakeTableStatus()
    found = job(1, *filter(None, [condition]))
    found["metadata"]["labels"]["tideline.dev/kind"] = kind
    case.jobs.put(found)
    settled = case.settle()
    assert settled.status.operations == () and not settled.running


def test_a_job_of_an_earlier_attempt_is_left_alone() -> None:
    case = Case(attempt=2)
    case.jobs.put(job(1))
    case.jobs.put(job(2))
    case.pods.put(driver("Running", {"running": {}}, attempt=2))
    found = case.settle()
    assert [item.attempt for item in found.status.operations] == [2]
    assert found.attempts == {ID: 2}


def pulling(reason: str = "ImagePullBackOff") -> Manifest:
    return driver("Pending", {"waiting": {"reason": reason}})


def unschedulable(text: str) -> Manifest:
    pod = driver("Pending")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pod["status"]["conditions"] = [{**condition, "message": text}]
    return pod


@pytest.mark.parametrize(
    ("pod", "after_s", "holds_place"),
    [
        (pulling(), 1.0, False),
        (pulling("ContainerCreating"), 1.0, True),
        (unschedulable("1 node(s) didn't match Pod's node affinity/selector"), 1.0, False),
        (unschedulable("1 Insufficient memory"), 1.0, True),
        (unschedulable("1 Insufficient memory"), 61.0, False),
        (RUNNING, 1.0, True),
    ],
)
def test_an_operation_that_cannot_start_holds_no_place(
    pod: Manifest, after_s: float, holds_place: bool
) -> None:
    case = Case()
    case.jobs.put(job())
    case.pods.put(pod)
    found = case.settle(after_s)
    assert found.running == {ID} and bool(found.places) is holds_place


def test_a_job_whose_driver_never_ran_says_what_it_was_made_from() -> None:
    case = Case()
    made = job()
    made["metadata"]["labels"][MADE_FROM_LABEL] = "abc"
    case.jobs.put(made)
    case.pods.put(pulling())
    ((entry, made_from),) = case.settle().unstarted
    assert (entry.id, made_from) == (ID, "abc")
    case.pods.remove(pulling())
    case.pods.put(RUNNING)
    assert case.settle().unstarted == []


def test_a_job_that_was_replaced_is_to_be_started_again_with_another_name() -> None:
    case = Case()
    entry = replace(case.entry, pod_uid="pod-1")
    case.status = LakeTableStatus(operations=(to_be_replaced(entry),))
    going = job(deletionTimestamp="2026-01-01T00:00:05Z")
    case.jobs.put(going)
    case.pods.put(pulling())
    found = case.settle()
    assert found.running == {ID} and not found.places and not found.unstarted
    assert found.status.operations[0].message == to_be_replaced(case.entry).message
    case.jobs.remove(going)
    case.pods.remove(pulling())
    found = case.settle()
    assert found.pending is not None and not found.ended and not found.running
    assert (found.pending.phase, found.pending.attempt) == (OperationPhase.PENDING, 2)
    # A pod of the last attempt would mean that a worker has it.
    assert (found.pending.message, found.pending.pod_uid) == ("", "")


class Working(WorkerSettler):
    """Workers that work for ever."""

    def outcome(self, *_: object) -> Active:
        return Active("is running", is_started=True)


def test_an_operation_at_a_worker_has_a_deadline() -> None:
    case = Case()
    launcher = WorkerLauncher(case.server, LaunchSettings("engine"))
    workers = Working(case.server, WarmWorkers(FakeClock()), launcher)
    settler = Settler(case.server, case.jobs, case.pods, PATIENCE_S, workers, deadline_s=3_600)
    status = LakeTableStatus(operations=(replace(case.entry, worker="worker-1"),))
    found = settler.settle(KEY, status, START_MS + 3_600_000)
    assert found.running == {ID} and case.server.deleted == []
    found = settler.settle(KEY, status, START_MS + 3_601_000)
    # It is under way until its worker has undone its write.
    assert found.running == {ID} and case.server.deleted == ["worker-1"]


def stopped(pod: Manifest) -> Manifest:
    """A pod whose node was to have ended it when its operation began."""
    deleted = {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    return {**pod, "metadata": deleted}


@pytest.mark.parametrize("conditions", [(), ("FailureTarget",)], ids=["active", "FailureTarget"])
def test_an_operation_on_a_lost_node_ends_when_its_heartbeat_would_be_old(
    conditions: tuple[str, ...],
) -> None:
    case = Case()
    case.jobs.put(job(1, *conditions))
    case.server.jobs = [job(1, *conditions)]
    case.pods.put(stopped(RUNNING))
    case.server.pods = [stopped(RUNNING)]
    waits = case.settle(after_s=SILENT_S - 1)
    assert waits.running == {ID}
    assert waits.late_at_ms == START_MS + SILENT_S * 1000
    found = case.settle(after_s=SILENT_S)
    assert not found.running
    (entry, result), *_ = found.ended
    assert (entry.id, result.error) == (ID, WORKER_DIED)
    assert "its node does not confirm it" in result.message
    assert case.server.deleted == []


def test_pods_of_a_deleted_job_on_a_lost_node_do_not_keep_it_under_way() -> None:
    case = Case()
    case.pods.put(stopped(RUNNING))
    waits = case.settle(after_s=SILENT_S - 1)
    assert (waits.running, waits.late_at_ms) == ({ID}, START_MS + SILENT_S * 1000)
    found = case.settle(after_s=SILENT_S)
    assert [result.message for _, result in found.ended] == ["its Job was deleted"]


def test_a_lost_job_that_no_status_names_is_not_adopted() -> None:
    case = Case()
    case.status = LakeTableStatus()
    case.jobs.put(job())
    case.pods.put(stopped(RUNNING))
    assert case.settle(after_s=SILENT_S - 1).running == {ID}
    assert case.settle(after_s=SILENT_S).running == set()


WORKER = "tideline-worker-1"


def at_worker(case: Case, pod: Manifest) -> None:
    """The operation of the case waits for a worker, which has this pod."""
    case.status = LakeTableStatus(operations=(replace(case.entry, worker=WORKER),))
    labels = {**pod["metadata"]["labels"], WORKER_LABEL: "a", JOB_NAME_LABEL: WORKER}
    owner = [{"uid": WORKER}]
    shown = {**pod["metadata"], "labels": labels, "ownerReferences": owner}
    made = job(name=WORKER, uid=WORKER)
    made["metadata"]["labels"] = {WORKER_LABEL: "a"}
    case.workers.note_job(None, made)
    case.workers.note_pod(None, {**pod, "metadata": shown})


@pytest.mark.parametrize(
    ("pod", "after_s", "holds_place"),
    [
        (pulling(), 1.0, False),
        (unschedulable("1 Insufficient memory"), 59.0, True),
        (unschedulable("1 Insufficient memory"), 61.0, False),
    ],
)
def test_an_operation_whose_worker_cannot_start_holds_no_place(
    pod: Manifest, after_s: float, holds_place: bool
) -> None:
    case = Case(OperationPhase.PENDING)
    at_worker(case, pod)
    found = case.settle(after_s)
    assert found.pending is not None and found.pending.worker == WORKER
    assert found.pending_holds_place is holds_place


def shown_by_worker(report: WorkerReport) -> Manifest:
    """A worker's pod that is labelled for the operation of the case and says this."""
    pod = driver("Running", {"running": {}})
    labels = {**pod["metadata"]["labels"], "tideline.dev/kind": "ingest", WORKER_LABEL: "a"}
    annotations = {REPORT_ANNOTATION: report.to_json()}
    shown = {**pod["metadata"], "labels": labels, "annotations": annotations}
    return {**pod, "metadata": shown}


def test_what_a_worker_is_at_is_adopted() -> None:
    case = Case()
    case.status = LakeTableStatus()
    case.pods.put(shown_by_worker(WorkerReport(ID, 3)))
    found = case.settle()
    (entry,) = found.status.operations
    assert (entry.id, entry.attempt, found.running) == (ID, 3, {ID})


@pytest.mark.parametrize(
    "report",
    [WorkerReport("people-ingest-0", 1), WorkerReport(ID, 1, DONE)],
    ids=["of another operation", "with the result"],
)
def test_what_a_worker_said_before_is_not_adopted(report: WorkerReport) -> None:
    """Its labels and its report are not written at once."""
    case = Case()
    case.status = LakeTableStatus()
    case.pods.put(shown_by_worker(report))
    found = case.settle()
    assert found.status.operations == () and not found.running
