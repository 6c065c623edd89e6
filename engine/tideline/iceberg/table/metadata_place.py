"""Where the metadata files of a catalog's table are: stores by the locations that a catalog names.

A catalog keeps the location of a file and says nothing of the table's folder before the file was
read. It is the folder above `metadata/`, as every writer lays it out, or else the file's own.

A catalog does not decide what of this machine is read. A folder of this machine is taken only from
a catalog that is a file here itself, or where configuration has named the folder, or one above it:
as the catalog's `warehouse`, or in `TIDELINE_EXTRA_LOCATIONS`.

A database has the location of a metadata file and no more. What that file says of the table's
place, or of the next metadata file's, is the table's word: it is followed into the folder above
`metadata/`, into its bucket, and where configuration has named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.iceberg.table.s3_properties import NO_PROPERTIES, S3Properties
from tideline.storage.location import StoreLocation
from tideline.storage.named_places import (
    NamedPlaces,
    declared_places,
    is_below,
    is_declared,
    normalised,
    not_named,
)
from tideline.storage.object_store import ObjectStore
from tideline.storage.s3.identity import implicit_identity
from tideline.trust.catalog_access import OF_PROCESS, CatalogAccess
from tideline.trust.foreign_words import quoted

_FOLDER = "/metadata/"
_LENT = ("s3",)
"""Stores that a resource gives credentials for."""


@dataclass(frozen=True, slots=True)
class AnsweringCatalog:
    """A catalog by its name and the properties that it was opened with, none of its answers."""

    name: str
    properties: Mapping[str, str]
    is_server: bool

    @property
    def is_local(self) -> bool:
        """Whether it is a file of this machine."""
        return not self.is_server and str(self.properties.get("uri", "")).startswith("sqlite")

    @property
    def warehouse(self) -> str | None:
        """What configuration has named as its warehouse."""
        return self.properties.get("warehouse")


@dataclass(frozen=True)
class MetadataPlace:
    """Opens stores with the options of one table. `known_place` is one that configuration names."""

    catalog: AnsweringCatalog
    options: Mapping[str, str | bool] | None
    open_store: Callable[[StoreLocation], ObjectStore]
    access: CatalogAccess = OF_PROCESS
    known_place: str | None = None
    s3: S3Properties = NO_PROPERTIES
    """What this process's configuration says of S3 for the catalog."""

    def opened(self, location: str) -> tuple[StoreLocation, ObjectStore]:
        """The store of a table's folder. Raises UnsupportedTableError for a folder of this machine
        that configuration does not name, for a location that no store has, and for a store that a
        resource gives no credentials for; ConfigError for what configuration says of S3."""
        try:
            place = StoreLocation.of(location, self.options)
        except ConfigError as error:
            message = "the catalog names a location that no store has"
            raise UnsupportedTableError(message, path=quoted(location)) from error
        if place.kind.is_remote and place.scheme not in _LENT and not self.access.is_of_process:
            # The environment's credentials would be used for whatever a resource's catalog says.
            message = "the catalog names a store that only this process has credentials for"
            raise UnsupportedTableError(message, path=quoted(location))
        if place.scheme == "file" and not self.access.allows_local:
            message = "the catalog names a folder of this machine, where no table is read"
            raise UnsupportedTableError(message, path=quoted(location))
        if place.scheme == "file" and not self._is_named(normalised(place.uri)):
            message = not_named("the catalog")
            raise UnsupportedTableError(message, table=self.catalog.name, path=quoted(location))
        if place.scheme == "s3":
            place = self._as_configured(location)
        return place, self.open_store(place)

    def require_identity(self) -> None:
        """Raise ConfigError where the catalog's configuration has keys of S3, and the environment,
        which is asked for them, has none."""
        if not self.s3.own_keys:
            return
        try:
            implicit_identity()
        except ConfigError as error:
            message = (
                f"the configuration of the catalog has {self.s3.own_keys[0]}, and keys of S3 are "
                "taken from the environment alone: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
            raise ConfigError(message, value=self.catalog.name) from error

    def check(self, location: str, metadata_location: str) -> None:
        """Raise UnsupportedTableError for a place that a metadata file names, and may not.

        The catalog has `metadata_location` as the place of that file.
        """
        if self.catalog.is_server:
            return  # it has answered with the metadata itself
        folder, _ = _folder_and_path(metadata_location)
        if (
            NamedPlaces.of(folder, (*declared_places(), *self._configured)).root_of(location)
            is None
        ):
            message = not_named("the metadata")
            raise UnsupportedTableError(message, table=self.catalog.name, path=quoted(location))

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

    def _as_configured(self, location: str) -> StoreLocation:
        if self.s3.refused is not None:
            message = f"the configuration of the catalog demands {self.s3.refused}"
            raise ConfigError(message, value=self.catalog.name)
        if not self.catalog.is_server:
            self.require_identity()
        return StoreLocation.of(location, self.s3.below(self.options or {}))

    def _is_named(self, plain: str) -> bool:
        if self.catalog.is_local:
            return True
        named = map(normalised, self._configured)
        return any(is_below(plain, place) for place in named) or is_declared(plain)

    @property
    def _configured(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.known_place, self.catalog.warehouse)))


def _folder_and_path(location: str) -> tuple[str, str]:
    folder, found, name = location.rpartition(_FOLDER)
    if found:
        return folder, f"{_FOLDER[1:]}{name}"
    folder, _, name = location.rpartition("/")
    return folder, name
