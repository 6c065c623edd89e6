"""What became of an operation that was assigned to a warm worker, from its Job and pod. Pure.

The worker's report, in its pod's metadata or in its termination message, decides:

1. It has the result: that counts, whatever became of the worker.
2. It names the operation without a result: under way while the pod runs, lost once that has ended
   or counts as such (job_outcome.py).
3. It does not name it: not begun. In a pod that runs it may begin at any time. A pod that ended and
   left word of what it took last, or ended on its own or when asked to, never began it. One that
   ended in another way without a word counts as lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tideline.ingest.operation.assignment import REPORT_ANNOTATION, WorkerReport
from tideline_operator.api_objects import Manifest
from tideline_operator.launch.job_outcome import (
    Active,
    Ended,
    Lost,
    container_end,
    counts_as_ended,
    is_over,
    lost,
    outcome_of,
    pod_lost_at_ms,
)
from tideline_operator.resources.status import OperationStatus

_ORDERLY = (0, 143)
"""Exit codes of a worker that ends on its own, or when asked to."""


@dataclass(frozen=True, slots=True)
class NotBegun:
    """It waits for its worker, which `waiting` describes; `waiting.is_started` once it runs."""

    waiting: Active


@dataclass(frozen=True, slots=True)
class NeverBegun:
    """Its worker is gone and has not begun it: another may have it at once."""

    message: str


WorkerOutcome = NotBegun | NeverBegun | Active | Ended | Lost


def worker_outcome(
    entry: OperationStatus,
    job: Manifest | None,
    pod: Manifest | None,
    events: Sequence[Manifest] = (),
    *,
    now_ms: int,
) -> WorkerOutcome:
    """What became of the operation `entry`; `job` and `pod` are those of its worker."""
    if pod is not None and entry.pod_uid not in ("", str(pod["metadata"].get("uid"))):
        pod = None
    if pod is None:
        return _without_pod(entry, job, events, now_ms)
    report = report_of(pod)
    is_named = report is not None and report.is_of(entry.id, entry.attempt)
    if report is not None and is_named and report.result is not None:
        return Ended(report.result)
    if not counts_as_ended(pod, now_ms):
        lost_at_ms = pod_lost_at_ms(pod)
        if is_named:
            return Active("is running", is_started=True, lost_at_ms=lost_at_ms)
        waiting = Active("its worker has not begun it", is_started=True, lost_at_ms=lost_at_ms)
        if job is not None and not _runs(pod):
            found = outcome_of(job, [pod], events, now_ms=now_ms)
            waiting = found if isinstance(found, Active) else waiting
        return NotBegun(waiting)
    if is_named:
        return lost(pod, job)
    end = container_end(pod)
    if end and (report is not None or int(end.get("exitCode", 1)) in _ORDERLY):
        return NeverBegun("its worker ended before it began")
    return lost(pod, job)


def report_of(pod: Manifest) -> WorkerReport | None:
    """The newest report of a worker: the last one is in its termination message as well."""
    message = str(container_end(pod).get("message", ""))
    annotations = pod["metadata"].get("annotations") or {}
    return WorkerReport.parse(message) or WorkerReport.parse(annotations.get(REPORT_ANNOTATION, ""))


def _without_pod(
    entry: OperationStatus, job: Manifest | None, events: Sequence[Manifest], now_ms: int
) -> WorkerOutcome:
    if entry.pod_uid:
        return Lost("its worker's pod was deleted")
    if job is None or job["metadata"].get("deletionTimestamp") or is_over(job):
        # Without a pod nothing was handed over.
        return NeverBegun("its worker was deleted before it had a pod")
    found = outcome_of(job, (), events, now_ms=now_ms)
    return NotBegun(found if isinstance(found, Active) else Active("waits for its pod", False))


def _runs(pod: Manifest) -> bool:
    return str(pod.get("status", {}).get("phase")) == "Running"
