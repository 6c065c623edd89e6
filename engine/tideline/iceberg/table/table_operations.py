"""What a commit needs from the place that says which metadata file is the table's newest.

A table on a plain file system numbers its metadata files; a catalog stores a pointer. Both take the
same form here: load the newest metadata, derive a change from it, and ask for the change to be
published if the table is still as loaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from tideline.errors import ConflictError, TidelineError, UnknownOutcomeError
from tideline.iceberg.metadata.metadata_update import MetadataUpdate, Requirement
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.metadata.table_property import METADATA_PATH
from tideline.iceberg.table.file_io import FileIO
from tideline.storage.object_store import ObjectInfo


@dataclass(frozen=True, slots=True)
class Loaded:
    """Metadata at one time; `version` is the N of `vN.metadata.json`, None in a catalog.
    `stored` is the file as it was found in the table's folder, where it was read from there."""

    metadata: TableMetadata
    metadata_location: str
    version: int | None = None
    stored: ObjectInfo | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Committed:
    """The change is part of the table; `loaded` is the table with it, `snapshot_id` the snapshot
    that was made for it, if one was."""

    loaded: Loaded
    snapshot_id: int | None = None


@dataclass(frozen=True, slots=True)
class Conflicted:
    """The change is certainly not part of the table and never will be."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The change may or may not be, or become, part of the table: nothing it needs may go.

    `snapshot_id` is the snapshot that was made for it, if one was. `arguments` name the table to
    the command line.
    """

    reason: str
    snapshot_id: int | None = None
    arguments: str = ""

    def how_to_find_out(self, table: str) -> str:
        """The command that says what became of it."""
        named = f" --snapshot {self.snapshot_id}" if self.snapshot_id is not None else ""
        return f"tideline iceberg show {self.arguments or table}{named}"


@dataclass(frozen=True, slots=True)
class Replaced(Unknown):
    """Another table is at the place by now. The change may be part of the one that was there
    before, under another name, so nothing that either needs may go."""


def unknown_error(outcome: Unknown, *, table: str, what: str) -> TidelineError:
    """The error that says how to find out whether `what` took place; ConflictError where the table
    was replaced by another."""
    if isinstance(outcome, Replaced):
        return ConflictError(f"{outcome.reason}; nothing was deleted", table=table)
    return UnknownOutcomeError(
        f"it is unknown whether {what}, so nothing was deleted: {outcome.reason}. Do not simply "
        f"repeat it; ask `{outcome.how_to_find_out(table)}`",
        table=table,
        instant=outcome.snapshot_id,
    )


CommitOutcome: TypeAlias = Committed | Conflicted | Unknown


def committed_location(outcome: CommitOutcome | None, *, table: str) -> str | None:
    """The new metadata's location, None when there was nothing to commit.

    Raises ConflictError when other writers were always first or the table was replaced by another,
    UnknownOutcomeError when it is unknown whether it took place.
    """
    match outcome:
        case Committed(loaded):
            return loaded.metadata_location
        case Conflicted(reason):
            raise ConflictError(f"not committed: {reason}", table=table)
        case Unknown() as unknown:
            raise unknown_error(unknown, table=table, what="the commit took place")
    return None


class TableOperations(Protocol):
    """One table's newest metadata, and the way to replace it.

    The table is the one that was loaded first, known by its UUID: another one at its place is never
    taken for it.
    """

    @property
    def io(self) -> FileIO:
        """The table's files."""

    @property
    def arguments(self) -> str:
        """How the command line names the table."""

    def load(self) -> Loaded:
        """The newest metadata.

        Raises TableNotFoundError when there is no such table, ConflictError when another table has
        its place, CorruptTableError, UnsupportedTableError and StorageUnavailableError.
        """

    def commit(
        self, base: Loaded, requirements: Iterable[Requirement], updates: Iterable[MetadataUpdate]
    ) -> CommitOutcome:
        """Publish `base` with the updates. Conflicted when the table is no longer `base`, Replaced
        when another table has its place.

        Raises StorageUnavailableError only when certainly nothing was published.
        """


def metadata_file_location(metadata: TableMetadata, name: str) -> str:
    """Where a new metadata file, manifest or manifest list called `name` belongs."""
    folder = metadata.properties.get(METADATA_PATH) or f"{metadata.location}/metadata"
    return f"{folder.rstrip('/')}/{name}"
