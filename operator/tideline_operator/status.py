"""The status of a table, from what was observed, planned and done. Pure."""

from __future__ import annotations

from dataclasses import replace

from tideline.ingest.operation import Operation
from tideline.ingest.operation_result import OperationResult, Outcome
from tideline_operator.actions import Action, Blocked
from tideline_operator.observed import Observed
from tideline_operator.planner import batch_of
from tideline_operator.resources.ingest import Ingest
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import (
    OPERATIONS_MAX,
    Condition,
    ConditionType,
    IngestStatus,
    LakeTableStatus,
    OperationPhase,
    OperationStatus,
    PendingInstant,
    TimelineStatus,
    Truth,
)

WORKER_DIED = "WorkerDied"
_RETRY_FIRST_MS = {True: 2_000, False: 30_000}
_RETRY_LAST_MS = 600_000
_SAFE_TO_RETRY = (3, 4)


def operation_started(
    status: LakeTableStatus, operation: Operation, attempt: int, now_ms: int
) -> LakeTableStatus:
    """Note an operation before it starts."""
    entry = OperationStatus(
        id=operation.id,
        kind=operation.kind.value,
        subject=operation.subject,
        phase=OperationPhase.RUNNING,
        attempt=attempt,
        started_at=Timestamp(now_ms),
    )
    return _with_operation(status, entry)


def operation_finished(
    status: LakeTableStatus, result: OperationResult, now_ms: int
) -> LakeTableStatus:
    """Note how a started operation ended, and when it may be tried again."""
    entry = next(item for item in status.operations if item.id == result.id)
    failed = result.outcome is Outcome.FAILED
    is_safe = result.exit_code in _SAFE_TO_RETRY or result.error == WORKER_DIED
    done = replace(
        entry,
        phase=OperationPhase.FAILED if failed else OperationPhase.SUCCEEDED,
        finished_at=Timestamp(now_ms),
        retry_at=Timestamp(now_ms + retry_delay_ms(entry.attempt, is_safe=is_safe)),
        exit_code=result.exit_code,
        is_safe_to_retry=failed and is_safe,
        instant=result.instant,
        message=result.message,
    )
    return _with_operation(status, done)


def retry_delay_ms(attempt: int, *, is_safe: bool) -> int:
    """How long to leave an operation alone after `attempt` (from 1): doubling, at most 10 min.

    What is safe to retry (a conflict, a store out of reach, a dead worker) starts with 2 s, what
    waits for a person to correct something with 30 s.
    """
    return int(min(_RETRY_LAST_MS, _RETRY_FIRST_MS[is_safe] * 2 ** min(attempt - 1, 20)))


def fresh_start(table: ResolvedTable, status: LakeTableStatus) -> LakeTableStatus:
    """A status as a new process takes it over.

    Whatever failed may be tried at once, and landing prefixes are looked at, except those whose
    cron trigger says when.
    """
    by_cron = {item.name for item in table.spec.ingest if item.trigger.cron is not None}
    kept = {name: item for name, item in status.ingest.items() if name in by_cron}
    return replace(status, operations=(), ingest=kept)


def unresolved_failures(status: LakeTableStatus) -> tuple[OperationStatus, ...]:
    """Operations that failed and that no later one on the same subject has made good."""
    latest = {(item.kind, item.subject): item for item in status.operations}
    return tuple(item for item in latest.values() if item.phase is OperationPhase.FAILED)


def observed_status(
    table: ResolvedTable,
    status: LakeTableStatus,
    observed: Observed,
    actions: tuple[Action, ...],
    now_ms: int,
) -> LakeTableStatus:
    """The status after a look at the table and a plan."""
    seen = observed.table
    timeline = status.timeline
    if seen is not None:
        pending = tuple(
            PendingInstant(
                time=item.time, action=item.action, state=item.state, is_dead=item.is_dead
            )
            for item in seen.pending
        )
        timeline = TimelineStatus(
            latest=seen.latest,
            latest_action=seen.latest_action,
            completed=seen.completed,
            pending=pending,
        )
    ingests = {
        ingest.name: _ingest_status(ingest, status, observed, now_ms)
        for ingest in table.spec.ingest
    }
    return replace(
        status,
        observed_generation=table.resource.metadata.generation,
        timeline=timeline,
        ingest=ingests,
        conditions=_conditions(table, status, observed, actions, now_ms),
    )


def _with_operation(status: LakeTableStatus, entry: OperationStatus) -> LakeTableStatus:
    others = tuple(item for item in status.operations if item.id != entry.id)
    return replace(status, operations=(*others, entry)[-OPERATIONS_MAX:])


def _ingest_status(
    ingest: Ingest, status: LakeTableStatus, observed: Observed, now_ms: int
) -> IngestStatus:
    before = status.ingest.get(ingest.name, IngestStatus())
    batch = batch_of(ingest, observed, now_ms)
    checkpoint = observed.table.checkpoints.get(ingest.name) if observed.table else None
    if batch is None:
        return replace(before, checkpoint=str(checkpoint) if checkpoint else "")
    return IngestStatus(
        polled_at=Timestamp(now_ms),
        checkpoint=str(checkpoint) if checkpoint else "",
        lag_files=len(batch.files) + batch.backlog_files,
        lag_bytes=batch.size_bytes + batch.backlog_bytes,
        unsettled_files=batch.unsettled_files,
        quarantined_files=len(observed.landings[ingest.name].landing.quarantined),
        late_files=batch.late_files,
    )


def _conditions(
    table: ResolvedTable,
    status: LakeTableStatus,
    observed: Observed,
    actions: tuple[Action, ...],
    now_ms: int,
) -> tuple[Condition, ...]:
    blocked = [action for action in actions if isinstance(action, Blocked)]
    stuck = next((action for action in blocked if action.exit_code), None)
    failing = next(iter(unresolved_failures(status)), None)
    dead = [item.time for item in observed.table.pending if item.is_dead] if observed.table else []
    found = [
        _condition(ConditionType.SPEC_VALID, True, "Valid", ""),
        _condition(
            ConditionType.PAUSED,
            table.spec.suspend,
            "Suspended" if table.spec.suspend else "Running",
            "",
        ),
    ]
    if stuck is not None:
        ready = _condition(ConditionType.READY, False, stuck.reason, str(stuck))
    elif failing is not None:
        ready = _condition(ConditionType.READY, False, "OperationFailed", failing.message)
    elif observed.table is None:
        ready = _condition(ConditionType.READY, False, "NoTable", "no table at the location yet")
    else:
        ready = _condition(ConditionType.READY, True, "Current", "")
    found.append(ready)
    found.append(
        _condition(
            ConditionType.HEALTHY,
            not dead,
            "DeadWriter" if dead else "NoStuckInstant",
            f"left behind by dead writers: {', '.join(dead)}" if dead else "",
        )
    )
    found.append(_ingesting(table, status, observed, blocked))
    return tuple(_dated(item, status, now_ms) for item in found)


def _ingesting(
    table: ResolvedTable, status: LakeTableStatus, observed: Observed, blocked: list[Blocked]
) -> Condition:
    kind = ConditionType.INGESTING
    if not table.spec.ingest:
        return _condition(kind, False, "NoIngest", "spec.ingest is empty")
    if blocked:
        return _condition(kind, False, blocked[0].reason, str(blocked[0]))
    late = [name for name, item in status.ingest.items() if item.late_files]
    if late:
        return _condition(kind, True, "LateFiles", f"files arrived too late: {', '.join(late)}")
    set_aside = [name for name, seen in observed.landings.items() if seen.landing.quarantined]
    if set_aside:
        return _condition(kind, True, "Quarantined", f"files set aside: {', '.join(set_aside)}")
    return _condition(kind, True, "Current", "")


def _condition(kind: ConditionType, holds: bool, reason: str, message: str) -> Condition:
    return Condition(
        type=kind,
        status=Truth.TRUE if holds else Truth.FALSE,
        reason=reason,
        message=message,
        last_transition_time=Timestamp(0),
    )


def _dated(condition: Condition, status: LakeTableStatus, now_ms: int) -> Condition:
    before = next((item for item in status.conditions if item.type is condition.type), None)
    unchanged = before is not None and before.status is condition.status
    since = before.last_transition_time if before is not None and unchanged else Timestamp(now_ms)
    return replace(condition, last_transition_time=since)
