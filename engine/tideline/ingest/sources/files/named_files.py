"""Source files that a person names: one, or all below a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tideline.errors import InvalidDataError
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
