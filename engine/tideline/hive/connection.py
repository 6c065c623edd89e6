"""One connection to a Hive metastore, within limits of time and size. Needs the extra `hive`.

The first of several servers that answers is taken. An answer has no text of more than 16 MiB, and
none comes later than two minutes after what came before: a metastore may take long to change the
columns of many partitions.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, cast

from hive_metastore import ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from tideline.hive.address import HiveAddress
from tideline.trust.foreign_words import quoted

C = TypeVar("C")

REFUSALS: Final = (ttypes.InvalidOperationException, ttypes.InvalidObjectException)
USER: Final = "HADOOP_USER_NAME"
_NOBODY = "tideline"
# What it logs as errors is raised as well.
logging.getLogger("thrift.transport.TSocket").setLevel(logging.CRITICAL)
_MOVED_ON = "The table has been modified"
_TIMEOUT_MS = 120_000
_TEXT_MAX = 16 * 1024 * 1024
_COUNT_MAX = 2_000_000


class Connection(Generic[C]):
    """A client of the first server that answers, for the length of a `with` block; `kind` is Hive's
    own class, or one made of it. Raises Thrift's errors, and OSError.

    Hive's errors cannot be changed, which generators as context managers do.
    """

    def __init__(self, addresses: tuple[HiveAddress, ...], kind: Callable[[Any], C]) -> None:
        self._addresses = addresses
        self._kind = kind
        self._transport: Any = None

    def __enter__(self) -> C:
        self._transport = _opened(self._addresses)
        protocol = TBinaryProtocol(
            self._transport, string_length_limit=_TEXT_MAX, container_length_limit=_COUNT_MAX
        )
        client: Any = self._kind(protocol)
        if user := os.environ.get(USER):
            client.set_ugi(user, [])
        return cast(C, client)

    def __exit__(self, *failure: object) -> None:
        self._transport.close()


def user_name() -> str:
    """What this process is called in a metastore; it may have no name on its machine."""
    return os.environ.get(USER) or _NOBODY


def has_moved_on(error: Any) -> bool:
    """Whether Hive refused a change because the table is not as the change expects it."""
    return _MOVED_ON in str(error.message)


def words_of(error: Exception) -> str:
    """Those of an error of Hive's or Thrift's, for a message."""
    return quoted(getattr(error, "message", None) or error)


def _opened(addresses: tuple[HiveAddress, ...]) -> Any:
    failure: Exception | None = None
    for address in addresses:
        socket = TSocket(address.host, address.port)
        socket.setTimeout(_TIMEOUT_MS)
        transport = TBufferedTransport(socket)
        try:
            transport.open()
        except (TException, OSError) as error:
            failure = error
            continue
        return transport
    assert failure is not None
    raise failure
