"""What an erasure reports: which files held the rows, what was done, what holds them now."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from tideline.hudi.timeline.instant_time import InstantTime
from tideline.plain_json import members
from tideline.storage.object_store import ObjectInfo

LANDING_NOT_REACHED = (
    "landing folders and the quarantine in them, and folders where rows of streams are set aside: "
    "name them (--landing), or delete source files and rows set aside there"
)
"""What is said where no landing prefix was named."""
_STREAMS = "records of topics and rows of databases that are ingested"
_VERSIONS = "earlier versions of objects in a bucket that keeps versions, its replicas and backups"
_COPIES = "copies that readers made: extracts, caches, shuffle files, logs of engines"
NOT_REACHED = (
    _STREAMS,
    _VERSIONS,
    "statistics of commits on the timeline and in the archive",
    "names of partitions, as folders and on the timeline",
    _COPIES,
)
"""Where an erasure of a Hudi table never looks."""
NOT_REACHED_ICEBERG = (
    _STREAMS,
    "tables that are made of this one",
    _VERSIONS,
    "statistics of the table in Puffin files, which hold sketches of values",
    "names of partitions, as folders and in metadata",
    _COPIES,
)
"""Where that of an Iceberg table never looks."""


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


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that is not counted, wholly or partly, and why."""

    path: str
    reason: str


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
        return members(self, "rows", "is_clean", "files_read", "holding", "unread")


@dataclass(frozen=True, slots=True)
class LandingFile:
    """A source file, or rows set aside from one, with rows that match; `seen` as it was read."""

    path: str
    rows: int
    seen: ObjectInfo

    def to_json_object(self) -> dict[str, Any]:
        return members(self, "path", "rows")


@dataclass(frozen=True, slots=True)
class LandingSearch:
    """What a landing prefix held, of so many files that were read, and what was deleted of it.

    `notes` are those about files that were kept out.
    """

    uri: str
    holding: tuple[LandingFile, ...]
    unread: tuple[UnreadFile, ...]
    files_read: int
    notes: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows matched."""
        return sum(file.rows for file in self.holding)

    @property
    def is_clean(self) -> bool:
        """Whether every file was read, and those that held rows are gone."""
        left = {file.path for file in self.holding} - set(self.deleted)
        return not left and not self.unread

    def to_json_object(self) -> dict[str, Any]:
        names = ("uri", "rows", "is_clean", "files_read", "holding", "unread", "deleted")
        return members(self, *names)


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """What an erasure of a table of either format found, and what it could not do."""

    UNSEEN: ClassVar[tuple[str, ...]] = ()
    """Where such an erasure never looks; a report says so."""

    where: str
    matching: int
    before: Proof | None = None
    after: Proof | None = None
    landing: tuple[LandingSearch, ...] = ()
    remarks: tuple[str, ...] = ()
    is_preview: bool = False

    @property
    def not_reached(self) -> tuple[str, ...]:
        """Where it did not look: landing prefixes, too, where none was named."""
        return self.UNSEEN if self.landing else (LANDING_NOT_REACHED, *self.UNSEEN)

    @property
    def is_complete(self) -> bool:
        """Whether all was done, and neither the proof nor the landing prefixes, where these were
        asked for, have anything left."""
        is_proven = self.after is None or self.after.is_clean
        return not self.remarks and is_proven and all(search.is_clean for search in self.landing)

    def _done(self) -> dict[str, Any]:
        """What was done to the table, for machines."""
        return {}

    def to_json_object(self) -> dict[str, Any]:
        """The report for machines."""
        found = ("before", "after", "landing", "remarks", "not_reached", "is_complete")
        return {
            **members(self, "where", "matching"),
            **self._done(),
            **members(self, *found, dry_run="is_preview"),
        }


@dataclass(frozen=True, slots=True)
class Erasure(ErasureReport):
    """What an erasure of a Hudi table did, or with `is_preview` would do.

    `matching` are the rows of the table that matched, `deleted_at` the commit that deleted them.
    `before` and `after` are there where a proof was asked for, `landing` for each prefix that was
    named; `remarks` say what could not be done. `savepoints` were given up, or are in the way.
    `partitions_dropped` are those of Hudi's metadata table, for bounds and keys there may be those
    of the rows.
    """

    UNSEEN: ClassVar[tuple[str, ...]] = NOT_REACHED

    savepoints: tuple[InstantTime, ...] = ()
    deleted_at: str | None = None
    compacted: tuple[InstantTime, ...] = ()
    files_cleaned: tuple[str, ...] = ()
    partitions_dropped: tuple[str, ...] = ()
    iceberg_snapshots_dropped: int = 0

    def _done(self) -> dict[str, Any]:
        return {
            **members(self, "savepoints", "deleted_at", "compacted", "files_cleaned"),
            **members(self, "partitions_dropped", "iceberg_snapshots_dropped"),
        }
