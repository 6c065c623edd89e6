"""A table whose next commit is held back, to be made together with those of other tables.

The commit is checked against the metadata that was loaded and applied to it, as a catalog would;
what follows sees the table so. Nothing is published. Only changes after which nothing is deleted
are taken: the commit may come to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tideline.errors import ConfigError
from tideline.iceberg.metadata.metadata_update import (
    MetadataUpdate,
    RemovePartitionSpecs,
    RemoveSchemas,
    RemoveSnapshots,
    Requirement,
    apply_updates,
    unmet,
)
from tideline.iceberg.table.catalog_table import CatalogTable
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.table_operations import CommitOutcome, Committed, Conflicted, Loaded

_ENDING = (RemoveSnapshots, RemovePartitionSpecs, RemoveSchemas)


@dataclass(frozen=True, slots=True)
class StagedChange:
    """One table's part of a commit, made from `base`."""

    table: CatalogTable
    base: Loaded
    requirements: tuple[Requirement, ...]
    updates: tuple[MetadataUpdate, ...]


class StagedTable:
    """TableOperations of a table of a catalog; `change` is what was to be committed."""

    def __init__(self, table: CatalogTable) -> None:
        self.table = table
        self.change: StagedChange | None = None
        self._staged: Loaded | None = None

    @property
    def io(self) -> FileIO:
        return self.table.io

    @property
    def arguments(self) -> str:
        return self.table.arguments

    def load(self) -> Loaded:
        return self._staged or self.table.load()

    def commit(
        self, base: Loaded, requirements: Iterable[Requirement], updates: Iterable[MetadataUpdate]
    ) -> CommitOutcome:
        """Raises ConfigError for a second change, and for one after which files are deleted."""
        asked, changes = tuple(requirements), tuple(updates)
        if self.change is not None:
            message = "of each table one change is committed together with those of others"
            raise ConfigError(message, table=self.arguments)
        if any(isinstance(update, _ENDING) for update in changes):
            message = "what ends snapshots is committed on its own, not together with other tables"
            raise ConfigError(message, table=self.arguments)
        reason = unmet(base.metadata, asked)
        if reason is not None:
            return Conflicted(reason)
        after = apply_updates(base.metadata, changes, now_ms=base.metadata.last_updated_ms)
        self.change = StagedChange(self.table, base, asked, changes)
        self._staged = Loaded(after, base.metadata_location)
        return Committed(self._staged)
