"""Places for operations: limits hold, and the operation that waited longest goes first."""

from __future__ import annotations

import pytest

from tideline_operator.controller.budgets import (
    PASSED_MAX,
    Admitted,
    Budgets,
    Full,
    Limits,
    TooLarge,
)
from tideline_operator.decide.actions import Priority

A, B, C, D = (("lake", name) for name in "abcd")
OTHER = ("sea", "x")
MIB = 1024 * 1024


def test_no_more_operations_run_than_there_are_places() -> None:
    budgets = Budgets(Limits(operations_max=2))
    assert budgets.admit(A, Priority.INGEST, 0) == Admitted()
    assert budgets.admit(B, Priority.INGEST, 0) == Admitted()
    assert isinstance(budgets.admit(C, Priority.INGEST, 0), Full)
    assert (budgets.running, budgets.waiting, budgets.next_in_line()) == (2, 1, ())
    budgets.release(A)
    assert budgets.next_in_line() == (C,)
    assert budgets.admit(C, Priority.INGEST, 0) == Admitted()


def test_priority_goes_first_then_arrival_and_no_table_jumps_the_line() -> None:
    budgets = Budgets(Limits(operations_max=1))
    budgets.admit(A, Priority.INGEST, 0)
    for key, priority in ((B, Priority.SERVICE), (C, Priority.INGEST), (D, Priority.ROLLBACK)):
        budgets.admit(key, priority, 0)
    budgets.release(A)
    assert budgets.next_in_line() == (D,)
    assert isinstance(budgets.admit(("lake", "e"), Priority.INGEST, 0), Full)
    assert budgets.admit(D, Priority.ROLLBACK, 0) == Admitted()
    budgets.release(D)
    assert budgets.next_in_line() == (C,)


def test_asking_again_keeps_the_place_in_line() -> None:
    budgets = Budgets(Limits(operations_max=1))
    budgets.admit(A, Priority.INGEST, 0)
    budgets.admit(B, Priority.INGEST, 0)
    budgets.admit(C, Priority.INGEST, 0)
    budgets.admit(B, Priority.INGEST, 0)
    budgets.release(A)
    assert budgets.next_in_line() == (B,)


def first_in_line(budgets: Budgets) -> tuple[str, str]:
    """Who would get the one place that OTHER has."""
    budgets.release(OTHER)
    (first,) = budgets.next_in_line()
    budgets.hold(OTHER, 0)
    return first


def test_services_that_can_wait_go_by_what_they_save_until_many_passed_them() -> None:
    budgets = Budgets(Limits(operations_max=1))
    budgets.hold(OTHER, 0)
    for key, rate in ((A, 1.0), (B, 9.0), (C, 5.0)):
        budgets.admit(key, Priority.SERVICE, 0, rate)
    assert first_in_line(budgets) == B
    # One that never ran goes before it, so that its rate becomes known.
    budgets.admit(D, Priority.SERVICE, 0, None)
    assert first_in_line(budgets) == D
    budgets.release(D)
    came_after_a = len([B, C, D])
    for number in range(PASSED_MAX - came_after_a):
        budgets.admit(("sea", f"y{number}"), Priority.SERVICE, 0, 100.0)
        assert first_in_line(budgets) == ("sea", "y0")
    budgets.admit(D, Priority.SERVICE, 0, 100.0)
    assert first_in_line(budgets) == A


def test_urgent_services_go_by_arrival_whatever_they_save() -> None:
    budgets = Budgets(Limits(operations_max=1))
    budgets.hold(OTHER, 0)
    budgets.admit(A, Priority.SERVICE, 0, 100.0)
    for key, rate in ((B, 1.0), (C, 9.0)):
        budgets.admit(key, Priority.URGENT_SERVICE, 0, rate)
    assert first_in_line(budgets) == B


def test_a_full_namespace_does_not_hold_up_the_others() -> None:
    budgets = Budgets(Limits(operations_max=3, operations_per_namespace_max=1))
    assert budgets.admit(A, Priority.INGEST, 0) == Admitted()
    full = budgets.admit(B, Priority.INGEST, 0)
    assert isinstance(full, Full) and "namespace lake" in full.message
    assert budgets.admit(OTHER, Priority.SERVICE, 0) == Admitted()


def test_namespaces_take_turns_however_many_operations_one_of_them_has() -> None:
    budgets = Budgets(Limits(operations_max=1))
    budgets.hold(("lake", "first"), 0)
    many = [("lake", f"t{number}") for number in range(100)]
    for key in (*many, OTHER, ("sky", "y"), ("sea", "z")):
        assert isinstance(budgets.admit(key, Priority.INGEST, 0), Full)
    served = []
    running = ("lake", "first")
    for _ in range(6):
        budgets.release(running)
        (running,) = budgets.next_in_line()
        assert budgets.admit(running, Priority.INGEST, 0) == Admitted()
        served.append(running)
    # One that was never served goes first, and then they alternate.
    assert served[:4] == [many[0], OTHER, ("sky", "y"), many[1]]
    assert served[4:] == [("sea", "z"), many[2]]


def test_a_namespace_with_fewer_places_goes_first() -> None:
    budgets = Budgets(Limits(operations_max=3))
    for key in (A, B, OTHER):
        budgets.hold(key, 0)
    for key in (C, D, ("sea", "y")):
        budgets.admit(key, Priority.INGEST, 0)
    budgets.release(A)
    assert budgets.next_in_line() == (C,)
    budgets.release(OTHER)
    assert budgets.next_in_line() == (("sea", "y"), C)


def test_memory_is_limited_in_all_and_for_one() -> None:
    budgets = Budgets(Limits(operations_max=10, memory_bytes_max=1_000 * MIB))
    assert budgets.admit(A, Priority.INGEST, 700 * MIB) == Admitted()
    full = budgets.admit(B, Priority.INGEST, 400 * MIB)
    assert isinstance(full, Full) and "700 MiB of 1,000 MiB" in full.message
    # A small operation does not starve a large one that came first.
    assert isinstance(budgets.admit(C, Priority.INGEST, 100 * MIB), Full)
    too_large = budgets.admit(D, Priority.INGEST, 1_001 * MIB)
    assert isinstance(too_large, TooLarge) and "TIDELINE_MEMORY_MAX" in too_large.message
    budgets.release(A)
    assert budgets.next_in_line() == (B, C)


def test_what_was_under_way_before_counts_even_beyond_the_limit() -> None:
    budgets = Budgets(Limits(operations_max=1))
    budgets.hold(A, 5)
    budgets.hold(B, 6)
    assert (budgets.running, budgets.memory_bytes) == (2, 11)
    assert isinstance(budgets.admit(C, Priority.ROLLBACK, 0), Full)
    assert budgets.release(A) and not budgets.release(A)
    assert budgets.next_in_line() == ()


def test_a_namespace_has_a_limit_of_memory_that_holds_up_no_other() -> None:
    limits = Limits(operations_max=10, memory_bytes_per_namespace_max=1_000 * MIB)
    budgets = Budgets(limits)
    assert budgets.admit(A, Priority.INGEST, 700 * MIB) == Admitted()
    full = budgets.admit(B, Priority.INGEST, 400 * MIB)
    assert isinstance(full, Full) and "namespace lake ask for 700 MiB of 1,000 MiB" in full.message
    # A small operation does not starve a large one of its namespace that came first.
    assert isinstance(budgets.admit(C, Priority.INGEST, 100 * MIB), Full)
    assert budgets.admit(OTHER, Priority.SERVICE, 900 * MIB) == Admitted()
    too_large = budgets.admit(D, Priority.INGEST, 1_001 * MIB)
    assert isinstance(too_large, TooLarge)
    assert "TIDELINE_MEMORY_PER_NAMESPACE_MAX" in too_large.message
    budgets.release(A)
    assert budgets.next_in_line() == (B, C)


def test_an_operation_that_cannot_start_has_no_place_until_it_starts() -> None:
    budgets = Budgets(Limits(operations_max=1))
    assert budgets.admit(A, Priority.INGEST, 0) == Admitted()
    assert isinstance(budgets.admit(OTHER, Priority.INGEST, 0), Full)
    budgets.set_aside(A)
    assert (budgets.running, budgets.stuck) == (0, 1)
    assert budgets.next_in_line() == (OTHER,)
    assert budgets.admit(OTHER, Priority.INGEST, 0) == Admitted()
    budgets.hold(A, 0)
    assert (budgets.running, budgets.stuck) == (2, 0)
    budgets.set_aside(A)
    budgets.release(A)
    assert (budgets.running, budgets.stuck) == (1, 0)


def test_each_operation_of_a_table_takes_a_place() -> None:
    budgets = Budgets(Limits(operations_max=3, operations_per_namespace_max=2))
    assert budgets.admit(A, Priority.INGEST, 1 * MIB, operation="ingest") == Admitted()
    assert budgets.admit(A, Priority.SERVICE, 2 * MIB, operation="cleaning") == Admitted()
    assert (budgets.running, budgets.memory_bytes) == (2, 3 * MIB)
    full = budgets.admit(A, Priority.SERVICE, 1 * MIB, operation="compaction")
    assert full == Full("2 of 2 operations are running in namespace lake")
    assert budgets.admit(OTHER, Priority.INGEST, 0) == Admitted()
    budgets.keep_only(A, {"cleaning"})
    assert budgets.next_in_line() == (A,)
    assert budgets.admit(A, Priority.SERVICE, 1 * MIB, operation="compaction") == Admitted()
    budgets.set_aside(A, "compaction")
    assert (budgets.running, budgets.stuck, budgets.memory_bytes) == (2, 1, 2 * MIB)
    assert budgets.release(A, "cleaning") and not budgets.release(A, "cleaning")
    # The other table's is left.
    assert (budgets.running, budgets.stuck, budgets.memory_bytes) == (1, 1, 0)


def test_what_is_under_way_keeps_the_place_in_line_of_what_waits() -> None:
    budgets = Budgets(Limits(operations_max=1))
    budgets.admit(A, Priority.INGEST, 0, operation="ingest")
    assert isinstance(budgets.admit(A, Priority.SERVICE, 0, operation="cleaning"), Full)
    budgets.hold(A, 0, "ingest")
    assert budgets.waiting == 1
    budgets.leave_line(A)
    assert budgets.waiting == 0


@pytest.mark.parametrize("note", ["hold", "set_aside"])
def test_what_begins_after_all_is_not_in_line_any_more(note: str) -> None:
    """As where a Job was found that the status had forgotten."""
    budgets = Budgets(Limits(operations_max=1))
    assert budgets.admit(OTHER, Priority.INGEST, 0) == Admitted()
    assert isinstance(budgets.admit(A, Priority.INGEST, 0, operation="ingest"), Full)
    assert isinstance(budgets.admit(B, Priority.INGEST, 0), Full)
    if note == "hold":
        budgets.hold(A, 0, "ingest")
    else:
        budgets.set_aside(A, "ingest")
    assert budgets.waiting == 1
    budgets.release(OTHER)
    budgets.release(A, "ingest")
    assert budgets.next_in_line() == (B,)
