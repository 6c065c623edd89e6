"""As `test_services_alongside_writers.py`, for ten runs of each service: on a local folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideline.storage.location import StoreLocation
from tideline.testing.service_crowd import DEADLINE_S, LETS_UPDATES_WIN, REJECTS, run_and_audit


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [pytest.param(REJECTS, id="reject"), pytest.param(LETS_UPDATES_WIN, id="update wins")],
)
def test_nothing_is_lost_or_doubled_in_a_long_run(tmp_path: Path, options: dict[str, str]) -> None:
    location = StoreLocation.of(tmp_path / "table")
    run_and_audit(location, tmp_path, options, commits=60, runs=10, deadline_s=3 * DEADLINE_S)
