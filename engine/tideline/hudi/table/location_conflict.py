"""Is a folder inside, around or the same as a table's?

Two tables in one folder delete each other's files, so a new table is refused where one is, and
files in a table's folder are no source files to delete. The look has a bounded cost: two requests
for each folder above the location, and one listing of the first `LISTED_MAX` objects below it. A
table further back in a huge folder is not noticed; listings of the new table leave it out all the
same.

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
_VERSION_HINT = "version-hint.text"


def find_table_conflict(
    location: StoreLocation,
    open_location: Callable[[StoreLocation], ObjectStore] = StoreLocation.open,
) -> str | None:
    """Which table is at, above or below a location, in words; None when none is seen.

    A Hudi table at the location itself is not what this looks for. What may not be read above the
    location counts as no table. Raises StorageUnavailableError when the location cannot be listed.
    """
    if (found := _first_table(location, open_location, itself=False)) is not None:
        return f"inside {found}"
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


def find_table_around(location: StoreLocation) -> str | None:
    """The table whose folder a location is or lies in, in words; None when none is seen.

    What may not be read counts as no table.
    """
    return _first_table(location, StoreLocation.open, itself=True)


def has_iceberg_metadata(store: ObjectStore, folder: str = "metadata") -> bool:
    """Whether a folder is the one of an Iceberg table's metadata."""
    names = [info.path for info in islice(store.list(folder), _METADATA_LISTED_MAX)]
    if any(map(is_table_metadata_file, names)):
        return True
    if len(names) < _METADATA_LISTED_MAX:
        return False
    # Tables without a catalog call theirs v1, v2, ..., which sort behind manifests.
    return store.head(f"{folder}/{_VERSION_HINT}") is not None


def _first_table(
    location: StoreLocation,
    open_location: Callable[[StoreLocation], ObjectStore],
    *,
    itself: bool,
) -> str | None:
    """The outermost table in the folders above a location, or at the location `itself`."""
    root, path = _split(location)
    steps = path.split("/") if path else []
    store = open_location(root)
    for taken in range(len(steps) + itself):
        folder = "/".join(steps[:taken])
        with suppress(StorageUnavailableError):
            if (found := _table_at(store, folder)) is not None:
                return f"the {found} table at {_uri(root, folder)}"
    return None


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
