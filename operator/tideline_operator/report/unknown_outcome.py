"""Operations whose commit may have taken place, settled by reading the table. Pure.

A driver with an unknown outcome ends with UnknownOutcomeError's exit code and names its instant.
Once a look at the table shows that instant completed, the operation has succeeded; until then, and
when the instant was rolled back, it counts as one that may be retried: a retry starts from a
checkpoint or a plan and never duplicates anything.
"""

from __future__ import annotations

from dataclasses import replace

from tideline.errors import UnknownOutcomeError
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline_operator.decide.observed import ObservedTable
from tideline_operator.resources.status import LakeTableStatus, OperationPhase, OperationStatus


def settle_unknown(status: LakeTableStatus, seen: ObservedTable | None) -> LakeTableStatus:
    """`status` with those operations as succeeded whose commits turn out to have taken place."""
    if seen is None:
        return status
    settled = tuple(_settled(item, seen) for item in status.operations)
    return status if settled == status.operations else replace(status, operations=settled)


def _settled(entry: OperationStatus, seen: ObservedTable) -> OperationStatus:
    is_open = (
        entry.phase is OperationPhase.FAILED
        and entry.exit_code == UnknownOutcomeError.exit_code
        and entry.instant is not None
        and is_instant_time(entry.instant)
    )
    if not is_open or entry.instant is None:
        return entry
    found = seen.history.timeline.find(InstantTime(entry.instant))
    if found is None or not found.is_completed:
        return entry
    return replace(
        entry,
        phase=OperationPhase.SUCCEEDED,
        failures=0,
        exit_code=0,
        is_safe_to_retry=False,
        retry_at=None,
        message=f"{entry.instant} is committed, which was unknown at first",
    )
