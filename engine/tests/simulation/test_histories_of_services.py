"""Random histories of writes and services with deaths in between, each repeatable from its seed.

`TIDELINE_SEED=<n>` runs one seed alone, `TIDELINE_RUNS=<n>` so many.
"""

from __future__ import annotations

import os

import pytest

from tideline.hudi.timeline.instant_time import InstantTime
from tideline.testing.service_history import ServiceHistory
from tideline.testing.small_table import SmallTable

# 17 reads a savepoint made while a clustering was pending, after a clean.
SEEDS = (*range(10), 17)


def seeds() -> tuple[int, ...]:
    if "TIDELINE_SEED" in os.environ:
        return (int(os.environ["TIDELINE_SEED"]),)
    if "TIDELINE_RUNS" in os.environ:
        return tuple(range(int(os.environ["TIDELINE_RUNS"])))
    return SEEDS


@pytest.mark.slow_with("v9-5", "v9-6", "v9-7", "v9-8", "v9-9", "v9-4", "v9-17", "v9-3")
@pytest.mark.parametrize("seed", seeds())
def test_rows_are_those_of_the_model_after_every_step(seed: int) -> None:
    ServiceHistory(seed).run()


# The history itself


def steps_of(seed: int) -> list[str]:
    history = ServiceHistory(seed)
    history.run(steps=12)
    return history.steps


def test_a_seed_always_gives_the_same_history() -> None:
    assert steps_of(1) == steps_of(1)
    assert steps_of(1) != steps_of(2)


def test_a_failure_reports_the_seed_the_steps_and_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    read = SmallTable.merged_values

    def read_without_the_first(
        table: SmallTable, until: InstantTime | None = None
    ) -> list[tuple[str, int]]:
        return read(table, until)[1:]

    monkeypatch.setattr(SmallTable, "merged_values", read_without_the_first)
    with pytest.raises(AssertionError) as raised:
        ServiceHistory(3).run()
    message = str(raised.value)
    assert "rows now:" in message
    assert ": found None, expected" in message
    assert ". write, " in message
    assert message.endswith("Repeat it with TIDELINE_SEED=3")
