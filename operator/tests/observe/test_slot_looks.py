"""What a look at a table of Postgres leaves in the status: lag, the slot, what is to be done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.look import Ahead, PostgresLook, Slot, SlotState
from tideline.ingest.sources.postgres.position import Origin, PostgresPosition
from tideline_operator.decide.actions import PlannedAction, Wait, WaitKind
from tideline_operator.decide.observed import Observed, ObservedSource
from tideline_operator.decide.planner import plan
from tideline_operator.report.conditions import SLOT_AT_RISK
from tideline_operator.report.status import (
    observed_status,
    operation_finished,
    operation_started,
)
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    LakeTableStatus,
)
from tideline_operator.testing.table_states import EMPTY, NOW_MS, TABLE, resolved, starts

ORIGIN = Origin("1", 1, 2, 3, 4)
ORDERS = replace(
    resolved(),
    sources={"landing": DeclaredPostgres(table="orders", slot="orders", publication="orders")},
)
WAITING = Ahead(200, 3, seen_to=200, oldest_ms=5_000)


def status(
    slot: Slot | None,
    ahead: Ahead | None,
    before: LakeTableStatus = EMPTY,
    *,
    is_looked_at: bool = True,
) -> LakeTableStatus:
    look = PostgresLook("orders", "orders", ORIGIN, slot, 300, ahead=ahead)
    checkpoints = {"landing": Checkpoint(1, PostgresPosition(ORIGIN, 100, None))}
    sources = {"landing": ObservedSource(look)} if is_looked_at else {}
    observed = Observed(table=replace(TABLE, checkpoints=checkpoints), sources=sources)
    actions = plan(ORDERS, before, observed, NOW_MS)
    return observed_status(ORDERS, before, observed, actions, NOW_MS)


def healthy(found: LakeTableStatus) -> Condition:
    return next(item for item in found.conditions if item.type is ConditionType.HEALTHY)


def test_changes_that_wait_are_in_the_status_until_they_are_read() -> None:
    first = status(Slot(100), WAITING)
    seen = first.ingest["landing"]
    assert (seen.lag_records, seen.oldest_record_at) == (3, Timestamp(5_000))
    assert seen.lag_bytes == 200
    # A slot that a pod reads cannot be looked at, and one that is lost has nothing to look at.
    for slot, ahead in (
        (Slot(100, is_active=True), None),
        (Slot(100), Ahead(is_all=False, seen_to=100)),
        (Slot(0, SlotState.LOST), None),
    ):
        seen = status(slot, ahead, first).ingest["landing"]
        assert (seen.lag_records, seen.oldest_record_at) == (3, Timestamp(5_000))
    seen = status(Slot(100), Ahead(seen_to=300), first).ingest["landing"]
    assert (seen.lag_records, seen.oldest_record_at) == (0, None)


def test_log_that_no_look_has_time_for_is_tried_again_later_and_later() -> None:
    """Until it has doubled; looks are made meanwhile."""
    known, now_ms, delays = EMPTY, NOW_MS, []

    def planned(flushed: int) -> tuple[PlannedAction, ...]:
        look = PostgresLook(
            "orders", "orders", ORIGIN, Slot(100), flushed, ahead=Ahead(is_all=False, seen_to=100)
        )
        checkpoints = {"landing": Checkpoint(1, PostgresPosition(ORIGIN, 100, None))}
        found = replace(TABLE, checkpoints=checkpoints)
        return plan(ORDERS, known, Observed(found, {"landing": ObservedSource(look)}), now_ms)

    for number in range(5):
        (start,) = starts(planned(1_000 * (number + 1)))
        known = operation_started(known, start.operation, start.attempt, now_ms)
        result = OperationResult(start.operation.id, Outcome.NOTHING)
        known = operation_finished(known, result, now_ms)
        waits = [item for item in planned(9_000) if isinstance(item, Wait)]
        (retry,) = (item.until_ms for item in waits if item.kind is WaitKind.RETRY)
        (poll,) = (item.until_ms for item in waits if item.kind is WaitKind.POLL)
        assert poll == now_ms + 30_000
        delays.append((retry - now_ms) // 1000)
        now_ms = retry
    assert delays == [30, 60, 120, 240, 480]
    now_ms -= 1
    assert starts(planned(9_000)) == []
    assert len(starts(planned(2 << 20))) == 1


@pytest.mark.parametrize(("said_ms", "written"), [(-(1 << 62), "1970-"), (1 << 62, "9999-")])
def test_a_time_that_nobody_can_print_is_one_that_can(said_ms: int, written: str) -> None:
    seen = status(Slot(100), replace(WAITING, oldest_ms=said_ms)).ingest["landing"]
    assert str(seen.oldest_record_at).startswith(written)


def test_what_the_server_keeps_is_in_the_status() -> None:
    slot = Slot(100, SlotState.EXTENDED, 9_000, 5_000)
    first = status(slot, WAITING)
    kept = first.ingest["landing"]
    assert (kept.retained_bytes, kept.safe_bytes, kept.slot_state) == (9_000, 5_000, "extended")
    assert kept.slot_risk == ""
    assert healthy(first).status is ConditionStatus.TRUE
    assert status(None, None, first).ingest["landing"].retained_bytes is None


def test_a_slot_at_risk_is_a_condition_with_the_remedy_until_it_is_none() -> None:
    risky = Slot(100, SlotState.UNRESERVED, 9_000, -10)
    found = status(risky, WAITING)
    assert (healthy(found).status, healthy(found).reason) == (ConditionStatus.FALSE, SLOT_AT_RISK)
    assert healthy(found).message.startswith("landing: slot orders is unreserved: ")
    assert "raise max_slot_wal_keep_size" in healthy(found).message
    # A turn that does not look at the source leaves it as it is.
    later = status(None, None, found, is_looked_at=False)
    assert healthy(later).reason == SLOT_AT_RISK
    assert healthy(status(Slot(100), WAITING, later)).status is ConditionStatus.TRUE
    lost = status(Slot(0, SlotState.LOST), None, later)
    assert healthy(lost).status is ConditionStatus.TRUE
    ready = next(item for item in lost.conditions if item.type is ConditionType.READY)
    assert ready.reason == "SourceLost"
