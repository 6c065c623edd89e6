"""Why a service would run now, or why it would not: what `tideline plan` prints.

A trigger answers `Due` or `NotDue`. Every plan explains itself with an `Explanation`; a planner
with nothing to plan gives a `NotDue`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tideline.plain_json import members, plain
from tideline.services.benefit import NO_BENEFIT, Benefit
from tideline.services.ranking import benefit_per_core_second, default_core_seconds
from tideline.wording import counted, size_text


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run is expected to take, in seconds; None where no past run says it."""

    seconds: float | None = None
    core_seconds: float | None = None


UNKNOWN = Estimate()


@dataclass(frozen=True, slots=True)
class NotDue:
    """A service has nothing to do now. `reason` is a sentence for people, without a full stop."""

    reason: str

    def to_json_object(self) -> dict[str, Any]:
        """The answer for machines."""
        return {"due": False, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Due:
    """A trigger said yes. `reason` is a sentence for people, without a full stop."""

    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a plan is for, what it touches, what it saves and what it costs.

    `reason` is a sentence for people, without a full stop. `paths` are the files it reads, rewrites
    or deletes, relative to the table. `benefit` is what readers and the store are expected to save.
    `estimate` is what past runs of the service on this table make us expect. `details` are further
    facts by name.
    """

    reason: str
    paths: tuple[str, ...] = ()
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_deleted: int = 0
    details: Mapping[str, str] = field(default_factory=dict)
    benefit: Benefit = NO_BENEFIT
    estimate: Estimate = UNKNOWN

    def estimated(self, estimate: Estimate) -> Explanation:
        """The same, with what past runs make us expect."""
        return replace(self, estimate=estimate)

    @property
    def estimated_s(self) -> float | None:
        """How long it will take, by past runs; None before the first."""
        return self.estimate.seconds

    @property
    def core_seconds(self) -> float:
        """What it will take of processors: by past runs, before the first by bytes and files."""
        if self.estimate.core_seconds is not None:
            return self.estimate.core_seconds
        objects = max(len(self.paths), self.benefit.objects_listed)
        return default_core_seconds(self.bytes_read + self.bytes_written, objects)

    @property
    def benefit_per_core_second(self) -> float:
        """What it saves for that, in bytes that a scan no longer reads."""
        return benefit_per_core_second(self.benefit.benefit_bytes, self.core_seconds)

    def __repr__(self) -> str:
        sizes = (
            (self.bytes_read, "to read"),
            (self.bytes_written, "to write"),
            (self.bytes_deleted, "to delete"),
        )
        parts = [repr(self.reason), counted(len(self.paths), "path")]
        parts += [f"{size_text(size_bytes)} {what}" for size_bytes, what in sizes if size_bytes]
        return f"Explanation({', '.join(parts)})"

    def to_json_object(self) -> dict[str, Any]:
        """The answer for machines."""
        return {
            "due": True,
            **members(self, "reason", "paths", "bytes_read", "bytes_written", "bytes_deleted"),
            "saves": plain(self.benefit),
            **members(self, "estimated_s", "core_seconds"),
            "core_seconds_by": "default" if self.estimate.core_seconds is None else "past runs",
            "benefit_per_core_second": round(self.benefit_per_core_second),
            "details": dict(self.details),
        }
