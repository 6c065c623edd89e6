"""Definitions of indexes, which Hudi keeps apart from the partitions of the metadata table.

A query of Hudi's looks for secondary and expression indexes in the definitions alone. One whose
partition is gone, or is no longer kept up to date, fails the query or hides rows. So definitions of
these two kinds go before their partitions do. Died in between: the list still names the partition,
and it goes with the next commit.

In version 9 each definition says its own version, and one without is refused; earlier versions have
the first alone. When a table's version changes the indexes go with the metadata table, and what is
left of the definitions is adapted.

A change is written only where the file is still the one that was read: a process that was paused
until its lock was taken over takes no definition of others away.
Source: Hudi's SecondaryIndexSupport, ExpressionIndexSupport, HoodieIndexMetadata,
UpgradeDowngradeUtils.dropNonV1IndexPartitions (1.2).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tideline.bounded.parsing import parse_json
from tideline.errors import ConflictError, CorruptTableError, ObjectNotFoundError
from tideline.hudi.metadata_table.index_names import BELIEVED
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.retry import RetryPolicy
from tideline.storage.lock import Guard, unguarded
from tideline.storage.replacing import replace_unchanged

INDEX_DEFINITIONS_PATH = ".hoodie/.index_defs/index.json"
"""Where the property `hoodie.table.index.defs.path` has them by default."""
DEFINED = "indexDefinitions"

FIRST_VERSION, SECOND_VERSION = "V1", "V2"
"""Of an index: the only one before table version 9, and the one that statistics and secondary
indexes are made in from there on."""
_RETRIES = RetryPolicy(retries=4, wait_ms_min=50)
DEFINITIONS_PATH_PROPERTY = "hoodie.table.index.defs.path"


def definitions_path(table: HoodieTable) -> str:
    """Where the definitions are, or would be; a path outside of `.hoodie` is not followed."""
    path = table.config.properties.get(DEFINITIONS_PATH_PROPERTY, "").strip()
    is_own = path.startswith(".hoodie/") and ".." not in path.split("/")
    return path if is_own else INDEX_DEFINITIONS_PATH


def read_definitions(table: HoodieTable) -> dict[str, Any]:
    """The definitions by name; empty where there are none.

    Raises CorruptTableError for what is no JSON, and stays so: in a folder Hudi writes the file
    where it lies.
    """
    return _read(table)[0]


def believed_without_partition(table: HoodieTable, kept: Collection[str]) -> tuple[str, ...]:
    """The indexes that queries use by their definitions alone and that are not among the partitions
    `kept`. Raises as `read_definitions`."""
    return _believed(read_definitions(table), kept)


def drop_definitions(
    table: HoodieTable, kept: Collection[str] = (), guard: Guard = unguarded
) -> tuple[str, ...]:
    """Drop the definitions of such indexes; the names of what was there. Call under the lock.

    Raises CorruptTableError where they cannot be read: then queries cannot, either.
    """
    defined, version = _read(table)
    gone = _believed(defined, kept)
    if gone:
        left = {name: item for name, item in defined.items() if name not in gone}
        _store(table, left, version, guard)
    return gone


def define(
    table: HoodieTable, name: str, definition: Mapping[str, Any], guard: Guard = unguarded
) -> None:
    """Write the definition of one index, beside those of others. Call under the lock.

    Raises CorruptTableError where these cannot be read, ConflictError where another process
    changes them.
    """
    defined, version = _read(table)
    _store(table, {**defined, name: dict(definition)}, version, guard)


def undefine(table: HoodieTable, names: Collection[str], guard: Guard = unguarded) -> None:
    """Drop the definitions of indexes that are not listed any more. Call under the lock; raises as
    `define`."""
    defined, version = _read(table)
    if not defined.keys().isdisjoint(names):
        left = {name: item for name, item in defined.items() if name not in names}
        _store(table, left, version, guard)


def adapt_definitions(table: HoodieTable, version: int) -> None:
    """Write them as a table of `version` needs them. Call under the table lock, before the version
    changes. Died after: the version that the table still has reads them as well.

    Raises CorruptTableError for definitions that are not understood.
    """
    path = definitions_path(table)
    if table.store.head(path) is None:
        return
    content = parse_json(table.store.get(path), path=path, what="index definitions")
    defined = content.get(DEFINED) if isinstance(content, dict) else None
    if not isinstance(defined, dict) or not all(
        isinstance(item, dict) for item in defined.values()
    ):
        raise CorruptTableError(
            "the definitions of indexes are not understood", table=table.uri, path=path
        )
    adapted = _adapted(defined, version)
    if adapted != defined:
        body = json.dumps({**content, DEFINED: adapted}, indent=2)
        table.store.put(path, body.encode())


def has_option(table: HoodieTable, index: str, option: str) -> bool:
    """Whether an option of an index is true. Raises as `read_definitions`."""
    found: Any = read_definitions(table)
    for name in (index, "indexOptions"):
        found = found.get(name) if isinstance(found, Mapping) else None
    value = found.get(option, "false") if isinstance(found, Mapping) else "false"
    return str(value).strip().lower() == "true"


def _read(table: HoodieTable) -> tuple[dict[str, Any], str | None]:
    """The definitions, and the version of their file, None where there is none."""
    path = definitions_path(table)

    def parsed() -> tuple[Any, str]:
        there = table.store.get_versioned(path)
        return parse_json(there.body, path=path, what="index definitions"), there.version

    try:
        content, version = _RETRIES.call(parsed, CorruptTableError, table.clock)
    except ObjectNotFoundError:
        return {}, None
    found = content.get(DEFINED) if isinstance(content, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else {}, version


def _store(
    table: HoodieTable, defined: Mapping[str, Any], version: str | None, guard: Guard
) -> None:
    """Write them in the place of those of this version. Raises ConflictError where these have
    changed."""
    guard()
    path = definitions_path(table)
    body = json.dumps({DEFINED: defined}, indent=2).encode()
    if replace_unchanged(table.store, path, body, version) is None:
        raise ConflictError(
            "another process changed the definitions of indexes first: try again",
            table=table.uri,
            path=path,
        )


def _believed(defined: Iterable[str], kept: Collection[str]) -> tuple[str, ...]:
    named = (name for name in defined if name.startswith(BELIEVED))
    return tuple(sorted(set(named) - set(kept)))


def _adapted(
    defined: Mapping[str, Mapping[str, Any]], version: int
) -> dict[str, Mapping[str, Any]]:
    """Definitions by name, as a table of `version` has them."""
    if version >= 9:
        return {
            name: {**item, "version": item.get("version") or FIRST_VERSION}
            for name, item in defined.items()
        }
    return {
        name: item
        for name, item in defined.items()
        if (item.get("version") or FIRST_VERSION) == FIRST_VERSION
    }
