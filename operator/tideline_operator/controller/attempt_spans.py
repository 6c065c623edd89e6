"""The operator's spans of an attempt at an operation: the turn that started it, and its Job.

That of the turn is recorded once the Job is there, or a worker has got the operation; that of the
Job once the table's status has the end, so once even where a turn is repeated. A death of the
operator just before either costs that span.
"""

from __future__ import annotations

from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.tracing import AttemptSpans, SpanKey, record_span
from tideline_operator.controller.reconciliation import Reconciliation
from tideline_operator.launch.driver_job import job_name
from tideline_operator.resources.status import OperationStatus


def record_reconcile_span(
    turn: Reconciliation, entry: OperationStatus, reason: str, now_ms: int
) -> None:
    """The turn started this attempt, for this reason."""
    record_span(
        "reconcile",
        _spans_of(turn, entry).reconcile,
        started_ms=turn.began_ms,
        ended_ms=now_ms,
        attributes={**_about(turn, entry), SpanKey.REASON: reason},
    )


def record_job_span(turn: Reconciliation, entry: OperationStatus, result: OperationResult) -> None:
    """The attempt ended with this result, and the status has it."""
    about = {**_about(turn, entry), SpanKey.OUTCOME: result.outcome.value}
    if entry.worker:
        about[SpanKey.WORKER] = entry.worker
    else:
        about["k8s.job.name"] = job_name(entry.id, entry.attempt)
    if result.instant is not None:
        about[SpanKey.INSTANT] = result.instant
    record_span(
        "worker" if entry.worker else "job",
        _spans_of(turn, entry).job,
        started_ms=entry.started_at.ms,
        ended_ms=turn.now_ms,
        attributes=about,
        failure=result.message if result.outcome is Outcome.FAILED else "",
    )


def _spans_of(turn: Reconciliation, entry: OperationStatus) -> AttemptSpans:
    return AttemptSpans.of(str(turn.item["metadata"]["uid"]), entry.id, entry.attempt)


def _about(turn: Reconciliation, entry: OperationStatus) -> dict[str, str]:
    return {
        "k8s.namespace.name": turn.key[0],
        SpanKey.TABLE: turn.key[1],
        SpanKey.OPERATION: entry.id,
        SpanKey.KIND: entry.kind,
        SpanKey.ATTEMPT: str(entry.attempt),
    }
