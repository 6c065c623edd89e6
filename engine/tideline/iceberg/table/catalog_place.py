"""The folder that a catalog says a table is in.

A catalog is asked for that; it does not decide what of this machine is read. A folder of this
machine is taken only from a catalog that is a file here itself, or where configuration has named
the folder, or one above it: as the catalog's `warehouse`, or in `TIDELINE_EXTRA_LOCATIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tideline.errors import UnsupportedTableError
from tideline.iceberg.table.file_io import FileIO
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.trust.named_places import is_below, is_declared, normalised, not_named


@dataclass(frozen=True, slots=True)
class AnsweringCatalog:
    """A catalog by its name and properties; those of a server may be among its answers."""

    name: str
    properties: Mapping[str, str]
    is_server: bool

    @property
    def is_local(self) -> bool:
        """Whether it is a file of this machine."""
        return not self.is_server and str(self.properties.get("uri", "")).startswith("sqlite")

    @property
    def warehouse(self) -> str | None:
        """What configuration has named as its warehouse; None where that cannot be told."""
        return None if self.is_server else self.properties.get("warehouse")


def catalog_io(
    catalog: AnsweringCatalog,
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
    if location.scheme == "file" and not catalog.is_local:
        named = [normalised(one) for one in (known_place, catalog.warehouse) if one]
        plain = normalised(location.uri)
        if not any(is_below(plain, place) for place in named) and not is_declared(plain):
            message = not_named("the catalog")
            raise UnsupportedTableError(message, table=catalog.name, path=recorded)
    return FileIO(location, recorded, {location: open_store(location)})
