"""The warm workers there are, which operation each has, and which tables wait for one.

Jobs and pods come from the watches. Which table has a worker follows from the statuses of tables:
each turn says which workers the table's operations are at. Between the choice of a worker and the
status that names it the choice counts, so that no two tables choose the same.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from tideline.clock import Clock
from tideline.wording import counted
from tideline_operator.api_objects import Manifest
from tideline_operator.controller.object_cache import condition_of, key_of, version_of
from tideline_operator.controller.work_queue import Key
from tideline_operator.decide.worker_assignment import (
    PATIENCE_MS,
    AwaitWorker,
    KnownWorker,
    NewWorker,
    OwnJob,
    TakeWorker,
    Wanted,
    WorkerChoice,
    assign,
)
from tideline_operator.launch.job_outcome import JOB_NAME_LABEL, counts_as_ended, is_over
from tideline_operator.launch.worker_job import MEMORY_ANNOTATION, WORKER_LABEL, new_worker_name
from tideline_operator.launch.worker_launcher import WorkerPlan
from tideline_operator.launch.worker_outcome import report_of
from tideline_operator.resources.warm import Warm


@dataclass(frozen=True, slots=True)
class Chosen:
    """The worker for an operation: there already, or `is_new`; `replaced` has to end for it."""

    name: str
    is_new: bool = False
    replaced: str = ""


_LATELY_MS = 60_000
_SETTLED_MS = 2_000
"""How long a result that a worker shows may take to reach the status; the worker takes nothing else
before."""
_TURN_MS = 3_000
"""How long an idle worker is kept for a table that was woken for it."""


@dataclass(slots=True)
class _Waiting:
    """A table that waits for a worker of a kind."""

    kind: str
    since_ms: int
    woken_ms: int | None = None


@dataclass(slots=True)
class _Worker:
    """What is known of a worker: its Job, its pod, and since when it has no operation. `kind` and
    `memory_bytes` are those that it was asked for with, until its Job is there; `shown_ms` is when
    it showed the result of what its holder had it do."""

    job: Manifest | None = None
    pod: Manifest | None = None
    holder: Key | None = None
    worked_ms: int = 0
    kind: str = ""
    memory_bytes: int = 0
    shown_ms: int | None = None

    def is_held(self, now_ms: int) -> bool:
        """Whether it carries an operation out, or shows a result that nobody has settled."""
        is_done = self.shown_ms is not None and now_ms - self.shown_ms < _SETTLED_MS
        return self.holder is not None and not is_done

    def has_ended(self, now_ms: int) -> bool:
        """Whether nothing of it runs; one that is being deleted still does, until its node counts
        as lost."""
        if self.pod is not None:
            return counts_as_ended(self.pod, now_ms)
        return self.job is not None and is_over(self.job)


@dataclass(slots=True)
class WarmWorkers:
    """For any number of threads."""

    clock: Clock
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[Key, _Worker] = field(default_factory=dict)
    _waiting: dict[Key, _Waiting] = field(default_factory=dict)
    _chose_ms: dict[Key, int] = field(default_factory=dict)
    _gave_way_ms: dict[Key, int] = field(default_factory=dict)
    """Since when services of tables let others go first."""

    def note_job(self, before: Manifest | None, after: Manifest | None) -> None:
        """A Job was created, changed or deleted; of others than workers nothing is kept."""
        item = after or before
        if item is None or not _is_worker(item):
            return
        with self._lock:
            worker = self._known.setdefault(key_of(item), _Worker())
            worker.job = _newer(worker.job, after)
            self._drop_if_gone(key_of(item))

    def note_pod(self, before: Manifest | None, after: Manifest | None) -> Key | None:
        """A pod was created, changed or deleted; the table whose operation its worker has, unless
        the worker only shows that it takes it: the status has the hand-over already."""
        item = after or before
        if item is None or not _is_worker(item):
            return None
        name = str(item["metadata"]["labels"].get(JOB_NAME_LABEL, ""))
        key = key_of(item)[0], name
        with self._lock:
            worker = self._known.setdefault(key, _Worker())
            holder = worker.holder
            worker.pod = _newer(worker.pod, after)
            self._drop_if_gone(key)
            if before is None or after is None:
                return holder
            if _shows_more(before, after):
                worker.shown_ms = self.clock.now_ms()
                return holder
        return holder if condition_of(before) != condition_of(after) else None

    def job(self, namespace: str, name: str) -> Manifest | None:
        """A worker's Job as it was last seen."""
        worker = self._known.get((namespace, name))
        return None if worker is None else worker.job

    def pod(self, namespace: str, name: str) -> Manifest | None:
        """The pod of a worker's Job as it was last seen."""
        worker = self._known.get((namespace, name))
        return None if worker is None else worker.pod

    def choose(
        self,
        table: Key,
        plan: WorkerPlan,
        warm: Warm,
        *,
        busy: AbstractSet[str] = frozenset(),
        gives_way: bool = False,
    ) -> Chosen | AwaitWorker | OwnJob:
        """A worker for an operation of the table, which has it from now on; `busy` are those that
        other operations of the table are at. One that `gives_way` lets tables go first that wait
        for a worker, and is not in line itself, for as long as it would wait there."""
        now_ms = self.clock.now_ms()
        with self._lock:
            self._drop_unborn(table, busy)
            others = len(self._others_in_line(table, plan.kind)) if gives_way else 0
            if others:
                since_ms = self._gave_way_ms.setdefault(table, now_ms)
                if now_ms - since_ms < PATIENCE_MS:
                    self._waiting.pop(table, None)
                    message = f"{counted(others, 'table')} in line for a warm worker first"
                    return AwaitWorker(message, since_ms + PATIENCE_MS)
            waiting = self._waiting.get(table)
            waited_ms = 0 if waiting is None else now_ms - waiting.since_ms
            ahead = self._ahead_of(table, plan.kind, now_ms)
            wanted = Wanted(plan.kind, plan.memory_bytes, waited_ms, ahead)
            self._chose_ms[table] = now_ms
            known = self._of(table[0], table, busy=busy)
            assignment = assign(wanted, known, warm, now_ms)
            if gives_way and not isinstance(assignment, AwaitWorker):
                self._gave_way_ms.pop(table, None)
            return self._carried_out(table, wanted, assignment, now_ms)

    def set_held(self, table: Key, names: Iterable[str]) -> None:
        """The table's operations are at these workers, and at no others."""
        wanted = {(table[0], name) for name in names}
        with self._lock:
            for key, worker in list(self._known.items()):
                if key in wanted and worker.holder is None:
                    worker.holder = table
                elif key not in wanted and worker.holder == table:
                    worker.holder, worker.shown_ms = None, None
                    worker.worked_ms = self.clock.now_ms()
                    self._drop_if_gone(key)
            for key in wanted - set(self._known):
                self._known[key] = _Worker(holder=table)

    def forget(self, table: Key) -> None:
        """The table was deleted, or wants no worker now."""
        self.stop_waiting(table)
        self.set_held(table, ())
        with self._lock:
            self._chose_ms.pop(table, None)

    def stop_waiting(self, table: Key) -> None:
        """The table wants no worker any more."""
        with self._lock:
            self._waiting.pop(table, None)
            self._gave_way_ms.pop(table, None)

    def next_in_line(self) -> tuple[Key, ...]:
        """The waiting tables for which there is an idle worker now, each once for each time that it
        was told to wait."""
        if not self._waiting:
            return ()
        with self._lock:
            free = Counter(
                (key[0], known_worker.kind)
                for key in self._known
                for known_worker in self._of(key[0], None, only=key)
                if not known_worker.holder and not known_worker.is_ending
            )
            chosen = []
            for table, waiting in sorted(self._waiting.items(), key=lambda pair: pair[1].since_ms):
                if free[table[0], waiting.kind] > 0:
                    free[table[0], waiting.kind] -= 1
                    if waiting.woken_ms is None:
                        waiting.woken_ms = self.clock.now_ms()
                        chosen.append(table)
            return tuple(chosen)

    def count(self, *, is_busy: bool) -> int:
        """How many workers have an operation, or have none."""
        now_ms = self.clock.now_ms()
        with self._lock:
            return sum(
                (worker.holder is not None) is is_busy
                for worker in self._known.values()
                if worker.job is not None and not worker.has_ended(now_ms)
            )

    @property
    def waiting(self) -> int:
        """How many tables wait for a worker."""
        return len(self._waiting)

    def share(self, namespace: str) -> float:
        """How much of a worker there is for each table of the namespace that had one lately: 0
        while a table waits for one, 1 where all could have their own."""
        since_ms = self.clock.now_ms() - _LATELY_MS
        with self._lock:
            if any(table[0] == namespace for table in self._waiting):
                return 0.0
            self._chose_ms = {key: at for key, at in self._chose_ms.items() if at >= since_ms}
            tables = sum(key[0] == namespace for key in self._chose_ms)
            workers = len(self._of(namespace, None))
            return min(1.0, workers / tables) if tables else 1.0

    def _ahead_of(self, table: Key, kind: str, now_ms: int) -> int:
        """How many tables have waited for a worker of this kind for longer."""
        own = self._waiting.get(table)
        since_ms = now_ms if own is None else own.since_ms
        return sum(
            (other.since_ms < since_ms or own is None)
            and (other.woken_ms is None or now_ms - other.woken_ms < _TURN_MS)
            for other in self._others_in_line(table, kind)
        )

    def _others_in_line(self, table: Key, kind: str) -> Sequence[_Waiting]:
        """Other tables of the namespace that wait for a worker of this kind."""
        return [
            other
            for key, other in self._waiting.items()
            if key[0] == table[0] and key != table and other.kind == kind
        ]

    def _carried_out(
        self, table: Key, wanted: Wanted, assignment: WorkerChoice, now_ms: int
    ) -> Chosen | AwaitWorker | OwnJob:
        if isinstance(assignment, AwaitWorker):
            waiting = self._waiting.setdefault(table, _Waiting(wanted.kind, now_ms))
            waiting.kind, waiting.woken_ms = wanted.kind, None
            return assignment
        self._waiting.pop(table, None)
        match assignment:
            case TakeWorker(name=name):
                worker = self._known[table[0], name]
                worker.holder, worker.shown_ms = table, None
                return Chosen(name)
            case NewWorker(replaced=replaced):
                chosen = Chosen(new_worker_name(), True, replaced)
                self._known[table[0], chosen.name] = _Worker(
                    holder=table, kind=wanted.kind, memory_bytes=wanted.memory_bytes
                )
                return chosen
        return assignment

    def _of(
        self,
        namespace: str,
        table: Key | None,
        only: Key | None = None,
        busy: AbstractSet[str] = frozenset(),
    ) -> list[KnownWorker]:
        """The workers of a namespace that have not ended; what `table` has counts as idle, except
        where it is `busy`."""
        found = []
        now_ms = self.clock.now_ms()
        for key, worker in self._known.items():
            if key[0] != namespace or (only is not None and key != only):
                continue
            job, pod = worker.job, worker.pod
            if worker.has_ended(now_ms):
                continue
            labels = {} if job is None else job["metadata"].get("labels", {})
            annotations = {} if job is None else job["metadata"].get("annotations", {})
            is_others = worker.holder != table or key[1] in busy
            is_held = worker.is_held(now_ms) and is_others
            found.append(
                KnownWorker(
                    name=key[1],
                    kind=str(labels.get(WORKER_LABEL, worker.kind)),
                    memory_bytes=int(annotations.get(MEMORY_ANNOTATION, worker.memory_bytes)),
                    holder="/".join(worker.holder or ()) if is_held else "",
                    worked_ms=worker.worked_ms,
                    is_ending=any(map(_is_deleted, (job, pod))),
                )
            )
        return found

    def _drop_unborn(self, table: Key, busy: AbstractSet[str]) -> None:
        """Forget what the table chose before and did not start: its status was stale."""
        for key, worker in list(self._known.items()):
            is_unborn = worker.job is None and worker.pod is None and key[1] not in busy
            if worker.holder == table and is_unborn:
                del self._known[key]

    def _drop_if_gone(self, key: Key) -> None:
        worker = self._known[key]
        if worker.job is None and worker.pod is None and worker.holder is None:
            del self._known[key]


def _is_worker(item: Manifest) -> bool:
    return WORKER_LABEL in (item["metadata"].get("labels") or {})


def _shows_more(before: Manifest, after: Manifest) -> bool:
    """Whether a pod shows a result that it did not show before."""
    report = report_of(after)
    return report is not None and report.result is not None and report != report_of(before)


def _is_deleted(item: Manifest | None) -> bool:
    return item is not None and bool(item["metadata"].get("deletionTimestamp"))


def _newer(known: Manifest | None, item: Manifest | None) -> Manifest | None:
    """`item`, unless a newer version of it is known, as after a write of ours."""
    if known is None or item is None or version_of(item) >= version_of(known):
        return item
    return known
