"""The retry policies that a table's properties name: `commit.retry.*`, `commit.status-check.*`."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.iceberg.metadata.table_property import whole_property
from tideline.retry import RetryPolicy

# Limits on a table's own settings: its author does not hold a process for days.
_RETRIES_MAX = 1_000
_WAIT_MS_MAX = 600_000
_TOTAL_MS_MAX = 14_400_000
_STATUS_CHECKS = RetryPolicy(retries=3, wait_ms_min=1_000)


def commit_retries(properties: Mapping[str, str]) -> RetryPolicy:
    """For a commit that meets another writer. Raises ConfigError."""
    return _read(properties, "commit.retry", RetryPolicy())


def status_checks(properties: Mapping[str, str]) -> RetryPolicy:
    """For finding out whether a commit took place. Raises ConfigError."""
    return _read(properties, "commit.status-check", _STATUS_CHECKS)


def _read(properties: Mapping[str, str], prefix: str, default: RetryPolicy) -> RetryPolicy:
    def limit(name: str, value: int, most: int) -> int:
        return min(whole_property(properties, f"{prefix}.{name}", value, least=0), most)

    return RetryPolicy(
        limit("num-retries", default.retries, _RETRIES_MAX),
        limit("min-wait-ms", default.wait_ms_min, _WAIT_MS_MAX),
        limit("max-wait-ms", default.wait_ms_max, _WAIT_MS_MAX),
        limit("total-timeout-ms", default.total_ms, _TOTAL_MS_MAX),
    )
