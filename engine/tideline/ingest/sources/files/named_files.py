"""Source files that a person names: one, or all below a folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tideline.errors import ConfigError, InvalidDataError
from tideline.ingest.sources.files.listing import FileFormat, tables_among
from tideline.storage.location import StoreLocation
from tideline.storage.nested_tables import root_around
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
    listed = list(location.open().list())
    found = sorted(
        (item for item in listed if item.size_bytes and not re.search(r"(^|/)[._]", item.path)),
        key=lambda item: item.path,
    )
    if not found:
        raise InvalidDataError("no source file here", path=location.uri)
    _refuse_tables(location, tables_among(listed), found)
    return location, found


def _refuse_tables(
    folder: StoreLocation, tables: Mapping[str, str], files: Iterable[ObjectInfo]
) -> None:
    """Raise ConfigError where files are among those of a table, by its root in the folder."""
    inside = {"" if "" in tables else root_around(file.path, tables) for file in files}
    for root in sorted(root for root in inside if root is not None):
        where = (
            f"in it is the {tables[root]} table {root}/"
            if root
            else f"this is a {tables['']} table's"
        )
        message = (
            f"a source is a folder of files, and {where}, whose files have earlier "
            "versions of rows too: read the table, or name single files"
        )
        raise ConfigError(message, path=folder.uri)
