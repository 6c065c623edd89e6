"""The status of a table, from what was observed, planned and done. Pure."""

from __future__ import annotations

from dataclasses import replace

from tideline.errors import UnsupportedTableError
from tideline.ingest.executors.executor_admission import EXECUTORS_REFUSED
from tideline.ingest.landing.continuation import newest_of
from tideline.ingest.operation.operation import (
    MaintainIceberg,
    Operation,
    OperationKind,
    RunService,
)
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline_operator.decide.actions import Blocked, PlannedAction, Wait
from tideline_operator.decide.addresses import address_of
from tideline_operator.decide.adoption import AdoptionReason
from tideline_operator.decide.due_services import needs_of
from tideline_operator.decide.observed import FileCounts, Observed, WriterFate
from tideline_operator.decide.planner import NOT_ADOPTED, TABLE_MISMATCH, batch_of
from tideline_operator.decide.service_settings import spec_name
from tideline_operator.decide.service_triggers import ServiceNeed
from tideline_operator.report.failures import standing_failures
from tideline_operator.report.iceberg_status import iceberg_table_status, iceberg_timeline
from tideline_operator.report.unknown_outcome import settle_unknown
from tideline_operator.resources.ingest import Ingest
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.services import ServiceMode
from tideline_operator.resources.status import (
    NO_TABLE,
    OPERATIONS_MAX,
    Condition,
    ConditionType,
    IngestStatus,
    LakeTableStatus,
    OperationPhase,
    OperationStatus,
    OwnedTable,
    PendingInstant,
    RunCounts,
    ServiceStatus,
    TableStatus,
    TimelineStatus,
    Truth,
)

_RETRY_FIRST_MS = {True: 2_000, False: 30_000}
_RETRY_LAST_MS = 600_000
_RESULT_LENGTH_MAX = 1_024
_MESSAGE_LENGTH_MAX = 4_000
_PENDING_MAX = 100
_NO_TABLE_YET = "no table at the location yet"
_PAUSED = "the table is paused: nothing is checked or run"
_OWN_REASONS = (EXECUTORS_REFUSED,)
"""Failures that are reasons of `Ready` by themselves: there is one thing to do about each."""


def operation_started(
    status: LakeTableStatus,
    operation: Operation,
    attempt: int,
    now_ms: int,
    *,
    phase: OperationPhase = OperationPhase.RUNNING,
    memory_bytes: int = 0,
) -> LakeTableStatus:
    """Note an operation before it starts."""
    before = next((item for item in status.operations if item.id == operation.id), None)
    failures = 0
    if before is not None:
        failures = before.failures + (before.phase is OperationPhase.FAILED)
    entry = OperationStatus(
        id=operation.id,
        kind=operation.kind.value,
        subject=operation.subject,
        phase=phase,
        memory_bytes=memory_bytes,
        attempt=attempt,
        failures=failures,
        started_at=Timestamp(now_ms),
        message=before.message if before is not None and failures else "",
        rerun=rerun_of(operation),
    )
    return _with_operation(status, entry)


def rerun_of(operation: Operation) -> int | None:
    """The number of the run that a user asked for; None for any other operation."""
    work = operation.work
    return work.rerun if isinstance(work, RunService | MaintainIceberg) else None


def operation_finished(
    status: LakeTableStatus, result: OperationResult, now_ms: int
) -> LakeTableStatus:
    """Note how a started operation ended, and when it may be tried again."""
    entry = next(item for item in status.operations if item.id == result.id)
    failed = result.outcome is Outcome.FAILED
    is_safe = result.is_safe_to_retry
    done = replace(
        entry,
        phase=OperationPhase.FAILED if failed else OperationPhase.SUCCEEDED,
        failures=entry.failures if failed else 0,
        finished_at=Timestamp(now_ms),
        retry_at=Timestamp(now_ms + retry_delay_ms(entry.attempt, is_safe=is_safe)),
        exit_code=result.exit_code,
        error=result.error or "" if failed else "",
        is_safe_to_retry=failed and is_safe,
        instant=result.instant,
        message=result.message,
    )
    return _with_service_run(_with_operation(status, done), done, result)


def retry_delay_ms(attempt: int, *, is_safe: bool) -> int:
    """The delay before the next attempt after `attempt` (from 1): doubling, at most 10 min.

    What is safe to retry (a conflict, an unreachable store, a dead worker) starts with 2 s, what
    needs a correction by a user with 30 s.
    """
    return int(min(_RETRY_LAST_MS, _RETRY_FIRST_MS[is_safe] * 2 ** min(attempt - 1, 20)))


def fresh_start(table: ResolvedTable, status: LakeTableStatus) -> LakeTableStatus:
    """A status as a new process takes it over.

    What failed may be retried at once, and landing prefixes are looked at, except those with a
    cron trigger.
    """
    by_cron = {item.name for item in table.spec.ingest if item.trigger.cron is not None}
    kept = {name: item for name, item in status.ingest.items() if name in by_cron}
    return replace(status, operations=(), ingest=kept)


def observed_status(
    table: ResolvedTable,
    status: LakeTableStatus,
    observed: Observed,
    actions: tuple[PlannedAction, ...],
    now_ms: int,
) -> LakeTableStatus:
    """The status after a look at the table and a plan."""
    seen = observed.table
    status = settle_unknown(status, seen)
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
            pending_count=len(pending),
            pending=pending[:_PENDING_MAX],
        )
    files = _table_status(status, seen.counts if seen is not None else None)
    if observed.iceberg is not None:
        timeline = iceberg_timeline(observed.iceberg)
        files = iceberg_table_status(status.table, observed.iceberg)
    needs = needs_of(table.spec, status, observed, now_ms)
    ingests = {
        ingest.name: _ingest_status(table, ingest, status, observed, now_ms)
        for ingest in table.spec.ingest
    }
    return replace(
        status,
        observed_generation=table.resource.metadata.generation,
        timeline=timeline,
        table=files,
        owned=_owned(table, status, observed, actions),
        services=(
            _service_statuses(status, needs, actions) if observed.has_table else status.services
        ),
        ingest=ingests,
        lag_files=sum(item.lag_files for item in ingests.values()) if ingests else None,
        conditions=_conditions(table, status, observed, actions, needs, now_ms),
    )


def owned_table(table: ResolvedTable, identity: str) -> OwnedTable:
    """The table of that identity, at the place that `table` declares."""
    address = address_of(table.location, table.resource.metadata.namespace)
    return OwnedTable(location=address, identity=identity)


def with_condition(
    status: LakeTableStatus,
    kind: ConditionType,
    holds: bool | None,
    reason: str,
    message: str,
    now_ms: int,
) -> LakeTableStatus:
    """`status` with one condition set; its time only changes when its truth does."""
    wanted = _dated(_condition(kind, holds, reason, message), status, now_ms)
    others = [item for item in status.conditions if item.type is not kind]
    order = list(ConditionType)
    found = sorted([*others, wanted], key=lambda item: order.index(item.type))
    return replace(status, conditions=tuple(found))


def not_looked_at(
    status: LakeTableStatus, reason: str, message: str, now_ms: int
) -> LakeTableStatus:
    """`status` of a table that could not even be located: nothing is known of its state."""
    known = {
        ConditionType.READY: (False, message),
        ConditionType.INGESTING: (False, message),
        ConditionType.HEALTHY: (None, _not_known(message)),
        ConditionType.SERVICES_CURRENT: (None, _not_known(message)),
    }
    for kind, (holds, text) in known.items():
        status = with_condition(status, kind, holds, reason, text, now_ms)
    return status


def redated(status: LakeTableStatus, before: LakeTableStatus, now_ms: int) -> LakeTableStatus:
    """`status` with the transition times of its conditions that follow from `before`."""
    dated = tuple(_dated(item, before, now_ms) for item in status.conditions)
    return replace(status, conditions=dated)


def with_entry(status: LakeTableStatus, entry: OperationStatus) -> LakeTableStatus:
    """`status` with this entry as the newest of its operations, instead of one of its id."""
    return _with_operation(status, entry)


def without_entry(status: LakeTableStatus, operation_id: str) -> LakeTableStatus:
    """`status` without the operation of that id."""
    kept = tuple(item for item in status.operations if item.id != operation_id)
    return replace(status, operations=kept)


def _with_operation(status: LakeTableStatus, entry: OperationStatus) -> LakeTableStatus:
    others = tuple(item for item in status.operations if item.id != entry.id)
    return replace(status, operations=(*others, entry)[-OPERATIONS_MAX:])


def _with_service_run(
    status: LakeTableStatus, entry: OperationStatus, result: OperationResult
) -> LakeTableStatus:
    """Note the end of a run in the status of its service; a failed rerun stays open."""
    service = OperationKind(entry.kind).service
    if service is None:
        return status
    name = spec_name(service)
    known = status.services.get(name, ServiceStatus())
    failed = entry.phase is OperationPhase.FAILED
    now = replace(
        known,
        last_run=entry.finished_at,
        last_result=(f"failed: {entry.message}" if failed else entry.message)[:_RESULT_LENGTH_MAX],
        rerun=known.rerun if failed or entry.rerun is None else entry.rerun,
        last_figures=known.last_figures if failed else _run_counts(result),
    )
    return replace(status, services={**status.services, name: now})


def _run_counts(result: OperationResult) -> RunCounts | None:
    counts = RunCounts(
        files_before=result.files_read,
        bytes_before=result.bytes_read,
        files_after=result.files_written,
        bytes_after=result.bytes_written,
        files_deleted=result.files_deleted,
        bytes_deleted=result.bytes_deleted,
    )
    return None if counts == RunCounts() else counts


def _service_statuses(
    status: LakeTableStatus, needs: tuple[ServiceNeed, ...], actions: tuple[PlannedAction, ...]
) -> dict[str, ServiceStatus]:
    """Whether each service is due, why, and when it runs next; past runs are kept."""
    waits = {action.subject: action.until_ms for action in actions if isinstance(action, Wait)}
    found = {
        name: replace(known, is_due=False, reason="", next_run=None)
        for name, known in status.services.items()
    }
    for need in needs:
        next_ms = waits.get(need.name, waits.get(str(need.service)))
        found[need.name] = replace(
            status.services.get(need.name, ServiceStatus()),
            is_due=need.is_due,
            reason=need.reason[:_RESULT_LENGTH_MAX],
            next_run=None if next_ms is None else Timestamp(next_ms),
        )
    return found


def _table_status(status: LakeTableStatus, counts: FileCounts | None) -> TableStatus | None:
    if counts is None:
        return status.table
    return TableStatus(
        files=counts.files,
        bytes=counts.size_bytes,
        small_file_percent=round(100 * counts.small_files / counts.files) if counts.files else 0,
        log_files=counts.log_files,
    )


def _owned(
    table: ResolvedTable,
    status: LakeTableStatus,
    observed: Observed,
    actions: tuple[PlannedAction, ...],
) -> OwnedTable | None:
    """The table at the location, once it was found to be as declared; kept from then on."""
    differs = any(isinstance(one, Blocked) and one.reason == TABLE_MISMATCH for one in actions)
    if observed.table is None or differs:
        return status.owned
    return owned_table(table, observed.table.identity)


def _ingest_status(
    table: ResolvedTable,
    ingest: Ingest,
    status: LakeTableStatus,
    observed: Observed,
    now_ms: int,
) -> IngestStatus:
    before = status.ingest.get(ingest.name, IngestStatus())
    batch = batch_of(table, ingest, observed, now_ms)
    known = observed.table.checkpoints if observed.table else {}
    checkpoint = newest_of(known, ingest.name, ingest.renamed_from or "")
    if batch is None:
        return replace(before, checkpoint=str(checkpoint) if checkpoint else "")
    return IngestStatus(
        polled_at=Timestamp(now_ms),
        checkpoint=str(checkpoint) if checkpoint else "",
        lag_files=len(batch.files) + batch.backlog_files,
        lag_bytes=batch.size_bytes + batch.backlog_bytes,
        unsettled_files=batch.unsettled_files,
        quarantined_files=len(observed.landings[ingest.name].landing.quarantined),
        quarantined_rows=observed.landings[ingest.name].landing.bad_rows,
        late_files=batch.late_files,
    )


def _conditions(
    table: ResolvedTable,
    status: LakeTableStatus,
    observed: Observed,
    actions: tuple[PlannedAction, ...],
    needs: tuple[ServiceNeed, ...],
    now_ms: int,
) -> tuple[Condition, ...]:
    blocked = [action for action in actions if isinstance(action, Blocked)]
    stuck = next((action for action in blocked if action.exit_code), None)
    failing = next(iter(standing_failures(status, observed)), None)
    found = [
        _condition(ConditionType.SPEC_VALID, True, "Valid", ""),
        _condition(
            ConditionType.PAUSED,
            table.spec.suspend,
            "Suspended" if table.spec.suspend else "Running",
            "",
        ),
    ]
    if table.spec.suspend:
        ready = _condition(ConditionType.READY, None, "Paused", _PAUSED)
    elif stuck is not None:
        ready = _condition(ConditionType.READY, False, stuck.reason, str(stuck))
    elif failing is not None:
        reason = failing.error if failing.error in _OWN_REASONS else "OperationFailed"
        ready = _condition(ConditionType.READY, False, reason, failing.message)
    elif not observed.has_table:
        ready = _condition(ConditionType.READY, False, NO_TABLE, _NO_TABLE_YET)
    else:
        ready = _condition(ConditionType.READY, True, "Current", "")
    found.append(ready)
    found.append(_adopted(table, status, observed, blocked))
    found.append(_healthy(table, observed))
    found.append(_ingesting(table, status, observed, blocked))
    found.append(_services_current(table, status, observed, needs))
    return tuple(_dated(item, status, now_ms) for item in found)


def _adopted(
    table: ResolvedTable, status: LakeTableStatus, observed: Observed, blocked: list[Blocked]
) -> Condition:
    """Whether the table is worked on, and on what grounds; as before while it cannot be read."""
    kind = ConditionType.ADOPTED
    refusals = [str(one) for one in blocked if one.reason in (TABLE_MISMATCH, NOT_ADOPTED)]
    problem = observed.problem
    if problem is not None and problem.reason == UnsupportedTableError.kind:
        refusals.append(problem.message)
    if refusals:
        return _condition(kind, False, AdoptionReason.REFUSED.value, refusals[0])
    if observed.table is not None:
        adoption = observed.table.adoption
        return _condition(kind, True, adoption.reason.value, adoption.message)
    if observed.iceberg is not None:
        return _condition(kind, True, AdoptionReason.VERIFIED.value, "")
    if not table.spec.suspend and problem is None:
        return _condition(kind, None, NO_TABLE, _NO_TABLE_YET)
    before = next((item for item in status.conditions if item.type is kind), None)
    return before or _unknown(kind, table, observed) or _condition(kind, None, NO_TABLE, "")


def _healthy(table: ResolvedTable, observed: Observed) -> Condition:
    kind = ConditionType.HEALTHY
    unknown = _unknown(kind, table, observed)
    if unknown is not None:
        return unknown
    pending = observed.table.pending if observed.table else ()
    dead = [one.time for one in pending if one.is_dead or one.fate is WriterFate.ENDING]
    if dead:
        message = f"instants of dead writers, to be rolled back: {', '.join(dead)}"
        return _condition(kind, False, "DeadWriter", message)
    return _condition(kind, True, "NoStuckInstant", "")


def _unknown(kind: ConditionType, table: ResolvedTable, observed: Observed) -> Condition | None:
    """The condition of a table that was not looked at, or could not be; None otherwise."""
    if table.spec.suspend:
        return _condition(kind, None, "Paused", _PAUSED)
    problem = observed.problem
    if problem is not None:
        return _condition(kind, None, problem.reason, _not_known(problem.message))
    if observed.refused is not None:
        return _condition(kind, None, NOT_ADOPTED, _not_known(observed.refused.message))
    return None


def _not_known(why: str) -> str:
    return f"unknown: {why}"


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
        message = f"files arrived too late in {', '.join(late)}: touch or copy them"
        return _condition(kind, True, "LateFiles", message)
    waiting = [
        f"{ingest}: {text}"
        for ingest, seen in observed.landings.items()
        if (text := seen.landing.describe_quarantine()) is not None
    ]
    if waiting:
        return _condition(kind, True, "Quarantined", "; ".join(waiting))
    return _condition(kind, True, "Current", "")


def _services_current(
    table: ResolvedTable,
    status: LakeTableStatus,
    observed: Observed,
    needs: tuple[ServiceNeed, ...],
) -> Condition:
    kind, mode = ConditionType.SERVICES_CURRENT, table.spec.services.mode
    if mode is ServiceMode.OFF:
        return _condition(kind, True, "Off", "spec.services.mode is Off")
    failures = standing_failures(status, observed)
    failed = [item.kind for item in failures if OperationKind(item.kind).service]
    broken = [need.name for need in needs if need.problem is not None]
    if failed or broken:
        return _condition(kind, False, "Failing", f"failing: {', '.join(failed + broken)}")
    unknown = _unknown(kind, table, observed)
    if unknown is not None:
        return unknown
    due = [f"{need.name} ({need.reason})" for need in needs if need.is_due]
    if due:
        reason = "Advised" if mode is ServiceMode.ADVISE else "Due"
        return _condition(kind, False, reason, f"due: {', '.join(due)}"[:_RESULT_LENGTH_MAX])
    return _condition(kind, True, "Current", "")


def _condition(kind: ConditionType, holds: bool | None, reason: str, message: str) -> Condition:
    """`holds` None: unknown."""
    return Condition(
        type=kind,
        status=Truth.UNKNOWN if holds is None else Truth.TRUE if holds else Truth.FALSE,
        reason=reason,
        message=message[:_MESSAGE_LENGTH_MAX],
        last_transition_time=Timestamp(0),
    )


def _dated(condition: Condition, status: LakeTableStatus, now_ms: int) -> Condition:
    before = next((item for item in status.conditions if item.type is condition.type), None)
    unchanged = before is not None and before.status is condition.status
    since = before.last_transition_time if before is not None and unchanged else Timestamp(now_ms)
    return replace(condition, last_transition_time=since)
