"""The tables of a catalog, namespace by namespace. Needs the extra `iceberg`."""

from __future__ import annotations

from collections import deque

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import BadRequestError, NoSuchNamespaceError

from tideline.errors import ConfigError
from tideline.iceberg.table.catalog_opening import asking_catalog
from tideline.iceberg.table.found_table import FoundTable

NAMESPACES_MAX = 10_000
TABLES_MAX = 1_000_000
_REMEDY = "write a LakeTable for each table that matters"
UNWRITABLE_NAME = "its name has a dot or a blank in it, which a LakeTable cannot name"


def list_tables(catalog: Catalog) -> tuple[FoundTable, ...]:
    """Every table of every namespace, by name. A namespace that is dropped meanwhile has none.

    Raises ConfigError when there are too many namespaces or tables, and StorageUnavailableError.
    """
    with asking_catalog(value=catalog.name):
        return tuple(sorted(_listed(catalog)))


def _listed(catalog: Catalog) -> set[FoundTable]:
    found: set[FoundTable] = set()
    seen: set[tuple[str, ...]] = set()
    waiting = deque(catalog.list_namespaces())
    while waiting:
        namespace = waiting.popleft()
        if namespace in seen:
            continue
        seen.add(namespace)
        if len(seen) > NAMESPACES_MAX:
            message = f"the catalog has more than {NAMESPACES_MAX:,} namespaces: {_REMEDY}"
            raise ConfigError(message, value=catalog.name)
        try:
            found.update(_found(tuple(table)) for table in catalog.list_tables(namespace))
            waiting.extend(_nested(catalog, namespace))
        except NoSuchNamespaceError:
            continue
        if len(found) > TABLES_MAX:
            message = f"the catalog has more than {TABLES_MAX:,} tables: {_REMEDY}"
            raise ConfigError(message, value=catalog.name)
    return found


def _nested(catalog: Catalog, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
    try:
        return catalog.list_namespaces(namespace)
    except (BadRequestError, NotImplementedError):
        # A catalog whose namespaces have one level.
        return []


def _found(parts: tuple[str, ...]) -> FoundTable:
    is_plain = all(map(_is_plain, parts))
    return FoundTable(parts, "" if is_plain and len(parts) > 1 else UNWRITABLE_NAME)


def _is_plain(part: str) -> bool:
    return bool(part) and part.isprintable() and "." not in part and " " not in part
