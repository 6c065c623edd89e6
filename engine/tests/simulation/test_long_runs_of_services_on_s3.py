"""As `test_services_alongside_writers.py`, for five runs of each service: on S3, where they take
longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideline.storage.location import StoreLocation
from tideline.testing.service_crowd import DEADLINE_S, LETS_UPDATES_WIN, run_and_audit

pytestmark = [pytest.mark.slow, pytest.mark.minio]


def test_nothing_is_lost_or_doubled_in_a_long_run_on_s3(
    s3_location: StoreLocation, tmp_path: Path
) -> None:
    """There the lock is a lease, and only heartbeats show which writer is alive."""
    run_and_audit(
        s3_location,
        tmp_path,
        LETS_UPDATES_WIN,
        commits=60,
        runs=5,
        deadline_s=4 * DEADLINE_S,
    )
