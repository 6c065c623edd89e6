"""New Iceberg tables, in a folder of their own or in a catalog: one conditional create.

Dying before it leaves at most empty folders, or in a catalog a metadata file that nothing names;
dying after it an empty table. A REST catalog that is to choose the place writes that file itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from tideline.clock import Clock
from tideline.errors import ConfigError, TableExistsError, TableNotFoundError
from tideline.iceberg.table.file_system_table import FOLDER, FileSystemTable
from tideline.iceberg.table.new_table import create_in_folder
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.write.table_definition import IcebergDefinition
from tideline.storage.location import StoreLocation
from tideline.storage.new_root import prepared_root
from tideline.storage.probe.run import probe_conditional_writes

_THERE = "there is a table already"
_WAREHOUSE = "warehouse"


def create_table(
    location: StoreLocation, definition: IcebergDefinition, clock: Clock
) -> IcebergTable:
    """Create the table in a folder, which no catalog keeps.

    Raises TableExistsError when an Iceberg table is there already, ConfigError for a definition or
    a place that cannot be, StorageUnavailableError.
    """
    first = definition.metadata(location.uri, now_ms=clock.now_ms())
    store = location.open()
    with prepared_root(location):
        if any(True for _ in store.list(FOLDER)):
            raise TableExistsError(_THERE, table=location.uri)
        probe_conditional_writes(store)
        create_in_folder(store, first)
    made = IcebergTable(FileSystemTable(location, store=store, clock=clock))
    return _own(made, first.table_uuid, location.uri)


def create_in_catalog(
    catalog: str,
    identifier: str,
    definition: IcebergDefinition,
    clock: Clock,
    *,
    location: str | None = None,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str | bool] | None = None,
) -> IcebergTable:
    """Create the table `namespace.name` in a catalog, its files in the folder `location`. Without
    it a REST catalog creates the table where it likes, and for others it is a folder below the
    catalog's `warehouse`.

    Needs the extra `iceberg`. Raises as `create_table`, and UnsupportedTableError when the catalog
    refuses.
    """
    from tideline.iceberg.table.catalog_config import configured_catalog
    from tideline.iceberg.table.catalog_opening import open_catalog
    from tideline.iceberg.table.catalog_table import CatalogTable

    opened = open_catalog(catalog, properties)
    if location is None:
        placed = CatalogTable(
            opened,
            identifier,
            storage_options=storage_options,
            clock=clock,
            known_place=(properties or {}).get(_WAREHOUSE),
        )
        if placed.places_tables:
            placed.create(definition.metadata(identifier, now_ms=clock.now_ms()))
            return IcebergTable(placed)
    given = {**configured_catalog(catalog), **(properties or {})}
    folder = location or _below(str(given.get(_WAREHOUSE, "")), identifier)
    place = StoreLocation.of(folder, storage_options)
    first = definition.metadata(place.uri, now_ms=clock.now_ms())
    operations = CatalogTable(
        opened,
        identifier,
        storage_options=dict(place.options),
        clock=clock,
        known_place=place.uri,
    )
    try:
        operations.load()
    except TableNotFoundError:
        pass
    else:
        raise TableExistsError(_THERE, table=identifier)
    with prepared_root(place):
        path = f"{FOLDER}/00000-{uuid.uuid4()}.metadata.json"
        operations.register(place.open(), path, first)
    return _own(IcebergTable(operations), first.table_uuid, identifier)


def _below(warehouse: str, identifier: str) -> str:
    """The folder of a table where a warehouse is one, and not a name that the catalog gives it."""
    if "/" not in warehouse:
        message = "the catalog's warehouse is no folder: say where the table goes with location"
        raise ConfigError(message, table=identifier, value=warehouse or None)
    return "/".join([warehouse.rstrip("/"), *identifier.split(".")])


def _own(table: IcebergTable, table_uuid: str, name: str) -> IcebergTable:
    if table.metadata.table_uuid != table_uuid:
        raise TableExistsError("another process created a table here just now", table=name)
    return table
