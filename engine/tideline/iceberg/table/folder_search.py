"""The Iceberg tables in a folder that no catalog keeps: `namespace/name/metadata/v1.metadata.json`.

1. Folders are read one level at a time, a few of them concurrently. What lies in a table is not.
2. A folder with `metadata/version-hint.text`, or numbered metadata files there, is a table.
3. Other metadata files there are those of a catalog: such a table is found, and says so.
4. A Hudi table is none, although it may be published as an Iceberg table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass

from tideline.errors import ConfigError
from tideline.iceberg.table.file_system_table import FOLDER, HINT_PATH
from tideline.iceberg.table.found_table import FoundTable
from tideline.storage.nested_tables import CONTROL_FOLDER, is_table_metadata_file
from tideline.storage.object_store import ObjectStore

FOLDERS_MAX = 20_000
DEPTH_MAX = 8
WORKERS = 8
KEPT_BY_CATALOG = "a catalog keeps it: name the catalog instead of the folder"
_NUMBERED = re.compile(r"v\d+(\.gz)?\.metadata\.json(\.gz)?")


@dataclass(frozen=True, slots=True)
class _Looked:
    """What one folder is: a table, or the folders in it."""

    table: FoundTable | None = None
    folders: tuple[str, ...] = ()


def find_tables(store: ObjectStore) -> tuple[FoundTable, ...]:
    """The tables below the root of `store`, by name.

    Raises ConfigError when the root is a table itself or there are too many folders, and
    StorageUnavailableError.
    """
    found: list[FoundTable] = []
    waiting: tuple[str, ...] = ("",)
    folders = 0
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="tables") as pool:
        for _ in range(DEPTH_MAX + 1):
            folders += len(waiting)
            if folders > FOLDERS_MAX:
                message = f"more than {FOLDERS_MAX:,} folders: name one further down"
                raise ConfigError(message, path=store.uri)
            looked = _look_at_all(pool, store, waiting)
            found += (candidate.table for candidate in looked if candidate.table is not None)
            waiting = tuple(folder for candidate in looked for folder in candidate.folders)
            if not waiting:
                break
    if any(not found_table.parts for found_table in found):
        raise ConfigError("this folder is a table, not a folder of tables", path=store.uri)
    return tuple(sorted(found))


def _look_at_all(
    pool: ThreadPoolExecutor, store: ObjectStore, folders: Iterable[str]
) -> list[_Looked]:
    # In contexts like the caller's, which the limits on reading belong to.
    looks = [pool.submit(copy_context().run, _look_at, store, folder) for folder in folders]
    try:
        return [look.result() for look in looks]
    finally:
        for look in looks:
            look.cancel()


def _look_at(store: ObjectStore, folder: str) -> _Looked:
    inside = {
        directory.rpartition("/")[2]: directory
        for directory in store.list_directory(folder).directories
    }
    if CONTROL_FOLDER in inside:
        return _Looked()
    parts = tuple(folder.split("/")) if folder else ()
    if FOLDER in inside:
        obstacle = _obstacle(store, inside[FOLDER], f"{folder}/{HINT_PATH}".lstrip("/"))
        if obstacle is not None:
            return _Looked(FoundTable(parts, obstacle))
    return _Looked(folders=tuple(path for name, path in inside.items() if name[0] not in "._"))


def _obstacle(store: ObjectStore, metadata_folder: str, hint: str) -> str | None:
    """Empty for a table, None where there is none."""
    if store.head(hint) is not None:
        return ""
    names = [
        object_info.path.rpartition("/")[2]
        for object_info in store.list_directory(metadata_folder).objects
    ]
    if any(_NUMBERED.fullmatch(name) for name in names):
        return ""
    return KEPT_BY_CATALOG if any(map(is_table_metadata_file, names)) else None
