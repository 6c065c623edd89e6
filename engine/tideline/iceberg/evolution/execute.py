"""Commits changes of a table's definition: one conditional commit, all of them or none.

1. Load the newest metadata, and apply the changes to it. What cannot be is refused here.
2. Ask for the difference, if the table is still as it was as far as the changes depend on it.
3. When another writer was first, begin again on what it left. What cannot be any more by then, for
   it added a column of that name or moved a branch, is a conflict: nothing was committed.

Nothing but the next metadata is written. A death before that leaves the table as it was, a death
after it the table as wanted. The same changes once more are then refused by what is there, or have
nothing to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tideline.clock import Clock, SystemClock
from tideline.errors import ConfigError
from tideline.iceberg.evolution.draft import Draft
from tideline.iceberg.evolution.step import Step
from tideline.iceberg.metadata.metadata_update import MetadataUpdate, Requirement
from tideline.iceberg.metadata.owner import refuse_publication
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.retry import commit_retries
from tideline.iceberg.table.table_operations import (
    CommitOutcome,
    Committed,
    Conflicted,
    TableOperations,
)
from tideline.retry import RetryPolicy
from tideline.tracing import SpanKey, traced


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """What a list of changes comes down to for a table as it is."""

    steps: tuple[str, ...]
    updates: tuple[MetadataUpdate, ...]
    requirements: tuple[Requirement, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the table is as wanted already."""
        return not self.updates

    def to_json_object(self) -> dict[str, Any]:
        """The plan for machines."""
        return {"changes": list(self.steps), "is_empty": self.is_empty}


@dataclass(frozen=True, slots=True)
class ChangeRun:
    """What was committed; `outcome` is None when there was nothing to do."""

    plan: ChangePlan
    outcome: CommitOutcome | None


def plan_changes(metadata: TableMetadata, steps: Sequence[Step], *, now_ms: int) -> ChangePlan:
    """Raises ConfigError naming the first change that cannot be."""
    refuse_publication(metadata)
    draft = Draft.of(metadata, now_ms=now_ms)
    for step in steps:
        draft = step.apply(draft)
    return ChangePlan(tuple(map(str, steps)), draft.updates(), draft.requirements())


def execute_changes(
    operations: TableOperations,
    steps: Sequence[Step],
    *,
    clock: Clock | None = None,
    retry: RetryPolicy | None = None,
) -> ChangeRun:
    """Commit the changes, trying again as the table's properties or `retry` say.

    Raises ConfigError for a change that cannot be, CorruptTableError, UnsupportedTableError and
    StorageUnavailableError: then nothing was changed.
    """
    clock = clock or SystemClock()
    with traced("commit", {SpanKey.TABLE: operations.arguments}) as span:
        run = _attempt_all(operations, steps, clock, retry)
        if run.outcome is not None and not isinstance(run.outcome, Committed):
            span.fail(str(run.outcome))
    return run


def _attempt_all(
    operations: TableOperations, steps: Sequence[Step], clock: Clock, retry: RetryPolicy | None
) -> ChangeRun:
    base = operations.load()
    policy = retry or commit_retries(base.metadata.properties)
    plan = plan_changes(base.metadata, steps, now_ms=clock.now_ms())
    outcome: CommitOutcome | None = None
    for attempt in policy.attempts(clock):
        if attempt > 1:
            base = operations.load()
            try:
                plan = plan_changes(base.metadata, steps, now_ms=clock.now_ms())
            except ConfigError as error:
                reason = f"another writer was first, and by now {error}"
                return ChangeRun(plan, Conflicted(reason))
        if plan.is_empty:
            return ChangeRun(plan, None)
        outcome = operations.commit(base, plan.requirements, plan.updates)
        if not isinstance(outcome, Conflicted):
            break
    return ChangeRun(plan, outcome)
