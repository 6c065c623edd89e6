"""For how long the pods of each operation have run, and with how much memory.

Executors come and go while their operation runs, so every change of a pod is noted. An operation's
use is what was seen of its pods since it started; where none was seen, as after a change of the
leader, it is that of one pod with the operation's memory for as long as it took. A warm worker
counts for an operation as long as that took; while it is idle it counts for none.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tideline.errors import ConfigError
from tideline_operator.api_objects import Manifest
from tideline_operator.launch.driver_job import OPERATION_LABEL
from tideline_operator.launch.job_outcome import has_ended
from tideline_operator.launch.worker_job import WORKER_LABEL
from tideline_operator.resources.quantity import memory_bytes
from tideline_operator.resources.spent import PodUse
from tideline_operator.resources.status import OperationStatus

KEPT_MS = 7_200_000
"""How long the use of a pod that has ended is remembered: its operation has ended soon after."""
_CLOCKS_DIFFER_MS = 5_000
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Run:
    """One pod: since when its node runs it, until when if it has ended, and its memory."""

    operation: str
    started_ms: int
    ended_ms: int | None
    memory_bytes: int

    def use(self, now_ms: int) -> tuple[int, float]:
        took_ms = max(0, (self.ended_ms or now_ms) - self.started_ms)
        return took_ms, took_ms / 1000 * self.memory_bytes / _MIB


class PodMeter:
    """Notes pods; for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._workers: dict[str, int] = {}

    def note(self, before: Manifest | None, after: Manifest | None, now_ms: int) -> None:
        """A pod was seen, changed or went."""
        pod = after or before
        if pod is None:
            return
        uid = str(pod["metadata"].get("uid", ""))
        if WORKER_LABEL in pod["metadata"].get("labels", {}):
            self._note_worker(uid, after)
            return
        run = _run_of(pod, now_ms, is_gone=after is None)
        if run is None:
            return
        with self._lock:
            known = self._runs.get(uid)
            if known is None or known.ended_ms is None:
                self._runs[uid] = run
            past_ms = now_ms - KEPT_MS
            for old in [
                uid
                for uid, candidate in self._runs.items()
                if (candidate.ended_ms or now_ms) < past_ms
            ]:
                del self._runs[old]

    def use_of(self, entry: OperationStatus, now_ms: int) -> PodUse:
        """What the pods of an operation that ends now have taken in this attempt."""
        since_ms = entry.started_at.ms - _CLOCKS_DIFFER_MS
        with self._lock:
            own = [
                run
                for run in self._runs.values()
                if run.operation == entry.id and run.started_ms >= since_ms
            ]
        if entry.worker or not own:
            memory = self._workers.get(entry.pod_uid, entry.memory_bytes)
            own.append(_Run(entry.id, entry.started_at.ms, now_ms, memory))
        uses = [run.use(now_ms) for run in own]
        return PodUse(sum(ms for ms, _ in uses), round(sum(memory for _, memory in uses)))

    def _note_worker(self, uid: str, pod: Manifest | None) -> None:
        with self._lock:
            if pod is None:
                self._workers.pop(uid, None)
            else:
                self._workers[uid] = pod_memory_bytes(pod)


def _run_of(pod: Manifest, now_ms: int, *, is_gone: bool) -> _Run | None:
    """None where it never ran, or belongs to no operation."""
    operation = str(pod["metadata"].get("labels", {}).get(OPERATION_LABEL, ""))
    started = pod.get("status", {}).get("startTime")
    if not operation or not started:
        return None
    ends = [end for status in _containers(pod) if (end := _finished_ms(status)) is not None]
    ended_ms = None
    if has_ended(pod) or is_gone:
        ended_ms = max(ends, default=now_ms)
    return _Run(operation, _ms(started), ended_ms, pod_memory_bytes(pod))


def pod_memory_bytes(pod: Manifest) -> int:
    """The memory that a pod's containers may use together; what has no limit counts as nothing."""
    total = 0
    for container in pod.get("spec", {}).get("containers") or ():
        limit = (container.get("resources") or {}).get("limits", {}).get("memory")
        try:
            total += memory_bytes(str(limit)) if limit else 0
        except ConfigError:
            continue
    return total


def _containers(pod: Manifest) -> Sequence[Mapping[str, Manifest]]:
    return pod.get("status", {}).get("containerStatuses") or ()


def _finished_ms(status: Mapping[str, Manifest]) -> int | None:
    text = (status.get("state") or {}).get("terminated", {}).get("finishedAt")
    return _ms(text) if text else None


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)
