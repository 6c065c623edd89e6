"""One connection to a Hive metastore, within the limits of `Transport`. Needs the extra `hive`.

The first of several servers that answers is taken. An answer has two minutes until its next bytes
come, as a metastore may take long to change the columns of many partitions.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, cast

from hive_metastore import ttypes
from hive_metastore.ThriftHiveMetastore import Client
from thrift.protocol.TBinaryProtocol import TBinaryProtocol

from tideline.hive.address import HiveAddress
from tideline.hive.lookup import another_table, same_name
from tideline.hive.transport import Transport, check_text
from tideline.trust.foreign_words import quoted

C = TypeVar("C")

REFUSALS: Final = (ttypes.InvalidOperationException, ttypes.InvalidObjectException)
USER: Final = "HADOOP_USER_NAME"
TIMEOUT_S: Final = 120.0
_NOBODY = "tideline"
_MOVED_ON = "The table has been modified"


class Connection(Generic[C]):
    """A client of the first server that answers, for the length of a `with` block; `kind` is Hive's
    own class, or one made of it. `user` and its groups are what it is called there, else what the
    environment says. Raises Thrift's errors, and as `Transport`.

    Hive's errors cannot be changed, which generators as context managers do.
    """

    def __init__(
        self,
        addresses: tuple[HiveAddress, ...],
        kind: Callable[[Any], C],
        user: tuple[str, ...] = (),
    ) -> None:
        self._addresses = addresses
        self._kind = kind
        self._user = user
        self._transport: Any = None

    def __enter__(self) -> C:
        self._transport = Transport.opened(self._addresses, TIMEOUT_S)
        client: Any = self._kind(_CountingProtocol(self._transport))
        user, *groups = self._user or (os.environ.get(USER, ""),)
        if user:
            try:
                client.set_ugi(user, groups)
            except BaseException:
                self._transport.close()
                raise
        return cast(C, client)

    def __exit__(self, *failure: object) -> None:
        self._transport.close()


class CheckedClient(Client):  # type: ignore[misc]
    """Hive's own client, which is not taken in by an answer about another table."""

    def get_table(self, dbname: str, tbl_name: str) -> Any:
        found = Client.get_table(self, dbname, tbl_name)
        if not (same_name(found.dbName, dbname) and same_name(found.tableName, tbl_name)):
            raise another_table()
        return found


class _CountingProtocol(TBinaryProtocol):  # type: ignore[misc]
    """Thrift's own, with the limits on what an answer may hold."""

    def _check_string_length(self, length: int) -> None:
        check_text(length)

    def _check_container_length(self, length: int) -> None:
        TBinaryProtocol._check_length(None, length)
        self.trans.count(length)


def user_name() -> str:
    """What this process is called in a metastore; it may have no name on its machine."""
    return os.environ.get(USER) or _NOBODY


def has_moved_on(error: Any) -> bool:
    """Whether Hive refused a change because the table is not as the change expects it."""
    return _MOVED_ON in str(error.message)


def words_of(error: Exception) -> str:
    """Those of an error of Hive's or Thrift's, for a message."""
    return quoted(getattr(error, "message", None) or error)
