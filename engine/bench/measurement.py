"""What a bench reports: seconds of every round, medians, ratios, and whether a claim holds."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.quiet import LOAD_MAX


@dataclass(slots=True)
class Series:
    """The rounds of one side: seconds of work, and the machine's load when each ended."""

    name: str
    seconds: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)

    def add(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.loads.append(os.getloadavg()[0])

    @property
    def median_s(self) -> float:
        return median(self.seconds)


@dataclass(frozen=True, slots=True)
class Claim:
    """One figure to reach, with what was measured.

    With `faster_by`, the peer must take at least that many times as long as ours. With `within`,
    ours may take at most that many times as long as the peer.
    """

    name: str
    ours: Series
    peer: Series
    faster_by: float | None = None
    within: float | None = None

    @property
    def ratio(self) -> float:
        """Peer over ours for `faster_by`, ours over peer for `within`."""
        if self.faster_by is not None:
            return self.peer.median_s / self.ours.median_s
        return self.ours.median_s / self.peer.median_s

    @property
    def holds(self) -> bool:
        if self.faster_by is not None:
            return self.ratio >= self.faster_by
        return self.within is None or self.ratio <= self.within

    @property
    def wanted(self) -> str:
        return f">= {self.faster_by:g}x" if self.faster_by is not None else f"<= {self.within:g}x"


@dataclass(frozen=True, slots=True)
class Limit:
    """A size to stay below, with the largest one seen."""

    name: str
    bytes_seen: int
    bytes_max: int

    @property
    def holds(self) -> bool:
        return 0 < self.bytes_seen < self.bytes_max


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """A time to stay within, with what was measured."""

    name: str
    ours: Series
    seconds_max: float

    @property
    def holds(self) -> bool:
        return self.ours.median_s <= self.seconds_max


def close_report(
    claims: Sequence[Claim],
    limits: Sequence[Limit | TimeLimit],
    *,
    load_at_start: float,
    json_path: Path | None = None,
) -> int:
    """Print what was measured, or write its JSON to a file.

    The exit code: 1 when a figure is not reached, 3 when the machine was not quiet, so that none
    counts.
    """
    print_report(claims, limits)
    report = report_json(claims, limits, load_at_start=load_at_start)
    if json_path is None:
        print(report)
    else:
        json_path.write_text(report)
    if load_at_start > LOAD_MAX:
        busy = f"the machine was busy (load {load_at_start:.2f} at the start)"
        print(f"{busy}: these figures do not count")
        return 3
    reached = all(claim.holds for claim in claims) and all(limit.holds for limit in limits)
    return 0 if reached else 1


def print_report(claims: Sequence[Claim], limits: Sequence[Limit | TimeLimit]) -> None:
    """A table for people."""
    print(f"\n{'claim':<52}{'ours':>9}{'peer':>9}{'ratio':>8}{'wanted':>10}")
    for claim in claims:
        print(
            f"{claim.name:<52}{claim.ours.median_s:>7.1f} s{claim.peer.median_s:>7.1f} s"
            f"{claim.ratio:>7.2f}x{claim.wanted:>10}  {_verdict(claim.holds)}"
        )
    for limit in limits:
        if isinstance(limit, TimeLimit):
            wanted = f"<= {limit.seconds_max:g} s"
            print(f"{limit.name:<52}{limit.ours.median_s:>7.1f} s{'':>17}{wanted:>10}", end="  ")
            print(_verdict(limit.holds))
            continue
        seen, allowed = limit.bytes_seen >> 20, limit.bytes_max >> 20
        print(f"{limit.name:<52}{seen:>5} MiB{'':>17}{f'< {allowed} MiB':>10}", end="  ")
        print(_verdict(limit.holds))


def report_json(
    claims: Sequence[Claim], limits: Sequence[Limit | TimeLimit], *, load_at_start: float
) -> str:
    """The same for machines, with every round and the load of the machine."""
    return json.dumps(
        {
            **machine_object(load_at_start),
            "claims": [_claim_object(claim) for claim in claims],
            "limits": [_limit_object(limit) for limit in limits],
        },
        indent=2,
    )


def machine_object(load_at_start: float) -> dict[str, Any]:
    """When and where something was measured."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "loadAtStart": round(load_at_start, 2),
    }


def _claim_object(claim: Claim) -> dict[str, Any]:
    return {
        "name": claim.name,
        "ratio": round(claim.ratio, 3),
        "wanted": claim.wanted,
        "holds": claim.holds,
        "ours": _series_object(claim.ours),
        "peer": _series_object(claim.peer),
    }


def _limit_object(limit: Limit | TimeLimit) -> dict[str, Any]:
    found: dict[str, Any] = {"name": limit.name, "holds": limit.holds}
    if isinstance(limit, TimeLimit):
        return {**found, "secondsMax": limit.seconds_max, "ours": _series_object(limit.ours)}
    return {**found, "bytesSeen": limit.bytes_seen, "bytesMax": limit.bytes_max}


def _series_object(series: Series) -> dict[str, Any]:
    return {
        "name": series.name,
        "medianSeconds": round(series.median_s, 3),
        "seconds": [round(value, 3) for value in series.seconds],
        "loads": [round(value, 2) for value in series.loads],
    }


def _verdict(holds: bool) -> str:
    return "reached" if holds else "MISSED"
