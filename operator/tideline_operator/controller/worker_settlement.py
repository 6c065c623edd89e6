"""What became of operations at warm workers, by the watches, and past them where it matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tideline_operator.api_objects import JOBS, PODS, Manifest
from tideline_operator.controller.warm_workers import WarmWorkers
from tideline_operator.controller.work_queue import Key
from tideline_operator.kube import KubeApi
from tideline_operator.launch.job_outcome import (
    JOB_NAME_LABEL,
    Active,
    Lost,
    has_ended,
    running_since_ms,
)
from tideline_operator.launch.worker_job import WORKER_LABEL
from tideline_operator.launch.worker_launcher import WorkerLauncher
from tideline_operator.launch.worker_outcome import (
    NeverBegun,
    NotBegun,
    WorkerOutcome,
    worker_outcome,
)
from tideline_operator.resources.status import OperationPhase, OperationStatus

GIVEN_UP = "given up after"
"""How the message of an operation begins whose Job, or worker, is stopped because it waited."""
BEGIN_MS_MAX = 60_000
"""How long a worker whose pod runs may take to begin what was handed to it."""
_PATIENCE_MS = 15_000
"""How long a worker's Job may be without a pod before its events are read for the reason."""
_NOT_BEGUN = (
    f"{GIVEN_UP} {BEGIN_MS_MAX // 1000} s: its worker did not begin it; the account of its pod "
    "needs the rights of the role tideline-engine"
)


@dataclass(slots=True)
class WorkerSettler:
    """Compares operations at workers with their pods. Raises ApiUnavailableError."""

    api: KubeApi
    workers: WarmWorkers
    launcher: WorkerLauncher

    def outcome(
        self,
        key: Key,
        entry: OperationStatus,
        now_ms: int,
        events_of: Callable[[str, Manifest], list[Manifest]],
    ) -> WorkerOutcome:
        """What became of an operation of the table; a worker that does not begin is stopped."""
        namespace, name = key[0], entry.worker
        job = self.workers.job(namespace, name) or self.api.get(JOBS, name, namespace)
        pod = self.workers.pod(namespace, name)
        found = worker_outcome(entry, job, pod, now_ms=now_ms)
        if isinstance(found, Lost | NeverBegun):
            # The end of a pod, and its last message, may be newer than what the watch has shown.
            pod = self._live_pod(namespace, name, entry.pod_uid)
            found = worker_outcome(entry, job, pod, now_ms=now_ms)
        waited_ms = now_ms - entry.started_at.ms
        if (
            isinstance(found, NotBegun)
            and pod is None
            and job is not None
            and (waited_ms > _PATIENCE_MS)
        ):
            found = worker_outcome(entry, job, pod, events_of(namespace, job), now_ms=now_ms)
        if isinstance(found, NotBegun) and self._is_overdue(entry, found, pod, now_ms):
            self.launcher.stop(namespace, name)
            return NotBegun(Active(_NOT_BEGUN, is_started=True, is_stuck=True))
        return found

    def kind_of(self, key: Key, entry: OperationStatus) -> str:
        """The kind of the worker of an operation; empty when its Job is not known."""
        job = self.workers.job(key[0], entry.worker)
        return "" if job is None else str(job["metadata"]["labels"].get(WORKER_LABEL, ""))

    def is_at_work(self, key: Key, entry: OperationStatus, now_ms: int) -> str | None:
        """The worker that has the operation, or may still begin it; None when none can."""
        namespace, name = key[0], entry.worker
        if not name or not entry.pod_uid:
            return None
        pod = self._live_pod(namespace, name, entry.pod_uid)
        found = worker_outcome(entry, self.workers.job(namespace, name), pod, now_ms=now_ms)
        return name if isinstance(found, Active | NotBegun) else None

    def _live_pod(self, namespace: str, name: str, uid: str) -> Manifest | None:
        pods, _ = self.api.list(PODS, namespace, labels=f"{JOB_NAME_LABEL}={name}")
        alike = [pod for pod in pods if uid in ("", str(pod["metadata"].get("uid")))]
        return max(alike, key=lambda pod: not has_ended(pod), default=None)

    def _is_overdue(
        self, entry: OperationStatus, found: NotBegun, pod: Manifest | None, now_ms: int
    ) -> bool:
        if entry.phase is not OperationPhase.RUNNING or pod is None:
            return False
        if not found.waiting.is_started:
            return False
        since_ms = running_since_ms(pod)
        return since_ms is not None and now_ms - max(since_ms, entry.started_at.ms) > BEGIN_MS_MAX
