"""Source files that a person names: one, or all below a folder."""

from __future__ import annotations

import re

from tideline.errors import InvalidDataError
from tideline.storage.location import StoreLocation

PARQUET = "parquet"


def find_sources(location: StoreLocation) -> tuple[StoreLocation, list[str]]:
    """One file, or every file below a folder, in path order: the folder, and paths in it.

    Hidden and empty files are passed over. Raises InvalidDataError when there is none.
    """
    parent, _, name = location.uri.rpartition("/")
    single = StoreLocation(parent, location.options)
    if name and single.open().head(name) is not None:
        return single, [name]
    found = sorted(
        item.path
        for item in location.open().list()
        if item.size_bytes and not re.search(r"(^|/)[._]", item.path)
    )
    if not found:
        raise InvalidDataError("no source file here", path=location.uri)
    return location, found
