"""What a check of a table finds: how bad it is, what it concerns, and what mends it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Severity(Enum):
    """ERROR: readers get wrong rows or an error. WARNING: something is left over, or will become
    an error. NOTE: worth knowing.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class RepairKind(Enum):
    """What `--repair` can do to a Hudi table on its own; each is safe to do twice and loses nothing
    committed."""

    DELETE_FILE = "delete the file"
    WRITE_PARTITION_METADATA = "write the partition's metadata"
    SWEEP_LEFTOVERS = "remove what dead writers left"
    REMOVE_UNFINISHED = "remove the unfinished files of dead processes"
    FINISH_ARCHIVAL = "finish the archival that died"
    REBUILD_METADATA_TABLE = "rebuild the metadata table from a listing"
    RESTORE_PROPERTIES = "restore the properties from their backup"

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


@dataclass(frozen=True, slots=True)
class Repair:
    """One repair. `path` is the file or partition it is about, where it is about one."""

    kind: RepairKind
    path: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.path}" if self.path else str(self.kind)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a check noticed. `check` names the check; `repair` is what `--repair` does.

    `instant` is the time of what a Hudi table did. `advice` is the command, or what a person has to
    do, where no safe repair exists.
    """

    check: str
    severity: Severity
    message: str
    path: str | None = None
    instant: object = None
    repair: Repair | None = None
    advice: str = ""

    def to_json_object(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "severity": str(self.severity),
            "message": self.message,
            "path": self.path,
            "instant": None if self.instant is None else str(self.instant),
            "repair": None if self.repair is None else str(self.repair),
            "advice": self.advice or None,
        }


def error(check: str, message: str, **about: Any) -> Finding:
    """A finding of severity ERROR; `about` are fields of Finding."""
    return Finding(check, Severity.ERROR, message, **about)


def warning(check: str, message: str, **about: Any) -> Finding:
    """A finding of severity WARNING."""
    return Finding(check, Severity.WARNING, message, **about)


def note(check: str, message: str, **about: Any) -> Finding:
    """A finding of severity NOTE."""
    return Finding(check, Severity.NOTE, message, **about)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings by severity, those of one severity as they came."""
    order = list(Severity)
    return tuple(sorted(findings, key=lambda finding: order.index(finding.severity)))
