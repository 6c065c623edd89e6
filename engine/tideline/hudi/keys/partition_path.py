"""Partition paths made from values: which of them a table can hold.

A value may hold anything, a path may not: it must stay inside the table, keep out of the table's
own folder, and not lie inside another partition, where no reader looks for files.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from tideline.errors import InvalidDataError
from tideline.hudi.table.file_group import join_path, split_path
from tideline.hudi.table.partition_metadata import METADATA_DIRECTORY, PARTITION_METADATA
from tideline.hudi.table.table_config import PROPERTIES_PATH
from tideline.storage.nested_tables import is_in_control_folder
from tideline.storage.object_store import ObjectStore, checked_prefix


def check_partition_paths(paths: Iterable[str], *, table: str | None = None) -> None:
    """Raise InvalidDataError naming a path that cannot be, or the inner one of two that are nested.
    Raise InvalidDataError naming a path that cannot be, or the inner one of two that are nested."""
    ordered = sorted(paths, key=lambda path: f"{path}/")
    for path in ordered:
        _check(path, table)
    for outer, inner in pairwise(ordered):
        if outer and inner.startswith(f"{outer}/"):
            raise _nested(inner, outer, table)


def check_new_partition(store: ObjectStore, path: str) -> None:
    """Raise InvalidDataError when making `path` a partition would nest two of the table's.

    Asks the store a few times when it is no partition yet, once when it is.
    """
    if not path or store.head(join_path(path, PARTITION_METADATA)) is not None:
        return
    outer = path
    while outer := split_path(outer)[0]:
        if store.head(join_path(outer, PARTITION_METADATA)) is not None:
            raise _nested(path, outer, store.uri)
        if store.head(join_path(outer, PROPERTIES_PATH)) is not None:
            raise _in_another_table(path, outer, store.uri)
    for info in store.list(path):
        inner, name = split_path(info.path)
        if is_in_control_folder(info.path):
            raise _in_another_table(path, inner.partition("/.hoodie")[0], store.uri)
        if inner != path and name.startswith(PARTITION_METADATA):
            raise _nested(inner, path, store.uri)


def _check(path: str, table: str | None) -> None:
    try:
        checked_prefix(path)
    except InvalidDataError as error:
        raise _impossible(path, table) from error
    reserved = (METADATA_DIRECTORY, PARTITION_METADATA)
    if path.endswith("/") or any(step.startswith(reserved) for step in path.split("/")):
        raise _impossible(path, table)


def _nested(inner: str, outer: str, table: str | None) -> InvalidDataError:
    return InvalidDataError(
        f"partition {inner!r} lies inside partition {outer!r}, where readers do not look; "
        "url-encode partition values that hold a slash",
        table=table,
        value=inner,
    )


def _in_another_table(partition: str, root: str, table: str) -> InvalidDataError:
    return InvalidDataError(
        f"partition {partition!r} and the other table in {root!r} would share a folder; "
        "move that table",
        table=table,
        value=partition,
    )


def _impossible(path: str, table: str | None) -> InvalidDataError:
    return InvalidDataError(
        "a partition value makes no path inside the table; url-encode the partition values",
        table=table,
        value=ascii(path),
    )
