"""One reconciliation of a table: what it has read, and what it reports."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tideline.ingest.operation.result import OperationResult
from tideline_operator.api_objects import Manifest
from tideline_operator.controller.table_session import TableSession
from tideline_operator.controller.work_queue import Key
from tideline_operator.report.conditions import with_condition
from tideline_operator.resources.status import ConditionType, LakeTableStatus, OperationStatus

LAG_MS = 5_000
"""How old the lag of a stream may be in the status."""


@dataclass(slots=True)
class Reconciliation:
    """What one turn knows. `item` is the object as it was last read or written; `in_force` says
    which spec is in force where the newest one is not valid.
    """

    key: Key
    session: TableSession
    item: Manifest
    status: LakeTableStatus
    reported: LakeTableStatus
    now_ms: int
    spec_problem: str | None = None
    in_force: str = ""
    look_at_ms: int | None = None
    began_ms: int = 0
    ended: list[tuple[OperationStatus, OperationResult]] = field(default_factory=list)

    @property
    def has_news(self) -> bool:
        """Whether the status is worth a write: how much of a stream waits changes with each look,
        and metrics say it."""
        if without_looks(self.status) == without_looks(self.reported):
            return False
        is_lag = without_lags(self.status) == without_lags(self.reported)
        return not is_lag or self.now_ms - self.session.written_ms >= LAG_MS

    def of_this_generation(self) -> LakeTableStatus:
        """The status as one that is about the newest spec."""
        generation = int(self.item["metadata"].get("generation") or 0)
        return replace(self.status, observed_generation=generation)

    def with_spec_condition(self, status: LakeTableStatus) -> LakeTableStatus:
        """SpecValid, and Ready with it: a user who waits for Ready expects the newest spec."""
        problem, now_ms = self.spec_problem, self.now_ms
        kind = ConditionType.SPEC_VALID
        if problem is None:
            return with_condition(status, kind, True, "Valid", "", now_ms)
        generation = int(self.item["metadata"].get("generation") or 0)
        status = replace(status, observed_generation=generation)
        status = with_condition(status, kind, False, "Invalid", problem, now_ms)
        message = f"{problem}; {self.in_force}" if self.in_force else problem
        return with_condition(status, ConditionType.READY, False, "SpecInvalid", message, now_ms)

    def about(self, entry: OperationStatus, seconds: float | None = None) -> dict[str, object]:
        """The fields of a log line about an operation."""
        return {
            "table": "/".join(self.key),
            "operation": entry.id,
            "kind": entry.kind,
            "attempt": entry.attempt,
            "seconds": seconds,
        }

    def note_ready(self, reason: str | None, message: str) -> None:
        """Add a message to the condition Ready; a `reason` makes it False."""
        kind = ConditionType.READY
        before = next((item for item in self.status.conditions if item.type is kind), None)
        if reason is not None:
            self.status = with_condition(self.status, kind, False, reason, message, self.now_ms)
        elif before is not None:
            changed = replace(before, message="; ".join(filter(None, (before.message, message))))
            noted = (changed if item is before else item for item in self.status.conditions)
            self.status = replace(self.status, conditions=tuple(noted))


def without_looks(status: LakeTableStatus) -> LakeTableStatus:
    """A status without the times of looks that found nothing new."""
    ingest = {name: replace(item, polled_at=None) for name, item in status.ingest.items()}
    return replace(status, ingest=ingest)


def without_lags(status: LakeTableStatus) -> LakeTableStatus:
    """A status that says only whether something waits, not how much and for how long."""
    ingest = {
        name: replace(
            item,
            lag_records=min(1, item.lag_records),
            lag_bytes=min(1, item.lag_bytes),
            oldest_record_at=None,
        )
        for name, item in without_looks(status).ingest.items()
    }
    return replace(status, ingest=ingest)
