"""What became of an operation at a worker: from every state of its pod."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.ingest.operation.assignment import REPORT_ANNOTATION, WorkerReport
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline_operator.api_objects import Manifest
from tideline_operator.launch import worker_outcome as outcomes
from tideline_operator.launch.job_outcome import Active, Ended, Lost
from tideline_operator.launch.worker_outcome import NeverBegun, NotBegun, WorkerOutcome
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import OperationPhase, OperationStatus

ENTRY = OperationStatus(
    id="people-ingest-1",
    kind="ingest",
    phase=OperationPhase.RUNNING,
    attempt=2,
    started_at=Timestamp(0),
    worker="tideline-worker-1",
    pod_uid="0f",
)
DONE = WorkerReport("people-ingest-1", 2, OperationResult("people-ingest-1", Outcome.SUCCEEDED))
TAKEN = WorkerReport("people-ingest-1", 2)
EARLIER = WorkerReport("people-ingest-1", 1, OperationResult("people-ingest-1", Outcome.FAILED))
ANOTHER = WorkerReport("orders-ingest-1", 2, OperationResult("x", Outcome.SUCCEEDED))
JOB: Manifest = {"metadata": {"name": "tideline-worker-1", "uid": "1f"}}


STOPPED_MS = int(datetime.fromisoformat("2026-01-01T10:00:00Z").timestamp() * 1000)
SILENT_MS = int(DEFAULT_LIMITS.silent_s_max * 1000)


def worker_outcome(
    entry: OperationStatus,
    job: Manifest | None,
    pod: Manifest | None,
    events: list[Manifest] | tuple[()] = (),
    now_ms: int = STOPPED_MS,
) -> WorkerOutcome:
    return outcomes.worker_outcome(entry, job, pod, events, now_ms=now_ms)


def pod(
    report: WorkerReport | None = None,
    *,
    phase: str = "Running",
    exit_code: int | None = None,
    message: WorkerReport | None = None,
    uid: str = "0f",
) -> Manifest:
    state: dict[str, Any] = {"running": {}} if phase == "Running" else {}
    if exit_code is not None:
        text = message.to_json() if message else ""
        state = {"terminated": {"exitCode": exit_code, "message": text}}
    annotations = {} if report is None else {REPORT_ANNOTATION: report.to_json()}
    return {
        "metadata": {"name": "w", "uid": uid, "annotations": annotations},
        "status": {"phase": phase, "containerStatuses": [{"name": "engine", "state": state}]},
    }


def ended(exit_code: int, message: WorkerReport | None = None, **given: Any) -> Manifest:
    return pod(phase="Failed", exit_code=exit_code, message=message, **given)


@pytest.mark.parametrize("report", [None, ANOTHER, EARLIER])
def test_a_running_worker_that_does_not_name_it_has_not_begun(report: WorkerReport | None) -> None:
    assert isinstance(worker_outcome(ENTRY, JOB, pod(report)), NotBegun)


def test_a_running_worker_that_names_it_is_at_it() -> None:
    assert worker_outcome(ENTRY, JOB, pod(TAKEN)) == Active("is running", is_started=True)


@pytest.mark.parametrize(
    "found", [pod(DONE), ended(0, DONE), ended(137, DONE), ended(1, report=DONE)]
)
def test_a_result_counts_whatever_became_of_the_worker(found: Manifest) -> None:
    assert worker_outcome(ENTRY, JOB, found) == Ended(DONE.result)  # type: ignore[arg-type]


def test_the_last_word_is_newer_than_what_the_pod_shows() -> None:
    assert worker_outcome(ENTRY, JOB, ended(137, DONE, report=TAKEN)) == Ended(DONE.result)  # type: ignore[arg-type]
    assert isinstance(worker_outcome(ENTRY, JOB, ended(137, TAKEN, report=EARLIER)), Lost)


@pytest.mark.parametrize("found", [ended(137, TAKEN), ended(137, report=TAKEN), ended(0, TAKEN)])
def test_a_worker_that_ended_in_the_middle_of_it_is_lost(found: Manifest) -> None:
    assert isinstance(worker_outcome(ENTRY, JOB, found), Lost)


@pytest.mark.parametrize(
    "found",
    [ended(0), ended(143), ended(0, ANOTHER), ended(137, ANOTHER), ended(137, report=EARLIER)],
)
def test_a_worker_that_ended_before_it_never_began(found: Manifest) -> None:
    assert isinstance(worker_outcome(ENTRY, JOB, found), NeverBegun)


def test_a_worker_that_ended_without_a_word_counts_as_lost() -> None:
    assert isinstance(worker_outcome(ENTRY, JOB, ended(137)), Lost)
    assert isinstance(worker_outcome(ENTRY, JOB, pod(phase="Failed")), Lost)


@pytest.mark.parametrize("found", [None, pod(DONE, uid="another")])
def test_a_pod_that_got_it_and_is_gone_is_lost(found: Manifest | None) -> None:
    assert isinstance(worker_outcome(ENTRY, JOB, found), Lost)


def test_before_it_has_a_pod_nothing_was_handed_over() -> None:
    entry = OperationStatus(
        id="x", kind="ingest", phase=OperationPhase.PENDING, started_at=Timestamp(0), worker="w"
    )
    assert isinstance(worker_outcome(entry, JOB, None), NotBegun)
    assert isinstance(worker_outcome(entry, None, None), NeverBegun)
    deleted = {"metadata": {**JOB["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert isinstance(worker_outcome(entry, deleted, None), NeverBegun)
    over = {**JOB, "status": {"conditions": [{"type": "Failed", "status": "True"}]}}
    assert isinstance(worker_outcome(entry, over, None), NeverBegun)


@pytest.mark.parametrize("report", [None, ANOTHER, EARLIER, TAKEN])
def test_an_operation_at_a_worker_on_a_lost_node_is_lost(report: WorkerReport | None) -> None:
    stopped = pod(report)
    stopped["metadata"]["deletionTimestamp"] = "2026-01-01T10:00:00Z"
    before = worker_outcome(ENTRY, JOB, stopped, now_ms=STOPPED_MS + SILENT_MS - 1)
    waiting = before.waiting if isinstance(before, NotBegun) else before
    assert isinstance(waiting, Active)
    assert waiting.lost_at_ms == STOPPED_MS + SILENT_MS
    after = worker_outcome(ENTRY, JOB, stopped, now_ms=STOPPED_MS + SILENT_MS)
    assert isinstance(after, Lost)
    assert "its node does not confirm it" in after.message


def test_a_result_at_a_worker_on_a_lost_node_counts() -> None:
    stopped = pod(DONE)
    stopped["metadata"]["deletionTimestamp"] = "2026-01-01T10:00:00Z"
    outcome = worker_outcome(ENTRY, JOB, stopped, now_ms=STOPPED_MS + SILENT_MS)
    assert isinstance(outcome, Ended)
