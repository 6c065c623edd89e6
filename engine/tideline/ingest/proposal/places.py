"""Where the files that a LakeTable is made for lie, and what it calls the table and its places.

Each is a folder of this machine or a prefix in a store at a server, which is reached through a
LakeStore, which is written as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tideline.errors import ConfigError
from tideline.storage.kinds import is_remote
from tideline.storage.location import StoreLocation

STORE_NAME = "store"
_GENERIC = ("landing", "data", "files", "in", "input", "incoming", "raw", "csv", "json", "parquet")
"""Names of folders that say nothing of what is in them."""
_NAME_MAX = 63


@dataclass(frozen=True, slots=True)
class Names:
    """What the resource is called, and where things are, relative to its file.

    `store` is a place in the LakeStore; None where all are folders.
    """

    name: str
    location: str
    landing: str
    file: str
    store: StoreLocation | None = None

    @property
    def has_location_in_store(self) -> bool:
        """Whether the table is reached through the LakeStore, and with it the landing prefix."""
        return is_remote(self.location)


def landing_location(name: str, storage: Mapping[str, str]) -> StoreLocation:
    """The folder or prefix with the files. Raises ConfigError for a folder that is not there."""
    location = StoreLocation.of(name, storage)
    if location.scheme == "file" and not Path(_path(location)).is_dir():
        is_file = Path(_path(location)).is_file()
        said = "this is a file: name the folder that it is in" if is_file else None
        raise ConfigError(said or "there is no such folder", path=name)
    return location


def names_of(
    landing: StoreLocation,
    output: Path,
    storage: Mapping[str, str],
    *,
    name: str | None = None,
    location: str | None = None,
) -> Names:
    """What is called how: by `name` and at `location`, otherwise by the folder and beside it.
    `storage` are the options of both places.

    Raises ConfigError for a table within its files or the reverse, and for a place that is taken.
    """
    found = _path(landing)
    is_generic = found.name.lower() in _GENERIC
    called = found.parent.name if is_generic else found.name
    if location is not None:
        table = StoreLocation.of(location, storage)
    else:
        table = _beside(landing, "table" if is_generic else f"{found.name}-table")
    _check_apart(landing, table)
    if _is_taken(table):
        place = _shown(table)
        raise ConfigError("the table's folder is not empty: name another, --location", path=place)
    words = re.sub(r"[^a-z0-9]+", "-", (name or called).lower()).strip("-") or "table"
    stored = next((place for place in (table, landing) if place.kind.is_remote), None)
    return Names(
        words[:_NAME_MAX].strip("-"),
        _written(table, output),
        _written(landing, output),
        str(output),
        stored,
    )


def _path(location: StoreLocation) -> PurePosixPath:
    """The folder, or the bucket and the prefix in it."""
    rest = location.uri.partition("://")[2]
    if location.scheme == "file":
        return PurePosixPath(Path(rest).resolve())
    return PurePosixPath(f"/{rest}")


def _beside(landing: StoreLocation, name: str) -> StoreLocation:
    above = _path(landing).parent
    if landing.scheme == "file":
        return StoreLocation.of(str(above / name))
    if above == PurePosixPath("/"):
        message = "the files lie in the whole bucket: name the table's place, --location"
        raise ConfigError(message, path=landing.uri)
    return StoreLocation.of(f"{landing.scheme}:/{above / name}", dict(landing.options))


def _check_apart(landing: StoreLocation, table: StoreLocation) -> None:
    landing_path, table_path = _path(landing), _path(table)
    is_within = landing_path.is_relative_to(table_path) or table_path.is_relative_to(landing_path)
    if landing.scheme == table.scheme and is_within:
        message = "the table and its files need folders apart: --location"
        raise ConfigError(message, path=_shown(table))


def _is_taken(table: StoreLocation) -> bool:
    if table.scheme != "file":
        return next(iter(table.open().list()), None) is not None
    folder = Path(_path(table))
    return folder.exists() and any(folder.iterdir())


def _shown(location: StoreLocation) -> str:
    return str(_path(location)) if location.scheme == "file" else location.uri


def _written(location: StoreLocation, output: Path) -> str:
    if location.scheme != "file":
        return location.uri
    return os.path.relpath(_path(location), output.resolve().parent)
