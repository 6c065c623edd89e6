"""Which warm worker carries out an operation, or whether it gets a Job of its own. Pure.

1. What is too large for a worker, or fits none (another store, no `spec.engine.warm`), gets a Job.
2. An idle worker of the same kind is taken: the one that worked last, so that the others may end.
   What other tables have waited for longer is left to them: a table whose operation has ended just
   now is the first that sees its worker idle, and would have it for good.
3. Below the limits of the namespace a new worker starts. At the limits it replaces one that is
   idle, of another kind, and has been so for longest.
4. At the limits, with a busy worker of the same kind, the operation waits for a while, because a
   worker is usually free sooner than a pod starts; then it gets a Job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tideline.ingest.operation.assignment import NO_STAY, Stay
from tideline.ingest.operation.operation import (
    IngestRange,
    Operation,
    RunService,
)
from tideline.wording import counted, size_text
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus
from tideline_operator.resources.warm import Warm

PATIENCE_MS = 20_000
"""How long an operation waits for a busy worker: about what a pod with Spark takes to start."""


STAY_MS = 5_000
"""How long a worker follows the topics of one table; what comes for other tables may wait so
long."""


@dataclass(frozen=True, slots=True)
class KnownWorker:
    """A worker of a namespace. `kind` says which operations fit it, `holder` which operation has
    it, empty while it is idle; `worked_ms` is when it was last busy."""

    name: str
    kind: str
    memory_bytes: int
    holder: str = ""
    worked_ms: int = 0
    is_ending: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """The worker that an operation wants; `ahead` are the tables that wait for one like it since
    before."""

    kind: str
    memory_bytes: int
    waited_ms: int = 0
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class TakeWorker:
    """An idle worker is free for the operation."""

    name: str


@dataclass(frozen=True, slots=True)
class NewWorker:
    """Start a worker; `replaced` is the name of an idle one that ends for it."""

    replaced: str = ""


@dataclass(frozen=True, slots=True)
class AwaitWorker:
    """A worker will be free soon."""

    message: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class OwnJob:
    """No worker: `reason` says why."""

    reason: str


WorkerChoice = TakeWorker | NewWorker | AwaitWorker | OwnJob


def warm_of(table: ResolvedTable) -> Warm | None:
    """The workers that a table's operations may use: those of the LakeStore it names."""
    named = table.spec.store_ref
    store = table.stores.get(named) if named is not None else None
    return None if store is None else store.engine.warm


def too_large(operation: Operation, status: LakeTableStatus, warm: Warm) -> str | None:
    """Why an operation is not for workers, by the bytes it may read; None where it is."""
    limit = warm.operation_bytes_max
    match operation.work:
        case IngestRange(range=taken, source=source):
            size, what = taken.size_bytes, counted(len(taken.names), source.part)
        case RunService() if operation.work.service.moves_rows:
            size, what = 0 if status.table is None else status.table.bytes, "the table"
        case _:
            return None
    if size <= limit:
        return None
    return f"{what} of {size_text(size)}, workers take {size_text(limit)}"


def stay_of(operation: Operation, table: ResolvedTable, share: float) -> Stay:
    """How long the worker that carries it out stays on the table behind it: where the trigger asks
    for looks that often, for a `share` of `STAY_MS`, which is 1 where no table needs it."""
    work = operation.work
    stay_ms = int(STAY_MS * share)
    if not isinstance(work, IngestRange) or not work.source.is_followed:
        return NO_STAY
    ingest = next((item for item in table.spec.ingest if item.name == work.name), None)
    every = None if ingest is None else ingest.trigger.every
    if every is None or every.ms > stay_ms:
        return NO_STAY
    return Stay(stay_ms, every.ms)


def assign(wanted: Wanted, workers: Iterable[KnownWorker], warm: Warm, now_ms: int) -> WorkerChoice:
    """Where an operation that is not too large is carried out."""
    known = tuple(workers)
    alike = [worker for worker in known if worker.kind == wanted.kind and not worker.is_ending]
    idle = [worker for worker in alike if not worker.holder]
    if len(idle) > wanted.ahead or (idle and wanted.waited_ms >= PATIENCE_MS):
        return TakeWorker(max(idle, key=lambda worker: (worker.worked_ms, worker.name)).name)
    full = _why_full(wanted, known, warm)
    if full is None:
        return NewWorker()
    others = [
        worker
        for worker in known
        if not worker.holder and not worker.is_ending and worker.kind != wanted.kind
    ]
    for known_worker in sorted(others, key=lambda worker: (worker.worked_ms, worker.name)):
        left = tuple(other for other in known if other is not known_worker)
        if _why_full(wanted, left, warm) is None:
            return NewWorker(replaced=known_worker.name)
    if alike and wanted.waited_ms < PATIENCE_MS:
        message = f"it is in line for {counted(len(alike), 'warm worker')}"
        return AwaitWorker(message, now_ms + PATIENCE_MS - wanted.waited_ms)
    return OwnJob(full)


def _why_full(wanted: Wanted, workers: tuple[KnownWorker, ...], warm: Warm) -> str | None:
    if len(workers) >= warm.max_workers:
        return f"the namespace has {len(workers)} of {counted(warm.max_workers, 'warm worker')}"
    limit = warm.memory_bytes_max
    asked = wanted.memory_bytes + sum(worker.memory_bytes for worker in workers)
    if limit is not None and asked > limit:
        return f"warm workers would ask for {size_text(asked)} of {size_text(limit)}"
    return None
