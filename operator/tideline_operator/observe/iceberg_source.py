"""Where an Iceberg table's newest metadata comes from: its folder, or its catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from tideline.clock import Clock
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.file_system_table import FileSystemTable
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import Loaded
from tideline.ingest.location import Location
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.trust.catalog_access import OF_PROCESS, CatalogAccess
from tideline_operator.decide.planned_operation import catalog_entry
from tideline_operator.resources.resolved import ResolvedTable


class IcebergSource(Protocol):
    """Loads metadata."""

    @property
    def io(self) -> FileIO:
        """The table's files."""

    def load(self, known: Loaded | None) -> Loaded:
        """The newest metadata; `known` itself while it is the newest.

        Raises ObjectNotFoundError when there is no table, CorruptTableError, UnsupportedTableError
        and StorageUnavailableError.
        """


class FolderSource:
    """A table that is a folder."""

    def __init__(self, table: FileSystemTable) -> None:
        self._table = table

    @property
    def io(self) -> FileIO:
        return self._table.io

    def load(self, known: Loaded | None) -> Loaded:
        return self._table.load() if known is None else self._table.load_since(known)


class CatalogSource:
    """A table that a catalog keeps."""

    def __init__(self, table: IcebergTable) -> None:
        """`table` has just been opened."""
        self._table = table

    @property
    def io(self) -> FileIO:
        return self._table.io

    def load(self, known: Loaded | None) -> Loaded:
        found = self._table.loaded
        if known is None or known.metadata.table_uuid != found.metadata.table_uuid:
            return found
        return known if known.metadata_location == found.metadata_location else found


def open_source(
    table: ResolvedTable,
    open_store: Callable[[ResolvedTable, Location], ObjectStore],
    clock: Clock,
    credentials: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    access: CatalogAccess = OF_PROCESS,
) -> IcebergSource:
    """The metadata of a table; a catalog with `credentials`, and with `timeout_s` for each answer.
    `access` says whether the environment counts as well, as it does for `tideline run`.

    Raises ObjectNotFoundError when a catalog has no such table, ConfigError and
    StorageUnavailableError.
    """
    options = dict(table.location.options)
    entry = catalog_entry(table.spec.catalog)
    if entry is None:
        location = StoreLocation.of(table.location.uri, options)
        store = open_store(table, table.location)
        return FolderSource(FileSystemTable(location, store=store, clock=clock))
    opened = IcebergTable.from_catalog(
        entry.catalog,
        entry.table,
        properties=dict(entry.properties),
        credentials=credentials,
        storage_options=options,
        open_store=lambda at: open_store(table, Location(at.uri, at.options)),
        clock=clock,
        timeout_s=timeout_s,
        access=access,
    )
    return CatalogSource(opened)
