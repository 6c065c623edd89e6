"""Iceberg tables in AWS's Glue Data Catalog: PyIceberg's interface over Tideline's own requests.

PyIceberg's own Glue catalog needs boto3, which the images have no room for, signs with the
process's identity for any author of the address, and takes answers of any size.

Glue keeps the location of the newest metadata file. A commit writes the next file, then updates the
table under the version that was read (`VersionId`): another writer's commit in between is refused.
A process that dies before the update leaves a file that nothing names, after it the commit is
there. An answer that is lost is settled by `CatalogTable`.

Needs the extra `iceberg`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    TooManyRequestsError,
)
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from pyiceberg.utils.properties import property_as_bool

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.glue.address import GlueAddress
from tideline.glue.client import Answer, GlueClient, Refusal, Refused
from tideline.glue.keys import Keys, RenewedKeys, given_keys, keys_of_process
from tideline.glue.table_input import EXTERNAL_TABLE, as_input
from tideline.iceberg.table.catalog_files import OwnFiles
from tideline.iceberg.table.catalog_name import property_variable
from tideline.iceberg.table.catalog_update import metadata_document
from tideline.iceberg.table.glue_columns import glue_columns
from tideline.storage.egress.route import EgressRoute
from tideline.trust.catalog_access import CatalogAccess
from tideline.trust.foreign_words import quoted

_ICEBERG = "ICEBERG"
_TYPE, _LOCATION, _PREVIOUS = "table_type", "metadata_location", "previous_metadata_location"
_PROVIDER = "spark.sql.sources.provider"
_SKIP_ARCHIVE = "glue.skip-archive"
_PAIR = ("access_key_id", "secret_access_key")


class BoundedGlueCatalog(OwnFiles, NoopCatalog):
    """A Glue catalog for the author of its address; each answer has `timeout_s`."""

    def __init__(
        self, name: str, given: Mapping[str, Any], access: CatalogAccess, timeout_s: float
    ) -> None:
        super().__init__(name, **given)
        environment = os.environ if access.is_of_process else None
        address = GlueAddress.of(given, environment)
        self._client = GlueClient(
            address,
            _keys(name, given, access, address.region),
            route_to=_route_to(access),
            timeout_s=timeout_s,
        )

    def load_table(self, identifier: str | Identifier) -> Table:
        """Raises NoSuchTableError, UnsupportedTableError for what is no Iceberg table, and what the
        client and stores raise."""
        return self._table(identifier, self._entry(identifier))

    def commit_table(
        self, table: Table, requirements: tuple[Any, ...], updates: tuple[Any, ...]
    ) -> CommitTableResponse:
        """Raises as `load_table`, and CommitFailedException when another writer was first."""
        entry = self._entry(table.name())
        current = self._table(table.name(), entry)
        staged = self._update_and_stage_table(current, table.name(), requirements, updates)
        # PyIceberg's own method refuses to write version 3.
        document = metadata_document(staged.metadata)
        files = self.files
        if files is None:
            raise ValueError("no table was opened")
        files.write(staged.metadata_location, json.dumps(document).encode())
        if not entry.get("VersionId"):
            # Without it a commit in between would be overwritten.
            raise BadRequestError("Glue's answer has no version of the table")
        table_input = {
            **as_input(entry),
            **_input(_named(table.name())[1], staged.metadata_location, document, entry),
        }
        table_input["Parameters"][_PREVIOUS] = current.metadata_location
        self._done(
            "UpdateTable",
            DatabaseName=_named(table.name())[0],
            TableInput=table_input,
            VersionId=entry["VersionId"],
            SkipArchive=property_as_bool(self.properties, _SKIP_ARCHIVE, True),
        )
        return CommitTableResponse.model_validate(
            {"metadata": staged.metadata, "metadata-location": staged.metadata_location}
        )

    def register_table(
        self,
        identifier: str | Identifier,
        metadata_location: str,
        overwrite: bool = False,  # noqa: ARG002 -- PyIceberg's own method
    ) -> Table:
        """Raises TableAlreadyExistsError, NoSuchNamespaceError, and as `load_table`."""
        database, name = _named(identifier)
        table = self._table_at((database, name), metadata_location)
        document = metadata_document(table.metadata)
        table_input = _input(name, metadata_location, document, {})
        self._done("CreateTable", DatabaseName=database, TableInput=table_input)
        return table

    def drop_table(self, identifier: str | Identifier) -> None:
        """Raises NoSuchTableError; the table's files stay."""
        database, name = _named(identifier)
        self._done("DeleteTable", DatabaseName=database, Name=name)

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        database = Catalog.identifier_to_database(namespace)
        found = self._client.call("GetDatabase", {"Name": database})
        if isinstance(found, Refused) and found.reason is Refusal.MISSING:
            return False
        _checked(found)
        return True

    def create_namespace(
        self,
        namespace: str | Identifier,
        properties: Properties = EMPTY_DICT,  # noqa: ARG002
    ) -> None:
        """Raises NamespaceAlreadyExistsError."""
        database = Catalog.identifier_to_database(namespace)
        found = self._client.call("CreateDatabase", {"DatabaseInput": {"Name": database}})
        if isinstance(found, Refused) and found.reason is Refusal.EXISTS:
            raise NamespaceAlreadyExistsError(str(found))
        _checked(found)

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """Databases have no databases in them."""
        if namespace:
            return []
        return [(str(found["Name"]),) for found in self._listed("GetDatabases", "DatabaseList")]

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """The Iceberg tables of a database. Raises NoSuchNamespaceError."""
        database = Catalog.identifier_to_database(namespace, NoSuchNamespaceError)
        listed = self._listed("GetTables", "TableList", DatabaseName=database)
        return [(database, str(found["Name"])) for found in listed if _kind(found) == _ICEBERG]

    def _entry(self, identifier: str | Identifier) -> Answer:
        database, name = _named(identifier)
        found = _checked(self._client.call("GetTable", {"DatabaseName": database, "Name": name}))
        entry = found.get("Table")
        if not isinstance(entry, dict):
            raise UnsupportedTableError("Glue's answer has no table", value=self.name)
        return entry

    def _table(self, identifier: str | Identifier, entry: Answer) -> Table:
        kind, parameters = _kind(entry), _parameters(entry)
        if kind != _ICEBERG:
            provider = parameters.get(_PROVIDER) or kind or entry.get("TableType") or "nothing"
            shown = quoted(provider)
            message = f"the table in Glue is no Iceberg table, but one of {shown}: name another"
            raise UnsupportedTableError(message, table=quoted(".".join(_named(identifier))))
        location = parameters.get(_LOCATION)
        if not location:
            message = (
                f"the table in Glue has no {_LOCATION}: register its newest metadata file there"
            )
            raise UnsupportedTableError(message, table=quoted(".".join(_named(identifier))))
        return self._table_at(_named(identifier), str(location))

    def _listed(self, action: str, member: str, **request: str) -> Iterator[Answer]:
        for page in self._client.pages(action, request, member):
            if isinstance(page, Refused) and page.reason is Refusal.MISSING:
                raise NoSuchNamespaceError(str(page))
            yield from _checked(page)

    def _done(self, action: str, **request: Any) -> None:
        _checked(self._client.call(action, request))


def _input(
    name: str, location: str, document: Mapping[str, Any], entry: Mapping[str, Any]
) -> dict[str, Any]:
    """What Glue keeps of a table's metadata, besides what it has already."""
    return {
        "Name": name,
        "TableType": EXTERNAL_TABLE,
        "Parameters": {**_parameters(entry), _TYPE: _ICEBERG, _LOCATION: location},
        "StorageDescriptor": {
            **(entry.get("StorageDescriptor") or {}),
            "Columns": glue_columns(document),
            "Location": document["location"],
        },
    }


def _checked(found: Any) -> Any:
    """An answer. Raises what PyIceberg raises for a refusal."""
    if not isinstance(found, Refused):
        return found
    kinds: dict[Refusal, type[Exception]] = {
        Refusal.MISSING: NoSuchTableError,
        Refusal.EXISTS: TableAlreadyExistsError,
        Refusal.CHANGED: CommitFailedException,
        Refusal.DENIED: ForbiddenError,
        Refusal.BUSY: TooManyRequestsError,
        Refusal.INVALID: BadRequestError,
    }
    raise kinds[found.reason](str(found))


def _named(identifier: str | Identifier) -> tuple[str, str]:
    database, name = Catalog.identifier_to_database_and_table(identifier, NoSuchTableError)
    return database, name


def _parameters(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    found = entry.get("Parameters")
    return found if isinstance(found, dict) else {}


def _kind(entry: Mapping[str, Any]) -> str:
    return str(_parameters(entry).get(_TYPE, "")).upper()


def _keys(name: str, given: Mapping[str, Any], access: CatalogAccess, region: str) -> Keys:
    if access.is_of_process:
        return keys_of_process(given, region)
    found = given_keys(given)
    if found is not None:
        return lambda: found
    if access.aws_signer is None:
        variables = (property_variable(name, f"glue__{part}") for part in _PAIR)
        message = (
            f"no credentials for Glue: set {' and '.join(variables)} in the catalog's Secret, or "
            "give the table a LakeStore that has credentials"
        )
        raise ConfigError(message, value=name)
    return RenewedKeys(access.aws_signer)


def _route_to(access: CatalogAccess) -> Callable[[str], EgressRoute] | None:
    proxy_for = access.proxy_for
    return None if proxy_for is None else lambda url: EgressRoute(proxy_for(url))
