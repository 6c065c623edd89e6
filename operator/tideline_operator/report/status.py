"""The status of a table, from what was observed, planned and done. Pure."""

from __future__ import annotations

from dataclasses import replace

from tideline.backoff import doubled
from tideline.hudi.table.file_counts import FileCounts
from tideline.ingest.operation.operation import (
    Operation,
    OperationKind,
    RunService,
)
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.ingest.sources.checkpoint import newest_of
from tideline_operator.decide.actions import Blocked, PlannedAction, Wait
from tideline_operator.decide.addresses import address_of
from tideline_operator.decide.due_services import needs_of
from tideline_operator.decide.observed import Observed, ObservedSource
from tideline_operator.decide.planner import TABLE_MISMATCH, ahead_of_ingest
from tideline_operator.decide.service_settings import spec_name
from tideline_operator.decide.service_triggers import ServiceNeed
from tideline_operator.decide.triggers import cron_after_ms
from tideline_operator.report.conditions import RESULT_LENGTH_MAX, conditions_of
from tideline_operator.report.held_up import held_up_words
from tideline_operator.report.iceberg_status import iceberg_table_status, iceberg_timeline
from tideline_operator.report.unknown_outcome import settle_unknown
from tideline_operator.resources.ingest import Ingest
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.spent import NO_PODS, PodUse, Spent
from tideline_operator.resources.status import (
    OPERATIONS_MAX,
    RUN_FAILED,
    IngestStatus,
    LakeTableStatus,
    OperationPhase,
    OperationStatus,
    OwnedTable,
    PendingInstant,
    RunCounts,
    RunSaving,
    ServiceStatus,
    TableStatus,
    TimelineStatus,
)

_RETRY_FIRST_MS = {True: 2_000, False: 30_000}
_RETRY_LAST_MS = 600_000
_PENDING_MAX = 100


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
    return work.rerun if isinstance(work, RunService) else None


def operation_finished(
    status: LakeTableStatus, result: OperationResult, now_ms: int, pods: PodUse = NO_PODS
) -> LakeTableStatus:
    """Note how a started operation ended, what it took, and when it may be tried again."""
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
    status = _with_spent(_with_operation(status, done), done, result, pods)
    return _with_service_run(status, done, result)


def retry_delay_ms(attempt: int, *, is_safe: bool) -> int:
    """The delay before the next attempt after `attempt` (from 1): doubling, at most 10 min.

    What is safe to retry (a conflict, an unreachable store, a dead worker) starts with 2 s, what
    needs a correction by a user with 30 s.
    """
    return int(doubled(_RETRY_FIRST_MS[is_safe], attempt - 1, _RETRY_LAST_MS))


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
    # A source with something in its way stays due: until it is looked at again, nothing says so.
    blocked = {action.subject for action in actions if isinstance(action, Blocked)}
    ingests = {
        ingest.name: _ingest_status(table, ingest, status, observed, now_ms)
        for ingest in table.spec.ingest
    }
    for name in blocked & ingests.keys():
        before = status.ingest.get(name, IngestStatus())
        ingests[name] = replace(
            ingests[name], polled_at=before.polled_at, cron_after=before.cron_after
        )
    status = replace(status, ingest=ingests)
    return replace(
        status,
        observed_generation=table.resource.metadata.generation,
        timeline=timeline,
        table=files,
        owned=_owned(table, status, observed, actions),
        services=(
            _service_statuses(status, needs, actions) if observed.has_table else status.services
        ),
        lag_files=sum(item.lag_files for item in ingests.values()) if ingests else None,
        conditions=conditions_of(table, status, observed, actions, needs, now_ms),
    )


def owned_table(table: ResolvedTable, identity: str) -> OwnedTable:
    """The table of that identity, at the place that `table` declares."""
    address = address_of(table.location, table.resource.metadata.namespace)
    return OwnedTable(location=address, identity=identity)


def with_entry(status: LakeTableStatus, entry: OperationStatus) -> LakeTableStatus:
    """`status` with this entry as the newest of its operations, instead of one of its id."""
    return _with_operation(status, entry)


def without_entry(status: LakeTableStatus, operation_id: str) -> LakeTableStatus:
    """`status` without the operation of that id."""
    kept = tuple(item for item in status.operations if item.id != operation_id)
    return replace(status, operations=kept)


def _with_operation(status: LakeTableStatus, entry: OperationStatus) -> LakeTableStatus:
    operations = [*(item for item in status.operations if item.id != entry.id), entry]
    # The oldest go, but never what is under way: a long service outlives many ingests.
    ended = [item for item in operations if not item.is_under_way and item is not entry]
    for item in ended[: max(len(operations) - OPERATIONS_MAX, 0)]:
        operations.remove(item)
    return replace(status, operations=tuple(operations[-OPERATIONS_MAX:]))


def _with_spent(
    status: LakeTableStatus, entry: OperationStatus, result: OperationResult, pods: PodUse
) -> LakeTableStatus:
    """Add what an operation took to the totals of its kind."""
    known = status.spent.get(entry.kind, Spent())
    failed = entry.phase is OperationPhase.FAILED
    now = Spent(
        runs=known.runs + 1,
        failures=known.failures + failed,
        last_failure=entry.finished_at if failed else known.last_failure,
        pod_ms=known.pod_ms + pods.pod_ms,
        mib_seconds=known.mib_seconds + pods.mib_seconds,
        core_ms=known.core_ms + round(1000 * result.core_seconds),
        bytes_read=known.bytes_read + result.bytes_read + result.source_bytes,
        bytes_written=known.bytes_written + result.bytes_written,
        requests=known.requests + result.requests,
    )
    return replace(status, spent={**status.spent, entry.kind: now})


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
        last_result=(f"{RUN_FAILED}: {entry.message}" if failed else entry.message)[
            :RESULT_LENGTH_MAX
        ],
        rerun=known.rerun if failed or entry.rerun is None else entry.rerun,
        last_figures=known.last_figures if failed else _run_counts(result),
        last_saving=_run_saving(result) or known.last_saving,
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


def _run_saving(result: OperationResult) -> RunSaving | None:
    """None for a run that did nothing, which says nothing of the next."""
    if result.outcome is not Outcome.SUCCEEDED:
        return None
    return RunSaving(
        **result.saved.to_json_object(),
        core_ms=round(1000 * result.core_seconds),
        requests=result.requests,
    )


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
            reason=need.reason[:RESULT_LENGTH_MAX],
            next_run=None if next_ms is None else Timestamp(next_ms),
        )
    return found


def _table_status(status: LakeTableStatus, counts: FileCounts | None) -> TableStatus | None:
    if counts is None:
        return status.table
    return TableStatus(
        files=counts.base_files,
        bytes=counts.size_bytes,
        small_file_percent=round(100 * counts.small_files / max(1, counts.base_files)),
        log_files=counts.log_files,
    )


def _owned(
    table: ResolvedTable,
    status: LakeTableStatus,
    observed: Observed,
    actions: tuple[PlannedAction, ...],
) -> OwnedTable | None:
    """The table at the location, once it was found to be as declared; kept from then on."""
    differs = any(
        isinstance(action, Blocked) and action.reason == TABLE_MISMATCH for action in actions
    )
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
    ahead = ahead_of_ingest(table, ingest, observed, now_ms)
    checkpoint = newest_of(observed.checkpoints, ingest.name, ingest.renamed_from or "")
    by_cron = ingest.trigger.cron is not None
    available = observed.sources.get(ingest.name, ObservedSource()).available
    if ahead is None or available is None:
        after = Timestamp(cron_after_ms(before, now_ms)) if by_cron else None
        return replace(before, checkpoint=str(checkpoint) if checkpoint else "", cron_after=after)
    backlog, set_aside = ahead.backlog, available.set_aside
    # Not every look asks for the age of records: until one does, the last age is close.
    oldest_at = None if backlog.oldest_ms is None else Timestamp.of_others(backlog.oldest_ms)
    records, oldest_record_at = backlog.records, oldest_at or before.oldest_record_at
    if not backlog.is_seen:
        records, oldest_record_at = before.lag_records, before.oldest_record_at
    retained = available.retained
    # What a look from a watermark does not show is as the last full look found it.
    is_whole = available.is_whole
    return IngestStatus(
        polled_at=Timestamp(now_ms),
        cron_after=Timestamp(now_ms) if by_cron else None,
        checkpoint=str(checkpoint) if checkpoint else "",
        lag_files=backlog.parts,
        lag_bytes=backlog.size_bytes,
        lag_records=records,
        oldest_file_at=None if records else oldest_at,
        oldest_record_at=oldest_record_at if records else None,
        unsettled_files=backlog.unsettled,
        quarantined_files=set_aside.parts if is_whole else before.quarantined_files,
        quarantined_rows=set_aside.rows if is_whole else before.quarantined_rows,
        late_files=backlog.late if is_whole else before.late_files,
        retained_bytes=None if retained is None else retained.size_bytes,
        safe_bytes=None if retained is None else retained.safe_bytes,
        slot_state="" if retained is None else retained.state,
        slot_risk="" if retained is None else retained.risk,
        held_up=held_up_words(available, now_ms)[:RESULT_LENGTH_MAX],
    )
