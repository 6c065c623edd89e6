"""An Iceberg table as people hold it: opened from a folder or a catalog, refreshed, changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from tideline.clock import Clock
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.file_system_table import FileSystemTable
from tideline.iceberg.table.table_operations import Loaded, TableOperations
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.trust.catalog_access import OF_PROCESS, CatalogAccess


class IcebergTable:
    """The newest metadata seen so far, and the way to change it (`operations`)."""

    def __init__(self, operations: TableOperations) -> None:
        self.operations = operations
        self._loaded = operations.load()

    @classmethod
    def open(
        cls,
        uri: str | os.PathLike[str],
        storage_options: Mapping[str, str | bool] | None = None,
        *,
        clock: Clock | None = None,
        extra_locations: Iterable[str] = (),
    ) -> IcebergTable:
        """The table in a folder that no catalog keeps.

        Files that its metadata names are read below `extra_locations` as well, besides its own
        place and what `TIDELINE_EXTRA_LOCATIONS` declares.

        Raises TableNotFoundError when there is none, UnsupportedTableError when a catalog keeps
        it, CorruptTableError, ConfigError and StorageUnavailableError.
        """
        location = StoreLocation.of(uri, storage_options)
        return cls(FileSystemTable(location, clock=clock, extra_locations=extra_locations))

    @classmethod
    def from_catalog(
        cls,
        catalog: str,
        identifier: str,
        *,
        properties: Mapping[str, str] | None = None,
        credentials: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str | bool] | None = None,
        open_store: Callable[[StoreLocation], ObjectStore] | None = None,
        clock: Clock | None = None,
        timeout_s: float | None = None,
        access: CatalogAccess = OF_PROCESS,
    ) -> IcebergTable:
        """The table `namespace.name` of a catalog that PyIceberg's configuration names.

        `credentials` and `open_store` are for a process that keeps those of several tables; others
        have them in the environment. A REST catalog has `timeout_s` for each answer, or a minute.
        `access` says whose catalog it is.

        Needs the extra `iceberg`. Raises as `open` does, TableNotFoundError when the catalog has
        no such table.
        """
        from tideline.iceberg.table.catalog_opening import TIMEOUT_S, open_catalog
        from tideline.iceberg.table.catalog_table import CatalogTable

        opened = open_catalog(
            catalog,
            properties,
            credentials=credentials,
            timeout_s=timeout_s or TIMEOUT_S,
            access=access,
        )
        table = CatalogTable(
            opened,
            identifier,
            storage_options=storage_options,
            clock=clock,
            open_store=open_store,
            access=access,
            known_place=(properties or {}).get("warehouse"),
        )
        return cls(table)

    @property
    def loaded(self) -> Loaded:
        """What the last `refresh` found."""
        return self._loaded

    @property
    def metadata(self) -> TableMetadata:
        """The metadata that the last `refresh` found."""
        return self._loaded.metadata

    @property
    def io(self) -> FileIO:
        """The table's files."""
        return self.operations.io

    def take(self, loaded: Loaded) -> None:
        """What a commit has just published counts as found."""
        self._loaded = loaded

    def refresh(self) -> TableMetadata:
        """Load the newest metadata. Raises what `open` raises."""
        self._loaded = self.operations.load()
        return self._loaded.metadata
