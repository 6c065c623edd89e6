"""What the kubectl plugin says about a LakeTable follows from its status."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tideline_operator.report.table_story import (
    newest_operation,
    plan_rows,
    reasons,
    rerun_end,
    rerun_number,
    status_row,
)

HEALTHY: dict[str, Any] = {
    "metadata": {"name": "orders", "namespace": "lake", "generation": 2},
    "spec": {"ingest": [{"name": "landing"}], "rerun": {"cleaning": 3}},
    "status": {
        "observedGeneration": 2,
        "lagFiles": 0,
        "timeline": {"latest": "20261125010203004", "pendingCount": 0},
        "conditions": [
            {"type": "SpecValid", "status": "True", "reason": "Valid"},
            {"type": "Ready", "status": "True", "reason": "Current"},
            {"type": "Healthy", "status": "True", "reason": "Healthy"},
            {"type": "Paused", "status": "False", "reason": "Running"},
        ],
        "services": {
            "cleaning": {"isDue": False, "reason": "10 commits are kept", "rerun": 2},
            "clustering": {"isDue": True, "reason": "8 of 4 commits", "lastRun": "2026-11-24"},
        },
        "ingest": {"landing": {"lagFiles": 1, "polledAt": "2026-11-25T01:00:00Z"}},
        "operations": [
            {"id": "a", "kind": "ingest", "subject": "landing", "phase": "Succeeded"},
            {"id": "b", "kind": "clustering", "phase": "Running", "startedAt": "2026-11-25"},
        ],
    },
}  # fmt: skip


def changed(**status: Any) -> dict[str, Any]:
    table = copy.deepcopy(HEALTHY)
    table["status"] |= status
    return table


def with_condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    given = {"type": kind, "status": status, "reason": reason, "message": message}
    others = [
        condition for condition in HEALTHY["status"]["conditions"] if condition["type"] != kind
    ]
    return changed(conditions=[*others, given])


def test_a_row_has_what_runs_and_what_is_due() -> None:
    assert status_row(HEALTHY) == (
        "lake", "orders", "Hudi", "True", "20261125010203004", 0, 0, "clustering", "clustering", "",
    )  # fmt: skip


def test_a_table_that_nobody_looked_at_says_so() -> None:
    new = {"metadata": {"name": "orders", "namespace": "lake", "generation": 1}}
    assert status_row(new)[3] == "Unknown (not looked at yet)"
    (only,) = reasons(new)
    assert (only.subject, only.reason) == ("spec", "NotSeen")


def test_what_is_due_comes_first() -> None:
    assert [row[:3] for row in plan_rows(HEALTHY)] == [
        ("ingest landing", True, "1 file waits"),
        ("clustering", True, "8 of 4 commits"),
        ("cleaning", False, "10 commits are kept"),
    ]


def test_a_slot_is_in_the_plan_with_what_the_server_says_of_it() -> None:
    ingest = {
        "lagFiles": 1,
        "lagRecords": 7,
        "retainedBytes": 3_000_000,
        "slotState": "unreserved",
    }
    (row, *_) = plan_rows(changed(ingest={"orders": ingest}))
    assert row[:3] == (
        "ingest orders",
        True,
        "7 records wait; the server keeps 3.0 MB of log (unreserved)",
    )


def test_nothing_is_wrong() -> None:
    assert reasons(HEALTHY) == []


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            with_condition("Ready", "False", "SecretMissing", "create it"),
            ("Ready", "SecretMissing", "create it"),
        ),
        (
            with_condition("Ready", "True", "Current", "ingest landing is waiting: 4 of 4"),
            ("Ready", "Current", "ingest landing is waiting: 4 of 4"),
        ),
        (with_condition("Paused", "True", "Paused"), ("Paused", "Paused", "")),
        (changed(observedGeneration=1), ("spec", "NotSeen", "the operator has not seen")),
    ],
)
def test_a_reason_names_what_is_wrong(
    table: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    (found,) = reasons(table)
    assert (found.subject, found.reason) == expected[:2]
    assert found.message.startswith(expected[2])


def test_a_paused_namespace_is_a_reason() -> None:
    namespace = {"metadata": {"annotations": {"tideline.dev/paused": "true"}}}
    (found,) = reasons(HEALTHY, namespace=namespace)
    assert found.subject == "namespace lake"
    assert "kubectl annotate namespace lake tideline.dev/paused-" in found.message


def test_a_failure_counts_until_it_succeeds() -> None:
    failed = {"id": "c", "kind": "cleaning", "phase": "Failed", "error": "StorageUnavailable",
              "message": "no answer", "retryAt": "2026-11-25T02:00:00Z"}  # fmt: skip
    (found,) = reasons(changed(operations=[failed]))
    assert (found.subject, found.reason) == ("cleaning", "StorageUnavailable")
    assert found.message == "no answer; it is repeated at 2026-11-25T02:00:00Z"
    later = {"id": "d", "kind": "cleaning", "phase": "Succeeded"}
    assert reasons(changed(operations=[failed, later])) == []


def test_a_rerun_is_higher_than_every_number_before() -> None:
    assert rerun_number(HEALTHY, "cleaning") == 4
    assert rerun_number(HEALTHY, "clustering") == 1
    assert rerun_number(HEALTHY, "landing") == 1
    assert rerun_number(changed(services={"cleaning": {"rerun": 9}}), "cleaning") == 10
    with pytest.raises(KeyError, match="cleaning, clustering, landing"):
        rerun_number(HEALTHY, "compactoin")


def test_a_rerun_ends_with_its_own_operation() -> None:
    item = {"id": "e", "kind": "cleaning", "rerun": 4, "phase": "Running"}
    assert rerun_end(changed(operations=[item]), "cleaning", 4) is None
    again = {**item, "phase": "Failed", "isSafeToRetry": True}
    assert rerun_end(changed(operations=[again]), "cleaning", 4) is None
    ended = {**item, "phase": "Succeeded"}
    assert rerun_end(changed(operations=[ended]), "cleaning", 4) == ended
    assert rerun_end(changed(operations=[ended]), "cleaning", 5) is None
    wrong = {**item, "phase": "Failed"}
    assert rerun_end(changed(operations=[wrong]), "cleaning", 4) == wrong


def test_logs_are_of_what_runs() -> None:
    assert newest_operation(HEALTHY, None) == HEALTHY["status"]["operations"][1]
    assert newest_operation(HEALTHY, "a") == HEALTHY["status"]["operations"][0]
    assert newest_operation(HEALTHY, "z") is None
    assert newest_operation(changed(operations=[]), None) is None
