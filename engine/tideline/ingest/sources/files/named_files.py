"""Source files that a person names: one, or all below a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tideline.errors import ConfigError, InvalidDataError
from tideline.ingest.sources.files.listing import FileFormat
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectInfo, is_possible_path

PARQUET = "parquet"
UNNAMABLE = "its name has a control character or is not UTF-8: rename it"


@dataclass(frozen=True, slots=True)
class Sources:
    """The folder, paths in it in order, and names, spelled in ASCII, that no object can have."""

    folder: StoreLocation
    paths: tuple[str, ...]
    unnamable: tuple[str, ...] = ()


def find_sources(location: StoreLocation) -> Sources:
    """One file, or every file below a folder.

    Hidden and empty files are passed over. Raises InvalidDataError when there is none.
    """
    folder, files = _listed(location)
    paths = [item.path for item in files]
    return Sources(
        folder,
        tuple(path for path in paths if is_possible_path(path)),
        tuple(ascii(path) for path in paths if not is_possible_path(path)),
    )


def format_by_name(location: StoreLocation) -> str:
    """The format that the files' names end like; Parquet where no name tells.

    Raises InvalidDataError when there is no file, ConfigError for files of several formats.
    """
    names = [location.uri] if _format_of(location.uri) else find_sources(location).paths
    found = {kind.value: name for name in names if (kind := _format_of(name)) is not None}
    if len(found) > 1:
        said = " and ".join(found.values())
        raise ConfigError(f"files of several formats ({said}): say which, with --format")
    return next(iter(found), PARQUET)


def _format_of(name: str) -> FileFormat | None:
    return next((kind for kind in FileFormat if name.lower().endswith(kind.endings)), None)


def source_bytes(location: StoreLocation) -> int:
    """How many bytes these files have. Raises as `find_sources`."""
    return sum(item.size_bytes for item in _listed(location)[1])


def _listed(location: StoreLocation) -> tuple[StoreLocation, list[ObjectInfo]]:
    parent, _, name = location.uri.rpartition("/")
    single = StoreLocation(parent, location.options)
    if name and (file := single.open().head(name)) is not None:
        return single, [file]
    found = sorted(
        (
            item
            for item in location.open().list()
            if item.size_bytes and not re.search(r"(^|/)[._]", item.path)
        ),
        key=lambda item: item.path,
    )
    if not found:
        raise InvalidDataError("no source file here", path=location.uri)
    return location, found
