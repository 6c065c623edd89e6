"""Savepoints and restores in the planner: what a spec asks for is done once."""

from __future__ import annotations

from typing import Any

import pytest

from tideline.ingest.operation.operation import IngestRange, MakeSavepoint, RestoreTable
from tideline_operator.decide.actions import (
    Blocked,
    PlannedAction,
)
from tideline_operator.decide.observed import Observed
from tideline_operator.decide.planner import plan
from tideline_operator.testing.table_states import (
    EMPTY,
    FILES,
    NOW_MS,
    at,
    observed_table,
    only_service,
    resolved,
    seen,
    started_kinds,
    starts,
)

SAVEPOINTS = {
    "savepoints": [{"name": "a"}, {"name": "b"}],
    **only_service("cleaning", enabled=False),
}


@pytest.mark.parametrize(
    ("words", "made", "expected"),
    [
        ("", {}, None),
        ("commit commit", {}, ("a", 2)),
        ("commit commit savepoint", {"a": 2}, None),
        ("commit commit savepoint commit", {"a": 2}, ("b", 4)),
        ("commit savepoint commit savepoint commit", {"a": 1, "b": 3}, None),
    ],
)
def test_missing_savepoints_are_made_each_at_another_instant(
    words: str, made: dict[str, int], expected: tuple[str, int] | None
) -> None:
    savepoints = {name: str(at(number)) for name, number in made.items()}
    observed = seen(*FILES, table=observed_table(words, savepoints=savepoints))
    start, *_ = starts(plan(resolved(**SAVEPOINTS), EMPTY, observed, NOW_MS))
    work = start.operation.work
    if expected is None:
        assert isinstance(work, IngestRange)
    else:
        assert work == MakeSavepoint(expected[0], str(at(expected[1])))


def restored(
    history_words: str, ingests: frozenset[Any] = frozenset()
) -> tuple[PlannedAction, ...]:
    savepoints = {"a": str(at(1))}
    known = observed_table(history_words, savepoints=savepoints, facts={"ingests": ingests})
    spec: dict[str, Any] = {"restoreTo": "a", **only_service("clustering", everyCommits=2)}
    return plan(resolved(**spec), EMPTY, Observed(known), NOW_MS)


@pytest.mark.parametrize(
    ("words", "ingests", "basis"),
    [
        ("commit savepoint", (), None),
        ("commit savepoint commit commit", (), 4),
        ("commit savepoint commit ?commit", (), 4),
        ("commit savepoint commit ?restore", (), 4),
        ("commit savepoint commit restore", (), 3),
        ("commit savepoint restore", (), None),
        # Services ran while the table was fenced: what they did stays.
        ("commit savepoint restore cluster", (), None),
        # One of our ingests: the fence was removed in between, so the restore is wanted again.
        ("commit savepoint restore commit cluster", (4,), 4),
    ],
)
def test_a_table_goes_back_to_its_savepoint_once_and_stays_fenced(
    words: str, ingests: tuple[int, ...], basis: int | None
) -> None:
    actions = restored(words, frozenset(at(number) for number in ingests))
    works = [start.operation.work for start in starts(actions)]
    if basis is None:
        assert not any(isinstance(work, RestoreTable) for work in works)
        assert any(isinstance(item, Blocked) and item.reason == "Fenced" for item in actions)
    else:
        (work,) = works
        assert isinstance(work, RestoreTable)
        assert (work.instant, work.basis) == (str(at(1)), str(at(basis)))


def test_services_run_behind_the_fence_of_a_finished_restore() -> None:
    actions = restored("commit savepoint restore commit commit")
    assert started_kinds(actions) == ["clustering"]
