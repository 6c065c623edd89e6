"""How long a table's properties may have a process wait."""

from __future__ import annotations

import pytest

from tideline.iceberg.table.retry import commit_retries, status_checks
from tideline.testing.fake_clock import FakeClock

HOURS_MS = 3_600_000


@pytest.mark.parametrize("what", ["commit.retry", "commit.status-check"])
@pytest.mark.parametrize("wait", ["0", "999999999999"])
def test_a_table_has_no_process_wait_for_days(what: str, wait: str) -> None:
    endless = "9" * 18
    properties = {
        f"{what}.num-retries": endless,
        f"{what}.min-wait-ms": wait,
        f"{what}.max-wait-ms": endless,
        f"{what}.total-timeout-ms": endless,
    }
    of = commit_retries if what == "commit.retry" else status_checks
    clock = FakeClock()
    begun_ms = clock.now_ms()
    attempts = sum(1 for _ in of(properties).attempts(clock))
    assert 2 < attempts <= 1_001
    assert clock.now_ms() - begun_ms < 5 * HOURS_MS
