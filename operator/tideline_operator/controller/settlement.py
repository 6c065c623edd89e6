"""What became of the operations that a table's status names as under way.

1. An operation is PENDING once it is recorded and RUNNING once all its objects were created, or its
   pod was seen running.
2. PENDING without a Job: it has not started. It may be dropped, or started under the same name.
   PENDING with a Job whose pod waits: that pod may lack its ConfigMap. It is started once more, or
   the Job is deleted.
3. RUNNING without a Job: the Job was deleted. It counts as lost once its pods have ended too, or
   count as such.
4. A Job that ended gives its result. One that seems lost is read again, past the caches, because a
   pod's termination message may arrive later than the end of its Job.
5. A Job that has waited too long for its driver's pod, or for the first of its executors, is
   deleted: the driver, if there is one, undoes its write, and the operation is retried later.
6. A Job whose driver cannot start holds no place: at once where a user has to change something, and
   after a while where there is no room for it. It stays, so that it starts when that is fixed.
7. A Job whose driver never ran, and that was made from another spec, is replaced: it is deleted,
   and its operation is PENDING again, with the next attempt.
8. An active Job of the table that is missing in the status, as after the status was lost, is added
   as RUNNING.
9. An operation at a warm worker is settled by what the worker's pod says (worker_outcome.py).
   PENDING at one that has not got it yet: it may be dropped; the worker stays for others. Never
   begun by one that is gone: it is started again, as the same attempt.

So there is never a second Job while one for the table may still write, but where a node is cut off
and does not confirm the end of a pod for so long that it counts as lost. What such a pod has begun
on a Hudi table keeps everything else waiting for as long as it renews its heartbeat
(writer_state.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from tideline.errors import TidelineError
from tideline.ingest.operation.operation import OperationKind
from tideline.ingest.operation.result import WORKER_DIED, OperationResult, Outcome
from tideline_operator.api_objects import EVENTS, JOBS, PODS, ApiRefusedError, Manifest
from tideline_operator.controller.object_cache import ObjectCache
from tideline_operator.controller.pod_meter import PodMeter
from tideline_operator.controller.work_queue import Key
from tideline_operator.controller.worker_settlement import GIVEN_UP, WorkerSettler
from tideline_operator.kube import KubeApi
from tideline_operator.launch.driver_job import (
    KIND_LABEL,
    OPERATION_LABEL,
    job_name,
)
from tideline_operator.launch.job_outcome import (
    JOB_NAME_LABEL,
    Active,
    Ended,
    JobOutcome,
    Lost,
    counts_as_ended,
    driver_uid,
    outcome_of,
    pod_lost_at_ms,
)
from tideline_operator.launch.made_from import MADE_FROM_LABEL
from tideline_operator.launch.worker_job import WORKER_LABEL
from tideline_operator.launch.worker_outcome import NeverBegun, NotBegun, report_of
from tideline_operator.report.status import operation_finished, with_entry
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import LakeTableStatus, OperationPhase, OperationStatus

_UNDER_WAY = (OperationPhase.PENDING, OperationPhase.RUNNING)
_KINDS = frozenset(kind.value for kind in OperationKind)
_REPLACED = "stopped before it began, because what it was made from has changed"
_PATIENCE_MS = 3_000
"""How long a Job may be without a pod before its events are read for the reason."""
_ROOM_PATIENCE_MS = 60_000
"""How long one for which there is no room keeps its place: what is full may be so because of our
own operations, and then no more of them are to be started."""
_YOUNG_MS = 60_000
_MESSAGE_LENGTH_MAX = 1_000


@dataclass(slots=True)
class Settlement:
    """The status that follows from the Jobs, and what it means.

    `running` are the ids of operations under way, `pending` one that is still to be started;
    `is_half_started` when its Job is there already. `late_at_ms` is when one whose pods do not
    start, or do not end, is given up. `stuck` says what blocks `stuck_entry`; `is_given_up` when
    its Job is being deleted for it. `attempts` are the highest attempts whose Jobs exist, by
    operation. `unstarted` are those under way whose drivers never ran, each with what its Job, or
    worker, was made from; `is_young` when one has no pod yet. `places` is the memory of those under
    way that hold a place, by operation: all but those that cannot start. `pending_holds_place`
    unless its worker cannot.
    """

    status: LakeTableStatus
    running: set[str] = field(default_factory=set)
    pending: OperationStatus | None = None
    is_half_started: bool = False
    ended: list[tuple[OperationStatus, OperationResult]] = field(default_factory=list)
    stuck: str | None = None
    stuck_entry: OperationStatus | None = None
    is_given_up: bool = False
    late_at_ms: int | None = None
    attempts: dict[str, int] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    unstarted: list[tuple[OperationStatus, str]] = field(default_factory=list)
    is_young: bool = False
    pending_holds_place: bool = True

    @property
    def has_job(self) -> bool:
        """Whether `pending` is half started, by a Job of its own."""
        return self.is_half_started and self.pending is not None and not self.pending.worker

    def look_again(self, *moments_ms: int | None) -> None:
        """Look at these moments at the latest, as far as they are known."""
        known = (self.late_at_ms, *moments_ms)
        self.late_at_ms = min((number for number in known if number is not None), default=None)


class Settler:
    """Compares statuses with Jobs and pods."""

    def __init__(
        self,
        api: KubeApi,
        jobs: ObjectCache,
        pods: ObjectCache,
        start_deadline_s: float,
        at_workers: WorkerSettler,
        meter: PodMeter | None = None,
        deadline_s: float | None = None,
    ) -> None:
        """`start_deadline_s` is for the start of pods, `deadline_s` for operations at workers."""
        self._api = api
        self._at_workers = at_workers
        self._deadline_s = deadline_s
        self._meter = meter or PodMeter()
        self._patience_ms = int(start_deadline_s * 1000)
        self._jobs = jobs
        self._pods = pods

    def settle(self, key: Key, status: LakeTableStatus, now_ms: int) -> Settlement:
        """What became of the operations of the table `key`."""
        namespace, name = key
        jobs = {
            str(item["metadata"]["name"]): item for item in self._jobs.labelled(namespace, name)
        }
        found = Settlement(status)
        for job in jobs.values():
            operation_id, attempt = attempt_of(job)
            found.attempts[operation_id] = max(attempt, found.attempts.get(operation_id, 0))
        named = set()
        for entry in status.operations:
            if entry.phase in _UNDER_WAY and entry.worker:
                self._settle_at_worker(key, entry, found, now_ms)
            elif entry.phase in _UNDER_WAY:
                job_id = job_name(entry.id, entry.attempt)
                named.add(job_id)
                known = jobs.get(job_id) or self._api.get(JOBS, job_id, namespace)
                self._settle(key, entry, known, found, now_ms)
            else:
                named.add(job_name(entry.id, entry.attempt))
        for job_id in sorted(set(jobs) - named):
            self._adopt(key, jobs[job_id], found, now_ms)
        for pod in self._pods.labelled(namespace, name):
            self._adopt_at_worker(pod, found, now_ms)
        return found

    def _settle(
        self, key: Key, entry: OperationStatus, job: Manifest | None, found: Settlement, now_ms: int
    ) -> None:
        if job is None:
            if entry.phase is OperationPhase.PENDING:
                found.pending = entry
            elif pods := self._pods_of(key, entry.id, now_ms):
                found.running.add(entry.id)
                found.places[entry.id] = entry.memory_bytes
                found.look_again(*map(pod_lost_at_ms, pods))
            elif entry.message == _REPLACED:
                found.pending = _once_more(entry, now_ms)
                found.status = with_entry(found.status, found.pending)
            else:
                given_up = entry.message.startswith(GIVEN_UP)
                message = entry.message if given_up else "its Job was deleted"
                self._note_end(found, entry, _lost(entry.id, message), now_ms)
            return
        outcome = self._outcome(key, entry, job, now_ms)
        if isinstance(outcome, Active):
            found.look_again(outcome.lost_at_ms)
        pod_uid = driver_uid(job, self._pods.labelled(*key))
        if pod_uid not in ("", entry.pod_uid):
            entry = replace(entry, pod_uid=pod_uid)
            found.status = with_entry(found.status, entry)
        match outcome:
            case Active(is_started=False) if entry.phase is OperationPhase.PENDING:
                found.pending, found.is_half_started = entry, True
            case Active() if job["metadata"].get("deletionTimestamp"):
                # The reason for its deletion stays readable.
                given_up = entry.message.startswith(GIVEN_UP)
                stopping = replace(outcome, message=entry.message, is_stuck=given_up)
                _note_running(found, entry, stopping)
                if not outcome.is_started:
                    found.places.pop(entry.id, None)
            case Active():
                self._note_active(key, entry, outcome, found, now_ms)
                if not outcome.is_started:
                    made_from = str(job["metadata"].get("labels", {}).get(MADE_FROM_LABEL, ""))
                    _note_unstarted(found, entry, made_from, outcome, now_ms)
            case Ended(result=result):
                self._note_end(found, entry, replace(result, id=entry.id), now_ms)
            case Lost(message=message, error=error):
                self._note_end(found, entry, _lost(entry.id, message, error), now_ms)

    def _settle_at_worker(
        self, key: Key, entry: OperationStatus, found: Settlement, now_ms: int
    ) -> None:
        outcome = self._at_workers.outcome(key, entry, now_ms, self._events)
        match outcome:
            case NotBegun(waiting=waiting) if entry.phase is OperationPhase.PENDING:
                self._note_waiting(key, entry, waiting, found, now_ms)
            case NotBegun(waiting=waiting):
                self._note_handed_over(key, entry, waiting, found, now_ms)
            case Lost() if entry.message == _REPLACED:
                found.pending = replace(_once_more(entry, now_ms), worker="", digest="")
                found.status = with_entry(found.status, found.pending)
            case NeverBegun() if entry.message.startswith(GIVEN_UP):
                self._note_end(found, entry, _lost(entry.id, entry.message), now_ms)
            case NeverBegun():
                found.pending = replace(entry, worker="", pod_uid="", digest="")
            case Active(lost_at_ms=lost_at_ms):
                found.look_again(lost_at_ms)
                self._end_late(key, entry, now_ms)
                _note_running(found, entry, outcome)
            case Ended(result=result):
                self._note_end(found, entry, replace(result, id=entry.id), now_ms)
            case Lost(message=message, error=error):
                given_up = entry.message.startswith(GIVEN_UP)
                message = entry.message if given_up else message
                self._note_end(found, entry, _lost(entry.id, message, error), now_ms)

    def _end_late(self, key: Key, entry: OperationStatus, now_ms: int) -> None:
        """Stop the worker of an operation that takes too long; a Job of its own has a deadline."""
        late_ms = None if self._deadline_s is None else self._deadline_s * 1000
        if late_ms is not None and now_ms - entry.started_at.ms > late_ms:
            self._api.delete(JOBS, entry.worker, key[0], propagation="Foreground")

    def _note_handed_over(
        self, key: Key, entry: OperationStatus, waiting: Active, found: Settlement, now_ms: int
    ) -> None:
        """A worker has it, and has not begun it: its pod may not be able to start."""
        since_ms = waiting.waits_since_ms
        if waiting.is_started or since_ms is None:
            _note_running(found, entry, waiting)
            return
        given_up = entry.message.startswith(GIVEN_UP)
        if given_up or entry.message == _REPLACED:
            _note_running(found, entry, replace(waiting, message=entry.message, is_stuck=given_up))
            found.places.pop(entry.id, None)
            return
        if now_ms >= since_ms + self._patience_ms:
            self._api.delete(JOBS, entry.worker, key[0], propagation="Foreground")
            message = f"{GIVEN_UP} {self._patience_ms // 1000} s: its worker: {waiting.message}"
            waiting = replace(waiting, message=message, is_stuck=True)
        else:
            found.look_again(since_ms + self._patience_ms)
        _note_running(found, entry, waiting)
        _note_unstarted(found, entry, self._at_workers.kind_of(key, entry), waiting, now_ms)

    def _note_waiting(
        self, key: Key, entry: OperationStatus, waiting: Active, found: Settlement, now_ms: int
    ) -> None:
        """It waits for a worker that starts; one that does not start is given up."""
        since_ms = waiting.waits_since_ms
        if since_ms is not None and now_ms >= since_ms + self._patience_ms:
            self._api.delete(JOBS, entry.worker, key[0], propagation="Foreground")
            message = f"{GIVEN_UP} {self._patience_ms // 1000} s: its worker {waiting.message}"
            self._note_end(found, entry, _lost(entry.id, message), now_ms)
            return
        found.pending, found.is_half_started = entry, bool(entry.pod_uid)
        if since_ms is not None:
            found.look_again(since_ms + self._patience_ms)
        if waiting.is_stuck:
            waited_ms = now_ms - (since_ms or 0)
            found.pending_holds_place = waiting.lacks_room and waited_ms < _ROOM_PATIENCE_MS
            found.stuck_entry = entry
            found.stuck = f"{entry.title}: its worker {waiting.message}"

    def _adopt_at_worker(self, pod: Manifest, found: Settlement, now_ms: int) -> None:
        """Add what a busy worker says it has, as after the status was lost."""
        labels = pod["metadata"].get("labels", {})
        operation_id, kind = _operation_of(pod), str(labels.get(KIND_LABEL, ""))
        report = report_of(pod) if WORKER_LABEL in labels else None
        is_known = any(item.id == operation_id for item in found.status.operations)
        if report is None or report.result is not None or is_known or kind not in _KINDS:
            return
        if counts_as_ended(pod, now_ms) or report.operation_id != operation_id:
            return
        entry = OperationStatus(
            id=operation_id,
            kind=kind,
            phase=OperationPhase.RUNNING,
            attempt=report.attempt,
            started_at=Timestamp(now_ms),
            pod_uid=str(pod["metadata"]["uid"]),
            worker=str(labels.get(JOB_NAME_LABEL, "")),
        )
        _note_running(found, entry, Active("is running", is_started=True))

    def _note_active(
        self, key: Key, entry: OperationStatus, outcome: Active, found: Settlement, now_ms: int
    ) -> None:
        """Record that it is under way, unless it has waited for its pods for too long."""
        if outcome.waits_since_ms is None:
            _note_running(found, entry, outcome)
            return
        late_at_ms = outcome.waits_since_ms + self._patience_ms
        if now_ms < late_at_ms:
            found.look_again(late_at_ms)
            _note_running(found, entry, outcome)
            return
        self._api.delete(JOBS, job_name(entry.id, entry.attempt), key[0], propagation="Foreground")
        message = f"{GIVEN_UP} {self._patience_ms // 1000} s: {outcome.message}"
        _note_running(found, entry, replace(outcome, message=message, is_stuck=True))

    def _adopt(self, key: Key, job: Manifest, found: Settlement, now_ms: int) -> None:
        operation_id, attempt = attempt_of(job)
        kind = str(job["metadata"].get("labels", {}).get(KIND_LABEL, ""))
        is_known = any(item.id == operation_id for item in found.status.operations)
        if is_known or not operation_id or kind not in _KINDS:
            # A Job of an earlier attempt, which has been settled, or not one of ours.
            return
        outcome = outcome_of(job, self._pods.labelled(*key), now_ms=now_ms)
        if not isinstance(outcome, Active):
            return
        entry = OperationStatus(
            id=operation_id,
            kind=kind,
            phase=OperationPhase.RUNNING,
            attempt=attempt,
            started_at=Timestamp(now_ms),
        )
        _note_running(found, entry, outcome)

    def _outcome(self, key: Key, entry: OperationStatus, job: Manifest, now_ms: int) -> JobOutcome:
        pods = self._pods.labelled(*key)
        outcome = outcome_of(job, pods, now_ms=now_ms)
        if isinstance(outcome, Lost):
            selector = f"{OPERATION_LABEL}={entry.id}"
            live, _ = self._api.list(PODS, key[0], labels=selector)
            newest = self._api.get(JOBS, job["metadata"]["name"], key[0]) or job
            outcome = outcome_of(newest, live, now_ms=now_ms)
        elif isinstance(outcome, Active) and not outcome.is_started:
            waited_ms = now_ms - entry.started_at.ms
            has_pod = any(_operation_of(pod) == entry.id for pod in pods)
            if waited_ms > _PATIENCE_MS and not has_pod:
                outcome = outcome_of(job, pods, self._events(key[0], job), now_ms=now_ms)
        return outcome

    def _events(self, namespace: str, job: Manifest) -> list[Manifest]:
        """Kubernetes' events about the Job; none when we may not read them."""
        fields = f"involvedObject.kind=Job,involvedObject.name={job['metadata']['name']}"
        try:
            return self._api.list(EVENTS, namespace, fields=fields)[0]
        except ApiRefusedError:
            return []

    def _note_end(
        self, found: Settlement, entry: OperationStatus, result: OperationResult, now_ms: int
    ) -> None:
        pods = self._meter.use_of(entry, now_ms)
        found.status = operation_finished(found.status, result, now_ms, pods)
        found.ended.append((entry, result))

    def _pods_of(self, key: Key, operation_id: str, now_ms: int) -> list[Manifest]:
        return [
            pod
            for pod in self._pods.labelled(*key)
            if _operation_of(pod) == operation_id and not counts_as_ended(pod, now_ms)
        ]


def attempt_of(job: Manifest) -> tuple[str, int]:
    """Operation and attempt of a Job, from its label and its name."""
    operation_id = _operation_of(job)
    number = re.search(r"-([0-9]+)$", str(job["metadata"]["name"]))
    return operation_id, int(number[1]) if number else 1


def _operation_of(item: Manifest) -> str:
    return str(item["metadata"].get("labels", {}).get(OPERATION_LABEL, ""))


def to_be_replaced(entry: OperationStatus) -> OperationStatus:
    """An operation whose Job is being deleted, so that it can be made once more."""
    return replace(entry, message=_REPLACED)


def _once_more(entry: OperationStatus, now_ms: int) -> OperationStatus:
    """The next attempt of one whose Job was replaced. Its Job gets another name, because what
    belonged to the last one may not be collected yet."""
    return replace(
        entry,
        phase=OperationPhase.PENDING,
        attempt=entry.attempt + 1,
        started_at=Timestamp(now_ms),
        pod_uid="",
        message="",
    )


def _note_running(found: Settlement, entry: OperationStatus, outcome: Active) -> None:
    stuck = outcome.message if outcome.is_stuck else ""
    # The error of the previous attempt stays readable until this one has ended.
    is_kept = entry.failures or entry.message == _REPLACED
    message = stuck[:_MESSAGE_LENGTH_MAX] or (entry.message if is_kept else "")
    running = replace(entry, phase=OperationPhase.RUNNING, message=message)
    if running != entry or all(item.id != entry.id for item in found.status.operations):
        found.status = with_entry(found.status, running)
    found.running.add(entry.id)
    found.places[entry.id] = entry.memory_bytes
    if outcome.is_stuck:
        found.stuck_entry, found.is_given_up = running, message.startswith(GIVEN_UP)
        found.stuck = f"{entry.title}: {outcome.message}"


def _note_unstarted(
    found: Settlement, entry: OperationStatus, made_from: str, outcome: Active, now_ms: int
) -> None:
    """One whose driver never ran: what its Job was made from, and whether it holds its place."""
    found.unstarted.append((entry, made_from))
    waited_ms = now_ms - (outcome.waits_since_ms or now_ms)
    found.is_young = not outcome.is_stuck and waited_ms < _YOUNG_MS
    if outcome.is_stuck and not (outcome.lacks_room and waited_ms < _ROOM_PATIENCE_MS):
        found.places.pop(entry.id, None)


def _lost(operation_id: str, message: str, error: str = WORKER_DIED) -> OperationResult:
    return OperationResult(operation_id, Outcome.FAILED, message=message, exit_code=1, error=error)


def refused(operation_id: str, error: TidelineError | str) -> OperationResult:
    """The end of an operation that could not be started."""
    return OperationResult(operation_id, Outcome.FAILED, message=str(error), exit_code=2)
