"""May a table be here: is its folder inside, around or the same as another's?

Two tables in one folder delete each other's files, so a new table is refused where one is. The look
has a bounded cost: two requests for each folder above the location, and one listing of the first
`LISTED_MAX` objects below it. A table further back in a huge folder is not noticed; listings of the
new table leave it out all the same.

Another creator may be at work in a parent folder at the same moment; nothing excludes that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.hudi.table.table_config import PROPERTIES_PATH
from tideline.storage.location import StoreLocation
from tideline.storage.nested_tables import HUDI, ICEBERG, is_table_metadata_file, nested_tables
from tideline.storage.object_store import ObjectStore

LISTED_MAX = 5_000
_METADATA_LISTED_MAX = 1_000


def find_table_conflict(
    location: StoreLocation,
    open_location: Callable[[StoreLocation], ObjectStore] = StoreLocation.open,
) -> str | None:
    """Which table is at, above or below a location, in words; None when none is seen.

    A Hudi table at the location itself is not what this looks for. What may not be read above the
    location counts as no table. Raises StorageUnavailableError when the location cannot be listed.
    """
    root, path = _split(location)
    store = open_location(root)
    steps = path.split("/") if path else []
    for count in range(len(steps)):
        above = "/".join(steps[:count])
        with suppress(StorageUnavailableError):
            if (found := _table_at(store, above)) is not None:
                return f"inside the {found} table at {_uri(root, above)}"
    listed = (info.path for info in islice(open_location(location).list(), LISTED_MAX))
    below = nested_tables(f"_/{item}" for item in listed)
    here = below.pop("_", None)
    if here == ICEBERG:
        return f"that of an {ICEBERG} table"
    for nested, format_name in sorted(below.items()):
        return f"around the {format_name} table at {_uri(location, nested.removeprefix('_/'))}"
    return None


def refuse_table_conflict(location: StoreLocation) -> None:
    """Raise ConfigError when another table is at, above or below the location."""
    conflict = find_table_conflict(location)
    if conflict is not None:
        raise ConfigError(f"the location is {conflict}; choose another one", table=location.uri)


def has_iceberg_metadata(store: ObjectStore, folder: str = "metadata") -> bool:
    """Whether a folder is the one of an Iceberg table's metadata."""
    names = islice(store.list(folder), _METADATA_LISTED_MAX)
    return any(is_table_metadata_file(info.path) for info in names)


def _table_at(store: ObjectStore, folder: str) -> str | None:
    prefix = f"{folder}/" if folder else ""
    if store.head(f"{prefix}{PROPERTIES_PATH}") is not None:
        return HUDI
    return ICEBERG if has_iceberg_metadata(store, f"{prefix}metadata") else None


def _split(location: StoreLocation) -> tuple[StoreLocation, str]:
    """The location's outermost root, and its path from there; links of local folders resolved."""
    if location.scheme == "file":
        path = os.path.realpath(location.uri.removeprefix("file://"))
        return StoreLocation("file:///", location.options), path.strip("/")
    scheme, _, rest = location.uri.partition("://")
    bucket, _, path = rest.partition("/")
    return StoreLocation(f"{scheme}://{bucket}", location.options), path


def _uri(root: StoreLocation, path: str) -> str:
    return f"{root.uri.removesuffix('/')}/{path}" if path else root.uri
