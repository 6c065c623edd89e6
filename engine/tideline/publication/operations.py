"""The published table as its place has it: a folder, or a catalog that PyIceberg opens."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.iceberg.table.catalog_name import with_catalogs
from tideline.iceberg.table.file_system_table import FileSystemTable
from tideline.publication.place import CatalogPlace

if TYPE_CHECKING:
    from tideline.iceberg.table.catalog_table import CatalogTable

# How PyIceberg's own client calls what a store's location says.
_STORE_OPTIONS = {"endpoint": "s3.endpoint", "region": "s3.region"}

Operations: TypeAlias = "FileSystemTable | CatalogTable"


def operations_at(table: HoodieTable, place: CatalogPlace | None) -> Operations:
    """The published table, which may not be there yet; None is the Hudi table's own folder.

    Raises ConfigError and StorageUnavailableError when a catalog cannot be opened.
    """
    if place is None:
        return FileSystemTable(table.location, store=table.store, clock=table.clock)
    with with_catalogs():
        from tideline.iceberg.table.catalog_table import CatalogTable, open_catalog
    given = dict(table.location.options)
    store = {own: given[name] for name, own in _STORE_OPTIONS.items() if given.get(name)}
    return CatalogTable(
        open_catalog(place.catalog, {**store, **dict(place.options)}),
        place.identifier,
        storage_options=given,
        clock=table.clock,
        open_store=lambda _: table.store,
        known_place=table.location.uri,
    )
