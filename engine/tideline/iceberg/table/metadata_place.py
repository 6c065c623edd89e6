"""Where the metadata files of a catalog's table are: stores by the locations that a catalog names.

A catalog keeps the location of a file and says nothing of the table's folder before the file was
read. It is the folder above `metadata/`, as every writer lays it out, or else the file's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.trust.catalog_access import CatalogAccess
from tideline.trust.foreign_words import quoted

_FOLDER = "/metadata/"


@dataclass(frozen=True)
class MetadataPlace:
    """Opens stores with the options of one table."""

    options: Mapping[str, str | bool] | None
    open_store: Callable[[StoreLocation], ObjectStore]
    access: CatalogAccess

    def opened(self, location: str) -> tuple[StoreLocation, ObjectStore]:
        """The store of a table's folder. Raises UnsupportedTableError for a place of this machine,
        where those are not read, and for one that no store has."""
        try:
            place = StoreLocation.of(location, self.options)
        except ConfigError as error:
            message = "the catalog names a location that no store has"
            raise UnsupportedTableError(message, path=quoted(location)) from error
        if place.scheme == "file" and not self.access.allows_local:
            message = "the catalog names a folder of this machine, where no table is read"
            raise UnsupportedTableError(message, path=quoted(location))
        return place, self.open_store(place)

    def read(self, location: str) -> bytes:
        """Raises what stores raise."""
        folder, path = _folder_and_path(location)
        _, store = self.opened(folder)
        return store.get(path)

    def write(self, location: str, body: bytes) -> None:
        """Stores a new metadata file, whose name holds a UUID."""
        folder, path = _folder_and_path(location)
        _, store = self.opened(folder)
        store.put(path, body)


def _folder_and_path(location: str) -> tuple[str, str]:
    folder, found, name = location.rpartition(_FOLDER)
    if found:
        return folder, f"{_FOLDER[1:]}{name}"
    folder, _, name = location.rpartition("/")
    return folder, name
