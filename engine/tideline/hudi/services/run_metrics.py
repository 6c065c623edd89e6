"""What one run of a service cost, kept in its commit: the next plan says from it how long it takes.

Kept under keys `tideline.service.*` of the commit's extra metadata, which other engines ignore.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tideline.plain_json import members
from tideline.resource_usage import NOTHING, ResourceUsage
from tideline.services.explanation import Estimate

_PREFIX = "tideline.service."
_NAME_KEY = _PREFIX + "name"
_CORE_SECONDS_KEY = _PREFIX + "core_seconds"
_REQUESTS_KEY = _PREFIX + "requests"
CLEAN_CORE_SECONDS = "tideline.clean.core.seconds"
"""Where a completed clean, which is no commit, says what it took."""


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """Bytes and rows of one run, its seconds, and what it took of processors and store
    (`ResourceUsage`). `service` is its name."""

    service: str
    bytes_read: int = 0
    bytes_written: int = 0
    rows_written: int = 0
    seconds: float = 0.0
    spent: ResourceUsage = NOTHING

    def to_extra_metadata(self) -> dict[str, str]:
        """The entries for a commit's extra metadata."""
        return {
            _NAME_KEY: self.service,
            _PREFIX + "bytes_read": str(self.bytes_read),
            _PREFIX + "bytes_written": str(self.bytes_written),
            _PREFIX + "rows_written": str(self.rows_written),
            _PREFIX + "seconds": f"{self.seconds:.3f}",
            _CORE_SECONDS_KEY: f"{self.spent.core_seconds:.3f}",
            _REQUESTS_KEY: str(self.spent.requests),
        }

    @classmethod
    def from_extra_metadata(cls, extra: Mapping[str, str]) -> RunMetrics | None:
        """The metrics in a commit's extra metadata; None when there are none to be read."""
        try:
            return cls(
                extra[_NAME_KEY],
                int(extra[_PREFIX + "bytes_read"]),
                int(extra[_PREFIX + "bytes_written"]),
                int(extra[_PREFIX + "rows_written"]),
                float(extra[_PREFIX + "seconds"]),
                ResourceUsage(float(extra[_CORE_SECONDS_KEY]), int(extra[_REQUESTS_KEY])),
            )
        except (KeyError, ValueError):
            return None

    def to_json_object(self) -> dict[str, Any]:
        """The metrics for machines."""
        return {
            **members(self, "bytes_read", "bytes_written", "rows_written"),
            "seconds": round(self.seconds, 3),
            **self.spent.to_json_object(),
        }


def estimate_run(past: Iterable[RunMetrics], bytes_read: int) -> Estimate:
    """What reading so many bytes takes, going by past runs; unknown without any.

    Runs over few bytes say little about throughput and much about starting up, so the estimate is
    never below the quickest of them.
    """
    runs = tuple(past)
    cores = ((run.bytes_read, run.spent.core_seconds) for run in runs if run.spent.core_seconds)
    return Estimate(
        estimate_by_amount(((run.bytes_read, run.seconds) for run in runs), bytes_read),
        estimate_by_amount(cores, bytes_read),
    )


def estimate_by_amount(past: Iterable[tuple[int, float]], amount: int) -> float | None:
    """The same for any amount that a service's time grows with; `past` are amounts and seconds."""
    runs = tuple(past)
    if not runs:
        return None
    total = sum(done for done, _ in runs)
    proportional = amount * sum(seconds for _, seconds in runs) / total if total else 0.0
    return round(max(proportional, min(seconds for _, seconds in runs)), 3)
