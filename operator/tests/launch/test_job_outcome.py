"""What became of a Job, from the Job, its pods and its events as the API server shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.ingest.operation.result import OUT_OF_MEMORY, WORKER_DIED, OperationResult, Outcome
from tideline_operator.api_objects import Manifest
from tideline_operator.launch import job_outcome
from tideline_operator.launch.job_outcome import Active, Ended, JobOutcome, Lost
from tideline_operator.report.status import retry_delay_ms

DONE = OperationResult("people-ingest-1", Outcome.SUCCEEDED, instant="20260101000000000")
BROKEN = OperationResult("people-ingest-1", Outcome.FAILED, message="no Java", exit_code=1)


STOPPED_MS = int(datetime.fromisoformat("2026-01-01T10:00:00Z").timestamp() * 1000)
SILENT_MS = int(DEFAULT_LIMITS.silent_s_max * 1000)


def outcome_of(
    job: Manifest, pods: list[Manifest], events: list[Manifest] | tuple[()] = (), now_ms: int = 0
) -> JobOutcome:
    return job_outcome.outcome_of(job, pods, events, now_ms=now_ms or STOPPED_MS)


def job(*conditions: Manifest) -> Manifest:
    labels = {"tideline.dev/operation": "people-ingest-1"}
    metadata = {"name": "people-ingest-1-1", "uid": "j1", "labels": labels}
    return {"metadata": metadata, "status": {"conditions": list(conditions)}}


def condition(kind: str, reason: str = "", message: str = "", status: str = "True") -> Manifest:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def pod(phase: str, state: Manifest | None = None, **status: Any) -> Manifest:
    containers = [{"name": "sidecar", "state": {"running": {}}}]
    if state is not None:
        containers.append({"name": "engine", "state": state})
    labels = {"tideline.dev/role": "driver"}
    return {
        "metadata": {"name": "p", "labels": labels, "ownerReferences": [{"uid": "j1"}]},
        "status": {"phase": phase, "containerStatuses": containers, **status},
    }


def ended(code: int = 0, message: str = "", reason: str = "Error") -> Manifest:
    return {"terminated": {"exitCode": code, "message": message, "reason": reason}}


def waiting(reason: str, message: str = "") -> Manifest:
    return {"waiting": {"reason": reason, "message": message}}


FAILED = condition("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")


def test_the_result_is_the_termination_message() -> None:
    done = pod("Succeeded", ended(0, DONE.to_json(), "Completed"))
    assert outcome_of(job(condition("Complete")), [done]) == Ended(DONE)


def test_a_result_counts_before_the_job_is_marked_as_done() -> None:
    assert outcome_of(job(), [pod("Running", ended(1, BROKEN.to_json()))]) == Ended(BROKEN)


def test_a_result_of_failure_counts_as_one() -> None:
    assert outcome_of(job(FAILED), [pod("Failed", ended(1, BROKEN.to_json()))]) == Ended(BROKEN)


def test_a_failure_with_a_process_killed_for_memory_says_so() -> None:
    outcome = outcome_of(job(FAILED), [pod("Failed", ended(1, BROKEN.to_json(), "OOMKilled"))])
    assert isinstance(outcome, Ended)
    assert "spec.resources.driver.memory" in outcome.result.message
    assert "no Java" in outcome.result.message
    assert not outcome.result.is_safe_to_retry


@pytest.mark.parametrize(
    ("reason", "error"), [("OOMKilled", OUT_OF_MEMORY), ("Error", WORKER_DIED)]
)
def test_more_of_the_same_does_not_help_what_lacks_memory(reason: str, error: str) -> None:
    outcome = outcome_of(job(FAILED), [pod("Failed", ended(137, reason=reason))])
    assert isinstance(outcome, Lost)
    assert outcome.error == error
    result = OperationResult("x", Outcome.FAILED, exit_code=1, error=outcome.error)
    first_ms = retry_delay_ms(1, is_safe=result.is_safe_to_retry)
    assert first_ms == (30_000 if error == OUT_OF_MEMORY else 2_000)


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        (pod("Failed", ended(137, reason="OOMKilled")), ["OOMKilled", "driver.memory"]),
        (pod("Failed", ended(137)), ["SIGKILL", "137"]),
        (pod("Failed", ended(143)), ["SIGTERM"]),
        (pod("Failed", ended(2)), ["exit code 2", "no result"]),
        (pod("Failed", ended(1, "Killed")), ["exit code 1"]),
        (pod("Failed", ended(1, '{"id": "x"}')), ["exit code 1"]),
        (
            pod("Failed", reason="Evicted", message="The node was low on resource: memory."),
            ["Evicted", "low on resource"],
        ),
        (
            pod(
                "Failed",
                ended(137),
                conditions=[condition("DisruptionTarget", "PreemptionByScheduler", "preempting")],
            ),
            ["PreemptionByScheduler", "preempting"],
        ),
        (pod("Failed"), ["without a message"]),
    ],
)
def test_a_driver_that_ended_without_a_result_is_lost_with_the_reason(
    driver: Manifest, words: list[str]
) -> None:
    outcome = outcome_of(job(FAILED), [driver])
    assert isinstance(outcome, Lost)
    assert all(word in outcome.message for word in words)


def test_a_failed_job_without_a_pod_is_lost() -> None:
    over = condition("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
    outcome = outcome_of(job(over), [])
    assert isinstance(outcome, Lost)
    assert "DeadlineExceeded" in outcome.message


def test_a_complete_job_whose_pod_was_deleted_has_lost_its_result() -> None:
    assert isinstance(outcome_of(job(condition("Complete")), []), Lost)


def test_a_job_that_fails_while_its_driver_still_runs_is_waited_for() -> None:
    driver = stopping(pod("Running", {"running": {}}))
    outcome = outcome_of(job(condition("FailureTarget", "DeadlineExceeded")), [driver])
    lost_at_ms = STOPPED_MS + SILENT_MS
    assert outcome == Active("its pod is being stopped", is_started=True, lost_at_ms=lost_at_ms)


@pytest.mark.parametrize(
    ("driver", "is_stuck", "words"),
    [
        (pod("Pending", waiting("ContainerCreating")), False, ["ContainerCreating"]),
        (pod("Pending"), False, ["being set up"]),
        (
            pod("Pending", waiting("ImagePullBackOff", 'pulling image "x"')),
            True,
            ["ImagePullBackOff", 'image "x"'],
        ),
        (
            pod("Pending", waiting("CreateContainerConfigError", 'secret "keys" not found')),
            True,
            ['secret "keys" not found'],
        ),
        (
            pod(
                "Pending",
                conditions=[
                    condition("PodScheduled", "Unschedulable", "0/1 nodes: no memory", "False")
                ],
            ),
            True,
            ["Unschedulable", "no memory"],
        ),
    ],
)
def test_what_prevents_a_driver_from_starting_is_reported(
    driver: Manifest, is_stuck: bool, words: list[str]
) -> None:
    outcome = outcome_of(job(), [driver])
    assert isinstance(outcome, Active)
    assert (outcome.is_started, outcome.is_stuck) == (False, is_stuck)
    assert all(word in outcome.message for word in words)


def test_a_running_driver_is_active() -> None:
    outcome = outcome_of(job(), [pod("Running", {"running": {}})])
    assert outcome == Active("is running", is_started=True)


def test_executors_that_cannot_start_are_reported() -> None:
    executor = pod(
        "Pending", conditions=[condition("PodScheduled", "Unschedulable", "no memory", "False")]
    )
    labels = {"tideline.dev/role": "executor", "tideline.dev/operation": "people-ingest-1"}
    executor["metadata"] = {"name": "e-1", "labels": labels, "ownerReferences": [{"uid": "p"}]}
    outcome = outcome_of(job(), [executor, pod("Running", {"running": {}})])
    assert isinstance(outcome, Active)
    assert outcome.is_started
    assert outcome.is_stuck
    assert "e-1" in outcome.message


def test_pods_of_others_do_not_count() -> None:
    other = pod("Succeeded", ended(0, DONE.to_json()))
    other["metadata"]["ownerReferences"] = [{"uid": "j2"}]
    assert outcome_of(job(), [other]) == Active("waiting for its pod", is_started=False)


@pytest.mark.parametrize(
    "event",
    [
        {"note": "exceeded quota: small", "deprecatedLastTimestamp": "2026-01-02T00:00:00Z"},
        {"message": "exceeded quota: small", "lastTimestamp": "2026-01-02T00:00:00Z"},
    ],
)
def test_a_job_without_a_pod_has_the_reason_of_its_newest_event(event: Manifest) -> None:
    newest = {"type": "Warning", "reason": "FailedCreate", **event}
    older = {"type": "Warning", "reason": "Other", "eventTime": "2026-01-01T00:00:00Z"}
    outcome = outcome_of(job(), [], [older, newest, {"type": "Normal"}])
    assert isinstance(outcome, Active)
    assert outcome.is_stuck
    assert "FailedCreate: exceeded quota: small" in outcome.message


def test_a_driver_that_was_stopped_at_its_deadline_says_so() -> None:
    late = condition("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
    outcome = outcome_of(job(late), [pod("Failed", ended(1, BROKEN.to_json()))])
    assert isinstance(outcome, Ended)
    assert outcome.result.message == (
        "DeadlineExceeded: Job was active longer than specified deadline; no Java"
    )
    assert outcome_of(job(late), []) == Lost(
        "its pod was deleted: DeadlineExceeded: Job was active longer than specified deadline"
    )


@pytest.mark.parametrize(
    ("text", "lacks_room"),
    [
        ("0/3 nodes are available: 3 Insufficient memory.", True),
        ("0/3 nodes are available: 2 node(s) didn't match selector, 1 Insufficient cpu.", True),
        ("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.", False),
        ("0/3 nodes are available: 3 node(s) had untolerated taint {a: b}.", False),
    ],
)
def test_a_pod_without_room_may_start_without_a_change(text: str, lacks_room: bool) -> None:
    scheduled = condition("PodScheduled", "Unschedulable", text, status="False")
    outcome = outcome_of(job(), [pod("Pending", conditions=[scheduled])])
    assert isinstance(outcome, Active)
    assert (outcome.is_stuck, outcome.is_started, outcome.lacks_room) == (True, False, lacks_room)


@pytest.mark.parametrize(
    ("note", "lacks_room"),
    [
        ("pods is forbidden: exceeded quota: small, requested: memory=2Gi", True),
        ('violates PodSecurity "restricted:latest": unrestricted capabilities', False),
        ("is forbidden: failed quota: small: must specify limits.cpu", False),
    ],
)
def test_a_job_that_is_refused_pods_may_start_when_a_quota_has_room(
    note: str, lacks_room: bool
) -> None:
    event = {"type": "Warning", "reason": "FailedCreate", "message": note}
    outcome = outcome_of(job(), [], [event])
    assert isinstance(outcome, Active)
    assert (outcome.is_stuck, outcome.lacks_room) == (True, lacks_room)


def stopping(driver: Manifest) -> Manifest:
    """A pod whose grace period ended at `STOPPED_MS`."""
    deleted = {**driver["metadata"], "deletionTimestamp": "2026-01-01T10:00:00Z"}
    return {**driver, "metadata": deleted}


TAINTED = condition("DisruptionTarget", "DeletionByTaintManager", "NoExecute taint")
TARGETED = condition("FailureTarget", "DeadlineExceeded", "Job was active longer than specified")


@pytest.mark.parametrize("conditions", [(), (TARGETED,)], ids=["active", "FailureTarget"])
@pytest.mark.parametrize(
    "driver",
    [
        pod("Running", {"running": {}}, conditions=[TAINTED]),
        pod("Unknown", {"running": {}}, conditions=[TAINTED]),
        pod("Pending", waiting("ContainerCreating"), conditions=[TAINTED]),
    ],
    ids=["running", "unknown", "pending"],
)
def test_a_driver_on_a_lost_node_is_lost_when_its_heartbeat_would_be_old(
    driver: Manifest, conditions: tuple[Manifest, ...]
) -> None:
    stopped, lost_at_ms = stopping(driver), STOPPED_MS + SILENT_MS
    before = outcome_of(job(*conditions), [stopped], now_ms=lost_at_ms - 1)
    assert isinstance(before, Active)
    assert before.lost_at_ms == lost_at_ms
    after = outcome_of(job(*conditions), [stopped], now_ms=lost_at_ms)
    assert isinstance(after, Lost)
    assert "its node does not confirm it" in after.message
    assert "DeletionByTaintManager: NoExecute taint" in after.message


def test_a_driver_that_nobody_stops_is_never_lost() -> None:
    outcome = outcome_of(job(), [pod("Running", {"running": {}})], now_ms=STOPPED_MS * 2)
    assert outcome == Active("is running", is_started=True)


def test_a_result_of_a_driver_on_a_lost_node_counts() -> None:
    stopped = stopping(pod("Running", ended(0, DONE.to_json(), "Completed")))
    assert outcome_of(job(), [stopped], now_ms=STOPPED_MS + SILENT_MS) == Ended(DONE)
