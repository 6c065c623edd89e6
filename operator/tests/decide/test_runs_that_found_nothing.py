"""A compaction that found no log files is not due again for each commit behind it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tideline_operator.decide.service_triggers import service_needs
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import RunCounts, ServiceStatus
from tideline_operator.testing.table_states import (
    EMPTY,
    NOW_MS,
    at,
    observed_table,
    only_service,
    resolved,
)

FOUND_NOTHING = ServiceStatus(
    last_run=Timestamp(at(3).epoch_ms()), last_result="no file group has log files to merge"
)


def is_due(words: str, known: ServiceStatus) -> bool:
    """Whether a compaction every three delta commits is due behind such a timeline."""
    spec = resolved(
        type="MERGE_ON_READ", **only_service("compaction", trigger={"deltaCommits": 3})
    ).spec
    status = replace(EMPTY, services={"compaction": known})
    (need,) = service_needs(spec, status, observed_table(words), NOW_MS)
    return need.is_due


@pytest.mark.parametrize(("writes", "expected"), [(3, False), (5, False), (6, True)])
def test_the_writes_since_are_counted(writes: int, expected: bool) -> None:
    """Commits that only insert make no logs: one such run for each of them would be too many."""
    assert is_due("delta " * writes, FOUND_NOTHING) is expected


@pytest.mark.parametrize(
    "known",
    [
        replace(FOUND_NOTHING, last_result="failed: the store is away"),
        replace(FOUND_NOTHING, last_figures=RunCounts(files_after=1)),
        ServiceStatus(),
    ],
)
def test_other_runs_change_nothing(known: ServiceStatus) -> None:
    assert is_due("delta delta delta", known)
