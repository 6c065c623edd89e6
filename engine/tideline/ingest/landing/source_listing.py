"""Source files that a person names: one, or all below a folder."""

from __future__ import annotations

import re

from tideline.errors import InvalidDataError
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectInfo

PARQUET = "parquet"


def find_sources(location: StoreLocation) -> tuple[StoreLocation, list[str]]:
    """One file, or every file below a folder, in path order: the folder, and paths in it.

    Hidden and empty files are passed over. Raises InvalidDataError when there is none.
    """
    folder, files = _listed(location)
    return folder, [item.path for item in files]


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
