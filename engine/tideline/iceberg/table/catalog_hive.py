"""PyIceberg's Hive catalog, over our own connection. Needs the extra `hive`.

What its client leaves open is mended here:

1. A commit under Hive's lock is lost where the lock ends while it is held, or where another writer
   takes none: so it says which metadata it replaces, which Hive compares in the transaction of the
   change from 2.3.10 and 4 on. Earlier ones do not know the parameter, and have the lock alone.
2. A lock that a broken connection leaves is given back by another: nobody waits until it ends.
3. A change that Hive refuses is a refusal, not a commit that may have taken place.
4. Properties that are longer than Hive stores are left to the metadata file.
5. Hive 2 stores its later versions' type of moments, and then cannot change the table: unless
   `hive.hive2-compatible` says otherwise, they are `timestamp`.
6. PyIceberg looks for its lock after 2, 4 and 8 seconds, and all others wait as long.
7. A table of Hive's own is named as one, and a process needs no name on its machine.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from hive_metastore import ttypes
from hive_metastore.ThriftHiveMetastore import Client
from pyiceberg.catalog import EXTERNAL_TABLE
from pyiceberg.catalog import hive as pyiceberg_hive
from pyiceberg.catalog.hive import (
    HIVE2_COMPATIBLE,
    LOCK_CHECK_MAX_WAIT_TIME,
    LOCK_CHECK_RETRIES,
    HiveCatalog,
)
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    ValidationError,
)
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier, Properties
from pyiceberg.utils.properties import property_as_bool
from thrift.Thrift import TApplicationException, TException

from tideline.errors import TidelineError
from tideline.hive.address import HiveAddress, hive_addresses, user_and_groups
from tideline.hive.connection import (
    REFUSALS,
    TIMEOUT_S,
    CheckedClient,
    Connection,
    has_moved_on,
    user_name,
    words_of,
)
from tideline.hive.lookup import MetastoreLookup
from tideline.hive.wire import UNKNOWN_METHOD, no_such_call
from tideline.iceberg.table.catalog_files import OwnFiles, check_overridden
from tideline.iceberg.table.catalog_hive_lookup import (
    iceberg_tables,
    metadata_location,
    refuse_kerberos,
)
from tideline.trust.catalog_properties import HIVE_USER, URI
from tideline.trust.foreign_words import quoted

_log = logging.getLogger(__name__)
# Each look at a lock that another writer has is a warning there.
logging.getLogger(pyiceberg_hive.__name__).setLevel(logging.ERROR)

_OVERRIDDEN = (
    "_create_hive_client",
    "_create_lock_request",
    "_convert_hive_into_iceberg",
    "_convert_iceberg_into_hive",
    "list_tables",
)
_ASKING = (
    "commit_table",
    "create_namespace",
    "drop_table",
    "list_namespaces",
    "load_namespace_properties",
    "load_table",
    "register_table",
)
check_overridden(HiveCatalog, *_OVERRIDDEN, *_ASKING)

_METADATA, _PREVIOUS = "metadata_location", "previous_metadata_location"
_VALUE_MAX = 4000
"""As many characters of a parameter Hive's own schema keeps in some databases."""
_DEFAULTS = {HIVE2_COMPATIBLE: "true", LOCK_CHECK_MAX_WAIT_TIME: "0.1", LOCK_CHECK_RETRIES: "300"}


class BoundedHiveCatalog(OwnFiles, HiveCatalog):
    """A Hive metastore with the locations of metadata files."""

    def __init__(self, name: str, **properties: str) -> None:
        refuse_kerberos(properties)
        super().__init__(name, **{**_DEFAULTS, **properties})
        self._lookup = MetastoreLookup(
            hive_addresses(properties[URI]), TIMEOUT_S, _user(properties)
        )

    @staticmethod
    def _create_hive_client(properties: dict[str, str]) -> Any:
        return _Connections(hive_addresses(properties[URI]), _user(properties))

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """PyIceberg's own asks for all tables at once, with all their columns."""
        database = self.identifier_to_database(namespace, NoSuchNamespaceError)
        return list(iceberg_tables(database, self._lookup.tables(database)))

    def register_table(
        self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False
    ) -> Table:
        try:
            return super().register_table(identifier, metadata_location, overwrite)
        except KeyError as error:
            # What its table of types lacks.
            raise ValidationError(f"Hive has no type for {quoted(error)}") from error

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        found = super().load_namespace_properties(namespace)
        return {name: text for name, text in found.items() if text is not None}

    def _create_lock_request(self, database_name: str, table_name: str) -> Any:
        component = ttypes.LockComponent(
            level=ttypes.LockLevel.TABLE,
            type=ttypes.LockType.EXCLUSIVE,
            dbname=database_name,
            tablename=table_name,
            isTransactional=True,
        )
        return ttypes.LockRequest(
            component=[component], user=user_name(), hostname=socket.gethostname()
        )

    def _convert_hive_into_iceberg(self, table: Any) -> Table:
        metadata_location(table.dbName, table.tableName, table.parameters or {})
        return super()._convert_hive_into_iceberg(table)

    def _convert_iceberg_into_hive(self, table: Table) -> Any:
        database, name = self.identifier_to_database_and_table(table.name(), NoSuchTableError)
        now_s = int(time.time())
        return ttypes.Table(
            dbName=database,
            tableName=name,
            owner=table.properties.get("owner") or user_name(),
            createTime=now_s,
            lastAccessTime=now_s,
            sd=pyiceberg_hive._construct_hive_storage_descriptor(
                table.schema(),
                table.location(),
                property_as_bool(self.properties, HIVE2_COMPATIBLE, True),
            ),
            tableType=EXTERNAL_TABLE,
            parameters=pyiceberg_hive._construct_parameters(
                metadata_location=table.metadata_location, metadata_properties=table.properties
            ),
        )


class HiveFailureError(Exception):
    """An error of Hive's, or of the connection, in words."""


def _in_words(method: Callable[..., Any]) -> Callable[..., Any]:
    """Hive's own errors cannot be changed, which context managers do on their way."""

    @wraps(method)
    def in_words(*given: Any, **named: Any) -> Any:
        try:
            return method(*given, **named)
        except TException as error:
            if isinstance(error, TApplicationException) and error.type == UNKNOWN_METHOD:
                raise no_such_call(words_of(error)) from error
            raise HiveFailureError(f"{type(error).__name__}: {words_of(error)}") from error

    return in_words


def _user(properties: Mapping[str, str]) -> tuple[str, ...]:
    return user_and_groups(properties.get(HIVE_USER) or "")


for _name in _ASKING:
    setattr(BoundedHiveCatalog, _name, _in_words(getattr(BoundedHiveCatalog, _name)))


class _Connections:
    """What PyIceberg opens for each of its calls: a client, of the thread that opens it."""

    def __init__(self, addresses: tuple[HiveAddress, ...], user: tuple[str, ...]) -> None:
        self._addresses = addresses
        self._user = user
        self._opened = threading.local()

    def __enter__(self) -> _GuardedClient:
        opened = Connection(self._addresses, _GuardedClient, self._user)
        client = opened.__enter__()
        client.addresses, client.user = self._addresses, self._user
        self._opened.now = opened
        return client

    def __exit__(self, *failure: Any) -> None:
        self._opened.now.__exit__(*failure)


class _GuardedClient(CheckedClient):
    addresses: tuple[HiveAddress, ...] = ()
    user: tuple[str, ...] = ()

    def create_table(self, tbl: Any) -> None:
        self._changed(tbl, lambda: Client.create_table(self, tbl))

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: Any, environment_context: Any
    ) -> None:
        is_renamed = (new_tbl.dbName, new_tbl.tableName) != (dbname, tbl_name)
        replaced = None if is_renamed else new_tbl.parameters.get(_PREVIOUS)
        if replaced is not None:
            environment_context.properties["expected_parameter_key"] = _METADATA
            environment_context.properties["expected_parameter_value"] = replaced
        self._changed(
            new_tbl,
            lambda: Client.alter_table_with_environment_context(
                self, dbname, tbl_name, new_tbl, environment_context
            ),
        )

    def unlock(self, rqst: Any) -> None:
        """What was done under the lock has its own outcome: this one only says what is left."""
        try:
            try:
                Client.unlock(self, rqst)
            except (TException, TidelineError):
                with Connection(self.addresses, Client, self.user) as client:
                    client.unlock(rqst)
        except (ttypes.NoSuchLockException, ttypes.TxnAbortedException):
            return
        except (TException, TidelineError) as error:
            _log.warning(
                "a lock of Hive was not given back, and ends in minutes: %s", quoted(error)
            )

    def _changed(self, table: Any, change: Callable[[], None]) -> None:
        parameters = table.parameters or {}
        table.parameters = {
            name: text for name, text in parameters.items() if len(text) <= _VALUE_MAX
        }
        try:
            change()
        except REFUSALS as error:
            raise ValidationError(f"the metastore refuses: {quoted(error.message)}") from error
        except ttypes.MetaException as error:
            if has_moved_on(error):
                raise CommitFailedException(quoted(error.message)) from error
            raise
