"""Random histories of tables whose readers, consumers of changes and publications are compared with
a model, each repeatable from its seed.

`TIDELINE_SEED=<n>` runs one seed alone, with `TIDELINE_STEPS=<n>,<n>...` these of its steps;
`TIDELINE_RUNS=<n>` so many, and longer ones (`make histories`: 500). Of a history that fails the
report is of the fewest steps that do.
"""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from tideline.lake_table import LakeTable
from tideline.testing.followed_history import STEPS, FollowedHistory, shortest

pytest.importorskip("sqlalchemy")

RUNS = 50
STEPS_OF_A_SHORT_ONE = 9


def seeds() -> range:
    if "TIDELINE_SEED" in os.environ:
        seed = int(os.environ["TIDELINE_SEED"])
        return range(seed, seed + 1)
    return range(int(os.environ.get("TIDELINE_RUNS", RUNS)))


def steps() -> list[int]:
    given = os.environ.get("TIDELINE_STEPS", "")
    is_long = {"TIDELINE_SEED", "TIDELINE_RUNS"} & os.environ.keys()
    last = STEPS if is_long else STEPS_OF_A_SHORT_ONE
    return [int(step) for step in given.split(",") if step] or list(range(1, last + 1))


@pytest.mark.parametrize("seed", seeds())
def test_followers_see_what_the_model_says_after_every_step(seed: int) -> None:
    try:
        FollowedHistory(seed, only=steps()).run()
    except AssertionError as failure:
        raise shortest(seed, steps()) or failure from None


@pytest.mark.parametrize(
    ("seed", "only"),
    [
        # A savepoint keeps the oldest commit, archived ones are later: as of these, in logs.
        (61, (1, 2, 8, 11)),
        (461, (1, 3, 4, 5, 8)),
        # A commit that begins before a new column is there, and ends after it.
        (360, (13, 14)),
    ],
)
def test_what_longer_histories_found(seed: int, only: tuple[int, ...]) -> None:
    FollowedHistory(seed, only=only).run()


# The history itself


def test_a_seed_always_gives_the_same_history() -> None:
    first, second, other = (FollowedHistory(seed) for seed in (1, 1, 2))
    for history in (first, second, other):
        history.run(6)
    assert first.steps == second.steps != other.steps


def test_a_failure_reports_the_fewest_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    read = LakeTable.to_arrow

    def without_the_first(lake: LakeTable, *given: object, **named: object) -> pa.Table:
        return read(lake, *given, **named)[1:]  # type: ignore[arg-type]

    monkeypatch.setattr(LakeTable, "to_arrow", without_the_first)
    failure = shortest(3, range(1, 4))
    assert failure is not None
    assert "a new reader sees:" in str(failure)
    assert str(failure).endswith("Repeat it with TIDELINE_SEED=3 TIDELINE_STEPS=1")
