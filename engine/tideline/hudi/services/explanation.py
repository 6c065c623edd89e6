"""Why a service would run now, or why it would not: what `tideline plan` prints.

A trigger answers `Due` or `NotDue`. Every plan explains itself with an `Explanation`; a planner
with nothing to plan gives a `NotDue`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tideline.wording import counted, size_text


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
    """What a plan is for, what it touches and what it costs.

    `reason` is a sentence for people, without a full stop. `paths` are the files it reads, rewrites
    or deletes, relative to the table. `estimated_s` comes from past runs of the service on this
    table; None before the first. `details` are further facts by name.
    """

    reason: str
    paths: tuple[str, ...] = ()
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_deleted: int = 0
    details: Mapping[str, str] = field(default_factory=dict)
    estimated_s: float | None = None

    def estimated(self, seconds: float | None) -> Explanation:
        """The same, with the time that past runs make us expect."""
        return replace(self, estimated_s=seconds)

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
            "reason": self.reason,
            "paths": list(self.paths),
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "bytes_deleted": self.bytes_deleted,
            "estimated_s": self.estimated_s,
            "details": dict(self.details),
        }
