"""What an erasure reports: which files held the rows, what was done, what holds them now."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from tideline.hudi.timeline.instant_time import InstantTime

NOT_REACHED = (
    "landing folders and the quarantine in them: delete source files and rows set aside there",
    "earlier versions of objects in a bucket that keeps versions, its replicas and backups",
    "statistics: of commits on the timeline and in the archive, of Hudi's metadata table "
    "(column_stats, record_index) and of Iceberg metadata",
    "names of partitions, as folders and on the timeline",
    "copies that readers made: extracts, caches, shuffle files, logs of engines",
)
"""Where an erasure does not look; a report says so."""


class Version(Enum):
    """Which version of its file group a file belongs to. NONE: to no committed one."""

    NEWEST = "newest"
    OLDER = "older"
    NONE = "none"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class HoldingFile:
    """A file with rows that match. `savepoints` keep it from being cleaned."""

    path: str
    rows: int
    version: Version
    savepoints: tuple[InstantTime, ...] = ()

    def to_json_object(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "rows": self.rows,
            "version": self.version.value,
            "savepoints": [str(time) for time in self.savepoints],
        }


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file of which some or all is not counted, and why."""

    path: str
    reason: str

    def to_json_object(self) -> dict[str, Any]:
        return {"path": self.path, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Proof:
    """The files of a table's folder that hold rows which match, of so many that were read."""

    holding: tuple[HoldingFile, ...]
    unread: tuple[UnreadFile, ...]
    files_read: int

    @property
    def rows(self) -> int:
        """How often rows that match are on disk, every version of a row counted."""
        return sum(file.rows for file in self.holding)

    @property
    def is_clean(self) -> bool:
        """Whether every file was read and none holds a row that matches."""
        return not self.holding and not self.unread

    def to_json_object(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "is_clean": self.is_clean,
            "files_read": self.files_read,
            "holding": [file.to_json_object() for file in self.holding],
            "unread": [file.to_json_object() for file in self.unread],
        }


@dataclass(frozen=True, slots=True)
class Erasure:
    """What an erasure did, or with `is_preview` would do.

    `matching` are the rows of the table that matched, `deleted_at` the commit that deleted them.
    `savepoints` were given up, or are in the way. `before` and `after` are there where a proof was
    asked for; `remarks` say what could not be done.
    """

    where: str
    matching: int
    savepoints: tuple[InstantTime, ...] = ()
    deleted_at: str | None = None
    compacted: tuple[InstantTime, ...] = ()
    files_cleaned: tuple[str, ...] = ()
    iceberg_snapshots_dropped: int = 0
    before: Proof | None = None
    after: Proof | None = None
    remarks: tuple[str, ...] = ()
    not_reached: tuple[str, ...] = NOT_REACHED
    is_preview: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether all was done, and the proof, where there is one, found nothing left."""
        return not self.remarks and (self.after is None or self.after.is_clean)

    def to_json_object(self) -> dict[str, Any]:
        """The report for machines."""
        return {
            "where": self.where,
            "matching": self.matching,
            "savepoints": [str(time) for time in self.savepoints],
            "deleted_at": self.deleted_at,
            "compacted": [str(time) for time in self.compacted],
            "files_cleaned": list(self.files_cleaned),
            "iceberg_snapshots_dropped": self.iceberg_snapshots_dropped,
            "before": self.before and self.before.to_json_object(),
            "after": self.after and self.after.to_json_object(),
            "remarks": list(self.remarks),
            "not_reached": list(self.not_reached),
            "is_complete": self.is_complete,
            "dry_run": self.is_preview,
        }
