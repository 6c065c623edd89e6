"""Failed operations of a table that are not resolved yet. Pure."""

from __future__ import annotations

from tideline.ingest.operation.operation import OperationKind
from tideline.ingest.sources.source import Nothing
from tideline_operator.decide.observed import Observed
from tideline_operator.decide.planner import ahead_of_ingest
from tideline_operator.decide.service_triggers import ServiceNeed
from tideline_operator.resources.lake_table import LakeTableSpec
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.services import ServiceMode
from tideline_operator.resources.status import LakeTableStatus, OperationPhase, OperationStatus


def unresolved_failures(status: LakeTableStatus) -> tuple[OperationStatus, ...]:
    """Operations that failed and that no later one on the same subject has resolved.

    One that is being retried is not resolved yet.
    """
    latest = {(item.kind, item.subject): item for item in status.operations}
    return tuple(
        item
        for item in latest.values()
        if item.phase is OperationPhase.FAILED
        or (item.phase is not OperationPhase.SUCCEEDED and item.failures)
    )


def standing_failures(
    table: ResolvedTable,
    status: LakeTableStatus,
    observed: Observed,
    needs: tuple[ServiceNeed, ...],
    now_ms: int,
) -> tuple[OperationStatus, ...]:
    """Those of the unresolved failures whose subject is declared and due.

    What the spec no longer declares, and what somebody else has done meanwhile, is not retried: a
    failure of it would stand for ever. Of a table that cannot be read every failure stands.
    """
    spec = table.spec
    failures = unresolved_failures(status)
    if observed.problem is not None:
        return failures
    due_ingests = _due_ingests(table, observed, now_ms)

    def stands(item: OperationStatus) -> bool:
        kind = OperationKind(item.kind)
        if kind.service is not None:
            is_run = spec.services.mode is ServiceMode.AUTO
            return is_run and any(need.service == kind.service and _stands(need) for need in needs)
        match kind:
            case OperationKind.CREATE:
                return not observed.has_table
            case OperationKind.INGEST:
                return item.subject in due_ingests
            case OperationKind.SAVEPOINT:
                return item.subject in _missing_savepoints(spec, observed)
            case OperationKind.RESTORE:
                return spec.restore_to is not None
            case OperationKind.ROLLBACK:
                return observed.table is None or any(
                    instant.is_dead for instant in observed.table.pending
                )
            case _:
                return True

    return tuple(filter(stands, failures))


def _stands(need: ServiceNeed) -> bool:
    """Whether a failed run is to be repeated, now or once the service has rested."""
    return need.is_due or need.problem is not None or need.service.pause_ms is not None


def _due_ingests(table: ResolvedTable, observed: Observed, now_ms: int) -> frozenset[str]:
    """Declared ingests with files that wait, or whose source was not looked at now."""
    spec = table.spec
    if spec.fenced or spec.restore_to is not None:
        return frozenset()
    due = set()
    for ingest in spec.ingest:
        ahead = ahead_of_ingest(table, ingest, observed, now_ms)
        is_idle = ahead is not None and isinstance(ahead.next, Nothing)
        if ahead is None or not is_idle or ahead.is_cluttered(table.sources[ingest.name]):
            due.add(ingest.name)
    return frozenset(due)


def _missing_savepoints(spec: LakeTableSpec, observed: Observed) -> frozenset[str]:
    made = observed.table.savepoints if observed.table is not None else {}
    return frozenset(item.name for item in spec.savepoints) - frozenset(made)
