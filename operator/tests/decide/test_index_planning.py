"""Missing indexes in the planner: made early, tried again, and in no ingest's way."""

from __future__ import annotations

from typing import Any

from tideline.ingest.operation.operation import RunService
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline_operator.decide.actions import Priority, Wait, WaitKind
from tideline_operator.decide.observed import ObservedTable
from tideline_operator.decide.planner import plan
from tideline_operator.decide.service_triggers import service_needs
from tideline_operator.report.status import observed_status, operation_finished, operation_started
from tideline_operator.testing.table_states import (
    EMPTY,
    FILES,
    NOW_MS,
    observed_table,
    only_service,
    resolved,
    seen,
    started_kinds,
    starts,
)


def needs(spec: dict[str, Any], table: ObservedTable) -> dict[str, tuple[bool, bool]]:
    """By service: whether it is due, and whether before ingests."""
    found = service_needs(resolved(**spec).spec, EMPTY, table, NOW_MS)
    return {need.name: (need.is_due, need.is_urgent) for need in found}


INDEXED = {**only_service("cleaning", retain=9), "indexes": ["column_stats", "record_index"]}
HAS_ONE = {"properties": {"hoodie.table.metadata.partitions": "files,column_stats"}}


def test_a_missing_index_is_made_before_more_rows_come_in() -> None:
    assert needs(INDEXED, observed_table(""))["indexing"] == (False, False)
    assert needs(INDEXED, observed_table("commit"))["indexing"] == (True, True)
    found = observed_table("commit", facts=HAS_ONE)
    (start, *_) = starts(plan(resolved(**INDEXED), EMPTY, seen(*FILES, table=found), NOW_MS))
    assert start.priority is Priority.URGENT_SERVICE
    assert start.reason == "the table has no record_index"
    assert isinstance(start.operation.work, RunService)
    assert start.operation.work.settings["tideline.indexes"] == "column_stats,record_index"
    both = {"properties": {"hoodie.table.metadata.partitions": "column_stats,files,record_index"}}
    assert needs(INDEXED, observed_table("commit", facts=both))["indexing"] == (False, False)
    assert "indexing" not in needs(only_service("cleaning"), observed_table("commit"))


def test_an_index_that_cannot_be_made_is_tried_again_and_does_not_stop_ingests() -> None:
    table, found = resolved(**INDEXED), observed_table("commit", facts=HAS_ONE)
    observed = seen(*FILES, table=found)
    (start, *_) = starts(plan(table, EMPTY, observed, NOW_MS))
    status = operation_started(EMPTY, start.operation, 1, NOW_MS)
    result = OperationResult(
        start.operation.id, Outcome.FAILED, "a key is stored twice", exit_code=1
    )
    status = operation_finished(status, result, NOW_MS)
    actions = plan(table, status, observed, NOW_MS)
    assert started_kinds(actions) == ["ingest"]
    (wait,) = [item for item in actions if isinstance(item, Wait) and item.subject == "indexing"]
    assert wait.kind is WaitKind.RETRY
    later = plan(table, status, seen(table=found), wait.until_ms)
    assert started_kinds(later) == ["indexing"]
    service = observed_status(table, status, observed, actions, NOW_MS).services["indexing"]
    assert service.is_due
    assert service.last_result == "failed: a key is stored twice"
