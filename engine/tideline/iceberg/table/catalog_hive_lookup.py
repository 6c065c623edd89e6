"""Iceberg tables of a Hive metastore, looked at without PyIceberg's classes of Hive's protocol.

It is what a process opens that looks at the metastores of others, as the operator does: to an
address that was checked, as nobody but whom the resource names, and for reading alone.

Needs the extra `iceberg`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.hive.address import hive_addresses, user_and_groups
from tideline.hive.lookup import MetastoreLookup, StoredTable
from tideline.iceberg.table.catalog_files import OwnFiles
from tideline.trust.catalog_access import CatalogAccess
from tideline.trust.catalog_properties import HIVE_USER, KERBEROS, URI
from tideline.trust.foreign_words import quoted

_ICEBERG = "iceberg"
_TYPE, _LOCATION = "table_type", "metadata_location"


class LookedUpHiveCatalog(OwnFiles, NoopCatalog):
    """A Hive metastore for the author of its address; see `Transport` for `timeout_s`."""

    def __init__(
        self, name: str, given: Mapping[str, Any], access: CatalogAccess, timeout_s: float
    ) -> None:
        super().__init__(name, **given)
        refuse_kerberos(given)
        self._lookup = MetastoreLookup(
            hive_addresses(given[URI]),
            timeout_s,
            user_and_groups(str(given.get(HIVE_USER, ""))),
            access.connect,
        )

    def load_table(self, identifier: str | Identifier) -> Table:
        """Raises NoSuchTableError, UnsupportedTableError for what is no Iceberg table, and what the
        metastore and stores raise."""
        database, name = Catalog.identifier_to_database_and_table(identifier, NoSuchTableError)
        found = self._lookup.table(database, name)
        if found is None:
            raise NoSuchTableError("the metastore has no such table")
        return self._table_at((database, name), metadata_location(database, name, found.parameters))

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """Databases have no databases in them."""
        return [] if namespace else [(name,) for name in self._lookup.databases()]

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """The Iceberg tables of a database, none of one that is not there."""
        database = Catalog.identifier_to_database(namespace, NoSuchNamespaceError)
        return list(iceberg_tables(database, self._lookup.tables(database)))


def iceberg_tables(database: str, found: Iterator[StoredTable]) -> Iterator[Identifier]:
    """The names of those of a database's tables that are Iceberg tables."""
    return ((database, table.name) for table in found if _kind(table.parameters) == _ICEBERG)


def metadata_location(database: str, name: str, parameters: Mapping[str, str]) -> str:
    """Where the newest metadata of a table is. Raises UnsupportedTableError for what is no Iceberg
    table."""
    kind, location = _kind(parameters), parameters.get(_LOCATION)
    subject = quoted(f"{database}.{name}")
    if kind != _ICEBERG:
        what = f"a table of {quoted(parameters[_TYPE])}" if kind else "no Iceberg table"
        message = f"what the metastore has of this name is {what}"
        raise UnsupportedTableError(message, value=subject)
    if not location:
        raise UnsupportedTableError(f"the metastore has no {_LOCATION} of it", value=subject)
    return location


def refuse_kerberos(given: Mapping[str, Any]) -> None:
    """Raise ConfigError where properties ask for it."""
    if str(given.get(KERBEROS, "")).lower() in ("true", "1"):
        message = (
            f"{KERBEROS}: Kerberos is not supported: name a metastore without it, or a catalog "
            "that speaks Iceberg's REST protocol in front of it"
        )
        raise ConfigError(message)


def _kind(parameters: Mapping[str, str]) -> str:
    return str(parameters.get(_TYPE) or "").lower()
