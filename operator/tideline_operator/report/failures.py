"""Failed operations of a table that are not resolved yet. Pure."""

from __future__ import annotations

from tideline.ingest.operation.operation import OperationKind
from tideline_operator.decide.observed import Observed
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


def standing_failures(status: LakeTableStatus, observed: Observed) -> tuple[OperationStatus, ...]:
    """The same without those of services that are left out now: they are not retried."""
    left_out = observed.table.adoption.left_out if observed.table is not None else {}
    return tuple(
        item
        for item in unresolved_failures(status)
        if OperationKind(item.kind).service not in left_out
    )
