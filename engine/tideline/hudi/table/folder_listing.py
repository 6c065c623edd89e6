"""A listing of a table's folder without the tables that lie below it.

What a table below holds is named like files of this one, so that readers would double its rows and
repairs and services would delete its files. It is left out of every listing, wherever its root is:

1. A folder with a `.hoodie` of its own is the root of a Hudi table.
2. A folder with `metadata/*.metadata.json` is the root of an Iceberg table, unless this table has a
   partition there: Iceberg writes no partition metadata, so those rows are ours.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tideline.hudi.table.partition_metadata import find_partitions
from tideline.storage.nested_tables import HUDI, nested_tables, root_around
from tideline.storage.object_store import ObjectInfo


@dataclass(frozen=True, slots=True)
class FolderListing:
    """The objects of one table, and the roots of the tables below it with their formats."""

    objects: tuple[ObjectInfo, ...]
    nested: Mapping[str, str]

    @classmethod
    def of(cls, listed: Iterable[ObjectInfo]) -> FolderListing:
        """From a listing of the whole folder."""
        objects = tuple(listed)
        nested = _nested(objects)
        if nested:
            objects = tuple(info for info in objects if root_around(info.path, nested) is None)
        return cls(objects, nested)


def _nested(objects: tuple[ObjectInfo, ...]) -> dict[str, str]:
    found = nested_tables(info.path for info in objects)
    hudi = {root: name for root, name in found.items() if name == HUDI}
    if len(hudi) == len(found):
        return found
    own = find_partitions(info.path for info in objects if root_around(info.path, hudi) is None)
    ours = {root for root in found.keys() - hudi.keys() if _holds_one(root, own)}
    return {root: name for root, name in found.items() if root not in ours}


def _holds_one(root: str, partitions: tuple[str, ...]) -> bool:
    return any(part == root or part.startswith(f"{root}/") for part in partitions)
