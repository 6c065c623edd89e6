"""Tables that no LakeTable declares, in the way of one that is to be created. Reads only.

A table inside another would be cleaned, repaired and listed with it; one around others would do the
same to them. Looked for only while there is no table at the place: one small read for each folder
above it, and the beginning of a listing of what lies below.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from tideline.errors import ObjectNotFound, TidelineError
from tideline.ingest.operation import Place
from tideline.storage.nested_tables import describe, is_table_metadata_file, nested_tables
from tideline.storage.object_store import ObjectStore

_LISTED_MAX = 5_000
_PROPERTIES = ".hoodie/hoodie.properties"
_METADATA = "metadata"


def table_in_the_way(place: Place, open_place: Callable[[Place], ObjectStore]) -> str | None:
    """What lies around or below `place`, in words; None when nothing was found.

    Folders above that may not be read are passed over. Raises StorageUnavailable for the place
    itself.
    """
    below = nested_tables(
        found.path for found in itertools.islice(open_place(place).list(), _LISTED_MAX)
    )
    if below:
        root = min(below)
        return f"{describe(root, below)} lies in it; give the table a folder of its own"
    for above in _above(place.uri):
        kind = _table_at(open_place(Place(above, place.options)))
        if kind is not None:
            return f"it lies in the {kind} table at {above}; give the table a folder beside it"
    return None


def _table_at(store: ObjectStore) -> str | None:
    try:
        try:
            store.get(_PROPERTIES)
        except ObjectNotFound:
            objects = store.list_directory(_METADATA).objects
            is_iceberg = any(is_table_metadata_file(found.path) for found in objects)
            return "Iceberg" if is_iceberg else None
        return "Hudi"
    except TidelineError:
        return None


def _above(uri: str) -> list[str]:
    """The folders above a place, from the nearest to the bucket or the root."""
    scheme, _, path = uri.partition("://")
    parts = path.rstrip("/").split("/")
    return [
        f"{scheme}://{'/'.join(parts[:end])}"
        for end in range(len(parts) - 1, 0, -1)
        if parts[:end] != [""]
    ]
