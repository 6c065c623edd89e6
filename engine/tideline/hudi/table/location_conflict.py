"""Is a folder inside, around or the same as a table's?

Two tables in one folder delete each other's files, so a new table is refused where one is, and
files in a table's folder are no source files to delete. The look has a bounded cost: three requests
for each folder above the location, and one listing of the first `LISTED_MAX` objects below it. A
table further back in a huge folder is not noticed; listings of the new table leave it out all the
same.

Another creator may be at work in a parent folder at the same moment; nothing excludes that.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from tideline.errors import ConfigError
from tideline.storage.location import StoreLocation
from tideline.storage.nested_tables import DELTA, ICEBERG, nested_tables
from tideline.storage.object_store import ObjectStore
from tideline.storage.table_around import place_of, table_around

LISTED_MAX = 5_000


def find_table_conflict(
    location: StoreLocation,
    open_location: Callable[[StoreLocation], ObjectStore] = StoreLocation.open,
) -> str | None:
    """Which table is at, above or below a location, in words; None when none is seen.

    A Hudi table at the location itself is not what this looks for. What may not be read above the
    location counts as no table. Raises StorageUnavailableError when the location cannot be listed.
    """
    if (found := table_around(location, open_location, itself=False)) is not None:
        return f"inside {found}"
    listed = (info.path for info in islice(open_location(location).list(), LISTED_MAX))
    below = nested_tables(f"_/{item}" for item in listed)
    here = below.pop("_", None)
    if here in (ICEBERG, DELTA):
        return f"that of {'an' if here == ICEBERG else 'a'} {here} table"
    for nested, format_name in sorted(below.items()):
        return f"around the {format_name} table at {place_of(location, nested.removeprefix('_/'))}"
    return None


def refuse_table_conflict(location: StoreLocation) -> None:
    """Raise ConfigError when another table is at, above or below the location."""
    conflict = find_table_conflict(location)
    if conflict is not None:
        raise ConfigError(f"the location is {conflict}; choose another one", table=location.uri)


def find_table_around(location: StoreLocation) -> str | None:
    """The table whose folder a location is or lies in, in words; None when none is seen.

    What may not be read counts as no table.
    """
    found = table_around(location, itself=True)
    return None if found is None else str(found)
