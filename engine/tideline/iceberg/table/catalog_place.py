"""The folder that a catalog says a table is in.

A catalog is asked for that; it does not decide what of this machine is read. A folder of this
machine is taken only from a catalog that is a file here itself, or where configuration has named
the folder, or one above it: as the catalog's `warehouse`, or in `TIDELINE_EXTRA_LOCATIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog

from tideline.errors import UnsupportedTableError
from tideline.iceberg.table.file_io import FileIO
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.trust.named_places import is_below, is_declared, normalised, not_named


def catalog_io(
    catalog: Catalog,
    recorded: str,
    storage_options: Mapping[str, str | bool] | None,
    open_store: Callable[[StoreLocation], ObjectStore],
    *,
    known_place: str | None = None,
) -> FileIO:
    """The files of a table at the location `recorded`, which the catalog has answered.

    `known_place` is one that configuration names. Raises UnsupportedTableError for a folder of
    this machine that it does not name, ConfigError for what is no location.
    """
    location = StoreLocation.of(recorded, storage_options)
    if location.scheme == "file" and not _is_local(catalog):
        # What the server has answered to a REST client is among its properties.
        given = None if isinstance(catalog, RestCatalog) else catalog.properties.get("warehouse")
        named = [normalised(one) for one in (known_place, given) if one]
        plain = normalised(location.uri)
        if not any(is_below(plain, place) for place in named) and not is_declared(plain):
            message = not_named("the catalog")
            raise UnsupportedTableError(message, table=catalog.name, path=recorded)
    return FileIO(location, recorded, {location: open_store(location)})


def _is_local(catalog: Catalog) -> bool:
    if isinstance(catalog, RestCatalog):
        return False
    return str(catalog.properties.get("uri", "")).startswith("sqlite")
