"""The conditions of a table: what holds of it now, for what reason, and since when. Pure."""

from __future__ import annotations

from dataclasses import replace

from tideline.errors import UnsupportedTableError
from tideline.ingest.executors.executor_admission import EXECUTORS_REFUSED
from tideline.ingest.operation.operation import (
    OperationKind,
)
from tideline_operator.decide.actions import Blocked, PlannedAction
from tideline_operator.decide.adoption import AdoptionReason
from tideline_operator.decide.observed import Observed, WriterState
from tideline_operator.decide.planner import NOT_ADOPTED, TABLE_MISMATCH
from tideline_operator.decide.service_triggers import ServiceNeed
from tideline_operator.report.failures import standing_failures
from tideline_operator.resources.metadata import PAUSED_ANNOTATION
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.services import ServiceMode
from tideline_operator.resources.status import (
    NO_TABLE,
    Condition,
    ConditionStatus,
    ConditionType,
    LakeTableStatus,
    OperationStatus,
)

RESULT_LENGTH_MAX = 1_024
_MESSAGE_LENGTH_MAX = 4_000
SLOT_AT_RISK = "SlotAtRisk"
"""Reason of `Healthy` while the server of an ingest is about to give up what comes next."""
RECORDS_HELD = "RecordsHeld"
"""Reason of `Healthy` while a part of a source cannot be read."""
_NO_TABLE_YET = "no table at the location yet"
_PAUSED = "the table is paused: nothing is checked or run"
_OWN_REASONS = (EXECUTORS_REFUSED,)
"""Failures that are reasons of `Ready` by themselves: there is one thing to do about each."""


def conditions_of(
    table: ResolvedTable,
    status: LakeTableStatus,
    observed: Observed,
    actions: tuple[PlannedAction, ...],
    needs: tuple[ServiceNeed, ...],
    now_ms: int,
) -> tuple[Condition, ...]:
    """Every condition of a table that was observed, with the times they have stood since."""
    blocked = [action for action in actions if isinstance(action, Blocked)]
    stuck = next((action for action in blocked if action.exit_code), None)
    failures = standing_failures(table, status, observed, needs, now_ms)
    failing = next(iter(failures), None)
    found = [
        _condition(ConditionType.SPEC_VALID, True, "Valid", ""),
        _paused(table),
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
    found.append(_healthy(table, status, observed))
    found.append(_ingesting(table, status, observed, blocked))
    found.append(_services_current(table, observed, needs, failures))
    return tuple(_dated(item, status, now_ms) for item in found)


def with_condition(
    status: LakeTableStatus,
    kind: ConditionType,
    holds: bool | None,
    reason: str,
    message: str,
    now_ms: int,
) -> LakeTableStatus:
    """`status` with one condition set; its time only changes when its status does."""
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


def _adopted(
    table: ResolvedTable, status: LakeTableStatus, observed: Observed, blocked: list[Blocked]
) -> Condition:
    """Whether the table is worked on, and on what grounds; as before while it cannot be read."""
    kind = ConditionType.ADOPTED
    refusals = [
        str(candidate) for candidate in blocked if candidate.reason in (TABLE_MISMATCH, NOT_ADOPTED)
    ]
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


def troubles_of_sources(status: LakeTableStatus) -> list[tuple[str, str, str]]:
    """The reason, the ingest and the words of what is wrong with sources, the worst first."""
    found = [(SLOT_AT_RISK, name, item.slot_risk) for name, item in status.ingest.items()]
    found += [(RECORDS_HELD, name, item.held_up) for name, item in status.ingest.items()]
    return [(reason, name, f"{name}: {words}") for reason, name, words in found if words]


def _healthy(table: ResolvedTable, status: LakeTableStatus, observed: Observed) -> Condition:
    kind = ConditionType.HEALTHY
    unknown = _unknown(kind, table, observed)
    if unknown is not None:
        return unknown
    pending = observed.table.pending if observed.table else ()
    dead = [
        instant.time
        for instant in pending
        if instant.is_dead or instant.writer_state is WriterState.ENDING
    ]
    if dead:
        message = f"instants of dead writers, to be rolled back: {', '.join(dead)}"
        return _condition(kind, False, "DeadWriter", message)
    troubles = troubles_of_sources(status)
    if troubles:
        reason = troubles[0][0]
        return _condition(
            kind, False, reason, "; ".join(words for of, _, words in troubles if of == reason)
        )
    return _condition(kind, True, "NoStuckInstant", "")


def _paused(table: ResolvedTable) -> Condition:
    kind = ConditionType.PAUSED
    if table.is_namespace_paused:
        message = f"its namespace has the annotation {PAUSED_ANNOTATION}"
        return _condition(kind, True, "NamespacePaused", message)
    if table.spec.suspend:
        return _condition(kind, True, "Suspended", "")
    return _condition(kind, False, "Running", "")


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
        for ingest, seen in observed.sources.items()
        if seen.available is not None and (text := seen.available.set_aside.words) is not None
    ]
    if waiting:
        return _condition(kind, True, "Quarantined", "; ".join(waiting))
    if not observed.checkpoints and not any(item.checkpoint for item in status.ingest.values()):
        return _condition(kind, True, "NothingIngested", "nothing has been ingested yet")
    return _condition(kind, True, "Current", "")


def _services_current(
    table: ResolvedTable,
    observed: Observed,
    needs: tuple[ServiceNeed, ...],
    failures: tuple[OperationStatus, ...],
) -> Condition:
    kind, mode = ConditionType.SERVICES_CURRENT, table.spec.services.mode
    if mode is ServiceMode.OFF:
        return _condition(kind, True, "Off", "spec.services.mode is Off")
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
        return _condition(kind, False, reason, f"due: {', '.join(due)}"[:RESULT_LENGTH_MAX])
    return _condition(kind, True, "Current", "")


def _condition(kind: ConditionType, holds: bool | None, reason: str, message: str) -> Condition:
    """`holds` None: unknown."""
    return Condition(
        type=kind,
        status=ConditionStatus.UNKNOWN
        if holds is None
        else ConditionStatus.TRUE
        if holds
        else ConditionStatus.FALSE,
        reason=reason,
        message=message[:_MESSAGE_LENGTH_MAX],
        last_transition_time=Timestamp(0),
    )


def _dated(condition: Condition, status: LakeTableStatus, now_ms: int) -> Condition:
    before = next((item for item in status.conditions if item.type is condition.type), None)
    unchanged = before is not None and before.status is condition.status
    since = before.last_transition_time if before is not None and unchanged else Timestamp(now_ms)
    return replace(condition, last_transition_time=since)
