"""The table whose folder a place is in: what two tables in one folder would do to each other.

Each folder above a place is looked at with three requests, from the outermost on: for Hudi's
properties, for Iceberg's metadata files, for Delta's log. What may not be read counts as no table.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from tideline.errors import ConfigError, StorageUnavailableError, UnsupportedTableError
from tideline.storage.location import StoreLocation
from tideline.storage.nested_tables import (
    CONTROL_FOLDER,
    DELTA,
    DELTA_LOG,
    HUDI,
    ICEBERG,
    is_table_metadata_file,
)
from tideline.storage.object_store import ObjectStore

_METADATA_LISTED_MAX = 1_000
_VERSION_HINT = "version-hint.text"
_PROPERTIES = f"{CONTROL_FOLDER}/hoodie.properties"
_NOT_READ = (ConfigError, StorageUnavailableError, UnsupportedTableError)


@dataclass(frozen=True, slots=True)
class OuterTable:
    """A table of a format in a folder, by its address."""

    format_name: str
    uri: str

    def __str__(self) -> str:
        return f"the {self.format_name} table at {self.uri}"


def table_around(
    location: StoreLocation,
    open_location: Callable[[StoreLocation], ObjectStore] = StoreLocation.open,
    *,
    itself: bool,
) -> OuterTable | None:
    """The outermost table in the folders above a location, or at the location `itself`; None when
    none is seen."""
    root, path = outermost(location)
    steps = path.split("/") if path else []
    store: ObjectStore | None = None
    for taken in range(len(steps) + itself):
        folder = "/".join(steps[:taken])
        with suppress(*_NOT_READ):
            store = store or open_location(root)
            if (found := _table_at(store, folder)) is not None:
                return OuterTable(found, place_of(root, folder))
    return None


def has_iceberg_metadata(store: ObjectStore, folder: str = "metadata") -> bool:
    """Whether a folder is the one of an Iceberg table's metadata."""
    names = [info.path for info in islice(store.list(folder), _METADATA_LISTED_MAX)]
    if any(map(is_table_metadata_file, names)):
        return True
    if len(names) < _METADATA_LISTED_MAX:
        return False
    # Tables without a catalog call theirs v1, v2, ..., which sort behind manifests.
    return store.head(f"{folder}/{_VERSION_HINT}") is not None


def outermost(location: StoreLocation) -> tuple[StoreLocation, str]:
    """The location's outermost root, and its path from there; links of local folders resolved."""
    if location.scheme == "file":
        path = os.path.realpath(location.uri.removeprefix("file://"))
        return StoreLocation("file:///", location.options), path.strip("/")
    scheme, _, rest = location.uri.partition("://")
    bucket, _, path = rest.partition("/")
    return StoreLocation(f"{scheme}://{bucket}", location.options), path.strip("/")


def place_of(root: StoreLocation, path: str) -> str:
    """The address of a path from a root on."""
    return f"{root.uri.removesuffix('/')}/{path}" if path else root.uri


def _table_at(store: ObjectStore, folder: str) -> str | None:
    prefix = f"{folder}/" if folder else ""
    if store.head(f"{prefix}{_PROPERTIES}") is not None:
        return HUDI
    if has_iceberg_metadata(store, f"{prefix}metadata"):
        return ICEBERG
    return DELTA if any(True for _ in store.list(f"{prefix}{DELTA_LOG}")) else None
