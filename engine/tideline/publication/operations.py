"""The published table as its place has it: a folder, or a catalog that PyIceberg opens.

A catalog whose address the table's properties give is opened where the process's own configuration
has the same one, and with what configuration says; else nothing is sent to it. What kind of catalog
it is follows from the address, or from configuration, and never from the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tideline.errors import ConfigError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.iceberg.table.catalog_name import with_catalogs
from tideline.iceberg.table.file_system_table import FileSystemTable
from tideline.publication.place import CatalogPlace
from tideline.storage.location import StoreLocation
from tideline.storage.named_places import normalised
from tideline.storage.object_store import ObjectStore
from tideline.trust.author import Author

if TYPE_CHECKING:
    from tideline.iceberg.table.catalog_table import CatalogTable


class UnconfiguredCatalogError(ConfigError):
    """Only the table's properties name the catalog, which so was not asked."""


_REMEDY = (
    ", name the catalog (`tideline publish URI --catalog ... --identifier ...`), or give the "
    "publication up (`tideline publish URI --stop --drop`)"
)

Operations: TypeAlias = "FileSystemTable | CatalogTable"


def operations_at(table: HoodieTable, place: CatalogPlace | None) -> Operations:
    """The published table, which may not be there yet; None is the Hudi table's own folder.

    Raises UnconfiguredCatalogError for a catalog that only the table names, ConfigError and
    StorageUnavailableError when one cannot be opened.
    """
    if place is None:
        return FileSystemTable(table.location, store=table.store, clock=table.clock)
    with with_catalogs():
        from tideline.iceberg.table.catalog_opening import open_catalog
        from tideline.iceberg.table.catalog_table import CatalogTable
    options = dict(place.options)
    if place.by is Author.TABLE:
        _refuse_unconfigured(table, place)
        options.pop("uri", None)
    for name in place.of_table & {"type", "warehouse"}:
        if name == "type" or _is_folder_here(options[name]):
            del options[name]

    def open_store(location: StoreLocation) -> ObjectStore:
        is_here = normalised(location.uri) == normalised(table.location.uri)
        return table.store if is_here else location.open()

    return CatalogTable(
        open_catalog(place.catalog, options),
        place.identifier,
        storage_options=dict(table.location.options),
        clock=table.clock,
        open_store=open_store,
        known_place=table.location.uri,
    )


def _is_folder_here(warehouse: str) -> bool:
    """Whether it is no name of a part of the catalog, but a folder of this machine: one to read
    from, where configuration gives it."""
    return normalised(warehouse).startswith("file:") or warehouse.startswith(".")


def _refuse_unconfigured(table: HoodieTable, place: CatalogPlace) -> None:
    from tideline.iceberg.table.catalog_config import refuse_unconfigured

    try:
        kind = dict(place.options).get("type")
        refuse_unconfigured(place.catalog, place.uri, kind, remedy=_REMEDY)
    except ConfigError as error:
        message = f"the table's properties publish it as {place}: {error.message}"
        raise UnconfiguredCatalogError(message, table=table.uri, value=error.value) from error
