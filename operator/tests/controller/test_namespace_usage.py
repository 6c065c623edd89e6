"""What a namespace may take in an hour."""

from __future__ import annotations

import pytest

from tideline.testing.fake_clock import FakeClock
from tideline_operator.controller.budgets import Admitted, Budgets, Full, Limits
from tideline_operator.controller.namespace_usage import (
    WINDOW_MS,
    HourlyLimits,
    NamespaceSpending,
)
from tideline_operator.decide.actions import Priority
from tideline_operator.resources.spent import Spent

TABLE = ("lake", "people")


@pytest.mark.parametrize(
    ("limits", "once", "twice", "words"),
    [
        (
            HourlyLimits(pod_seconds=100),
            Spent(pod_ms=60_000),
            Spent(pod_ms=120_000),
            "120 pod-seconds",
        ),
        (
            HourlyLimits(gib_seconds=100),
            Spent(mib_seconds=61_440),
            Spent(mib_seconds=122_880),
            "120 GiB-seconds",
        ),
        (
            HourlyLimits(bytes=1_000),
            Spent(bytes_read=500, bytes_written=100),
            Spent(bytes_read=900, bytes_written=300),
            "1,200 bytes",
        ),
        (HourlyLimits(requests=10), Spent(requests=6), Spent(requests=12), "12 requests"),
    ],
    ids=["pods", "memory", "bytes", "requests"],
)
def test_each_limit_holds_for_an_hour_and_a_namespace(
    limits: HourlyLimits, once: Spent, twice: Spent, words: str
) -> None:
    clock = FakeClock()
    spending = NamespaceSpending(limits, clock)
    spending.note(TABLE, {})
    spending.note(TABLE, {"ingest": once})
    assert spending.excess("lake") is None
    clock.advance(600)
    spending.note(TABLE, {"ingest": once, "clean": Spent()})
    spending.note(TABLE, {"ingest": twice})
    assert f"namespace lake took {words} in the last hour" in (spending.excess("lake") or "")
    assert spending.excess("other") is None
    clock.advance(WINDOW_MS / 1000 - 600)
    assert spending.excess("lake") is None


def test_what_was_taken_before_the_first_note_or_lost_does_not_count() -> None:
    spending = NamespaceSpending(HourlyLimits(requests=10), FakeClock())
    spending.note(TABLE, {"ingest": Spent(requests=1_000)})
    assert spending.excess("lake") is None
    spending.note(TABLE, {})
    spending.note(TABLE, {"ingest": Spent(requests=9)})
    assert spending.excess("lake") is None
    spending.note(TABLE, {"ingest": Spent(requests=10)})
    assert spending.excess("lake") is not None
    spending.forget(TABLE)
    assert spending.excess("lake") is not None, "a table that is deleted gives nothing back"


def test_tables_of_a_namespace_count_together() -> None:
    spending = NamespaceSpending(HourlyLimits(requests=10), FakeClock())
    for name in ("a", "b"):
        spending.note(("lake", name), {})
        spending.note(("lake", name), {"ingest": Spent(requests=5)})
    assert spending.excess("lake") is not None


def test_a_namespace_that_spent_its_hour_waits_and_no_other_does() -> None:
    clock = FakeClock()
    spending = NamespaceSpending(HourlyLimits(requests=10), clock)
    budgets = Budgets(Limits(operations_max=8), spending)
    spending.note(TABLE, {})
    spending.note(TABLE, {"ingest": Spent(requests=10)})
    full = budgets.admit(TABLE, Priority.INGEST, 1)
    assert isinstance(full, Full)
    assert "took 10 requests in the last hour, the limit is 10" in full.message
    assert budgets.next_in_line() == (), "it is not woken over and over"
    assert isinstance(budgets.admit(("other", "b"), Priority.SERVICE, 1), Admitted)
    for priority in (Priority.ROLLBACK, Priority.RESTORE):
        assert isinstance(budgets.admit(("lake", str(priority)), priority, 1), Admitted)
    clock.advance(WINDOW_MS / 1000)
    assert budgets.next_in_line() == (TABLE,)
    assert isinstance(budgets.admit(TABLE, Priority.INGEST, 1), Admitted)
