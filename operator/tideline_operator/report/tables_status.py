"""The status of what has many tables, from their listing and its LakeTables. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from tideline.wording import counted
from tideline_operator.api_objects import Manifest
from tideline_operator.decide.observed import Problem
from tideline_operator.report.table_story import due_services, running
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import ConditionStatus, ConditionType
from tideline_operator.resources.tables_status import (
    LEFT_MAX,
    TablesCondition,
    TablesConditionType,
    TablesStatus,
)

_Status = TypeVar("_Status", bound=TablesStatus)
_MESSAGE_LENGTH_MAX = 1_000
_NAMED_MAX = 3
_PAUSED = "Paused"


@dataclass(frozen=True, slots=True)
class Listed:
    """What the last complete listing came to; `left` are tables that cannot be maintained, with
    the reason."""

    at_ms: int
    found: int
    excluded: int
    left_to_others: int
    left: Mapping[str, str]


def tables_status(
    before: _Status,
    listed: Listed | None,
    owned: Iterable[Manifest],
    problem: Problem | None,
    *,
    generation: int,
    now_ms: int,
) -> _Status:
    """The status now. `problem` is why the tables are not listed as the spec says; what an earlier
    listing found stays."""
    tables = tuple(owned)
    failing = [table for table in tables if is_failing(table)]
    status = replace(
        before,
        observed_generation=generation,
        maintained=len(tables),
        late=sum(map(is_late, tables)),
        failing=len(failing),
    )
    if listed is not None:
        status = replace(
            status,
            last_look=Timestamp(listed.at_ms),
            found=listed.found,
            excluded=listed.excluded,
            left_to_others=listed.left_to_others,
            left={
                name: reason[:_MESSAGE_LENGTH_MAX]
                for name, reason in sorted(listed.left.items())[:LEFT_MAX]
            },
        )
    ready, tables_ready = TablesConditionType.READY, TablesConditionType.TABLES_READY
    if problem is not None:
        conditions = [(ready, ConditionStatus.FALSE, problem.reason, problem.message)]
    elif listed is None:
        conditions = [
            (ready, ConditionStatus.UNKNOWN, "NotListed", "its tables are about to be listed")
        ]
    else:
        conditions = [(ready, ConditionStatus.TRUE, "Listed", "")]
    if failing:
        conditions.append((tables_ready, ConditionStatus.FALSE, "TablesFailing", _named(failing)))
    else:
        conditions.append((tables_ready, ConditionStatus.TRUE, "NoneFails", ""))
    return replace(
        status, conditions=tuple(_dated(before, *given, now_ms=now_ms) for given in conditions)
    )


def is_failing(table: Manifest) -> bool:
    """Whether a LakeTable is known not to be ready, and not because somebody paused it."""
    ready = _ready(table)
    return ready.get("status") == ConditionStatus.FALSE.value and ready.get("reason") != _PAUSED


def is_late(table: Manifest) -> bool:
    """Whether a service of it is due and nothing runs."""
    return bool(due_services(table)) and not running(table)


def _named(failing: list[Manifest]) -> str:
    first = (
        f"{table['metadata']['name']} ({_ready(table).get('reason')})"
        for table in failing[:_NAMED_MAX]
    )
    more = len(failing) - _NAMED_MAX
    also = f" and {more:,} more" if more > 0 else ""
    return f"{counted(len(failing), 'table')} not ready: {', '.join(first)}{also}"


def _ready(table: Manifest) -> Manifest:
    conditions = (table.get("status") or {}).get("conditions") or ()
    found = (
        condition for condition in conditions if condition.get("type") == ConditionType.READY.value
    )
    return next(found, {})


def _dated(
    before: TablesStatus,
    kind: TablesConditionType,
    status: ConditionStatus,
    reason: str,
    message: str,
    *,
    now_ms: int,
) -> TablesCondition:
    same = (
        condition
        for condition in before.conditions
        if condition.type is kind and condition.status is status
    )
    known = next(same, None)
    return TablesCondition(
        type=kind,
        status=status,
        reason=reason,
        message=message[:_MESSAGE_LENGTH_MAX],
        last_transition_time=Timestamp(now_ms) if known is None else known.last_transition_time,
    )
