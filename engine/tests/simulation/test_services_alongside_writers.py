"""Two writers and every service on one table lose no row and leave nothing over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideline.storage.location import StoreLocation
from tideline.testing.service_crowd import LETS_UPDATES_WIN, REJECTS, run_and_audit

POLICIES = pytest.mark.parametrize(
    "options",
    [pytest.param(REJECTS, id="reject"), pytest.param(LETS_UPDATES_WIN, id="update wins")],
)


@pytest.mark.slow_with("v9-reject", "v9-update wins")
@POLICIES
def test_nothing_is_lost_or_doubled_on_a_local_folder(
    tmp_path: Path, options: dict[str, str]
) -> None:
    location = StoreLocation.of(tmp_path / "table")
    run_and_audit(location, tmp_path, options, commits=10, runs=2)


@pytest.mark.slow
@pytest.mark.minio
def test_nothing_is_lost_or_doubled_on_s3(s3_location: StoreLocation, tmp_path: Path) -> None:
    """There the lock is a lease, and only heartbeats show which writer is alive."""
    run_and_audit(s3_location, tmp_path, REJECTS, commits=5, runs=1)
