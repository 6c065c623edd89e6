"""A server that looks like a Hive metastore and answers as a test says; it keeps what it is asked.

It speaks Thrift with PyIceberg's classes, so that our own requests are read by code of others.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TMemoryBuffer

Answer: TypeAlias = Callable[[Any], Any]
"""From the arguments of a call to its result: a value, an error that the call declares, or bytes
that are sent as they are."""


@dataclass(slots=True)
class HostileMetastore:
    """Serves within a `with` block. A call without an answer of a test's is unknown."""

    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    connections: int = 0
    _server: socket.socket = field(init=False)

    @property
    def port(self) -> int:
        return int(self._server.getsockname()[1])

    def uri(self, host: str = "127.0.0.1") -> str:
        return f"thrift://{host}:{self.port}"

    def __enter__(self) -> Self:
        self._server = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *failure: object) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        transport = TSocket()
        transport.setHandle(connection)
        protocol = TBinaryProtocol(transport)
        with connection, suppress(Exception):
            while True:
                name, _, number = protocol.readMessageBegin()
                arguments = getattr(ThriftHiveMetastore, f"{name}_args")()
                arguments.read(protocol)
                self.asked.append((name, arguments))
                connection.sendall(self._answer(name, number, arguments))

    def _answer(self, name: str, number: int, arguments: Any) -> bytes:
        answer = self.answers.get(name)
        if answer is None:
            kind = TApplicationException.UNKNOWN_METHOD
            unknown = TApplicationException(kind, f"Invalid method name: '{name}'")
            return _message(name, TMessageType.EXCEPTION, number, unknown)
        found = answer(arguments)
        return found if isinstance(found, bytes) else replied(name, found, number)


def replied(name: str, found: Any, number: int = 0) -> bytes:
    """A reply to a call, as Thrift has it."""
    result = getattr(ThriftHiveMetastore, f"{name}_result")()
    of_error = [
        entry[2]
        for entry in result.thrift_spec
        if entry and entry[2] != "success" and isinstance(found, entry[3][0])
    ]
    setattr(result, of_error[0] if of_error else "success", found)
    return _message(name, TMessageType.REPLY, number, result)


def stored_table(database: str, name: str, **parameters: str) -> Any:
    """A table of Hive's with two columns and these parameters."""
    columns = [ttypes.FieldSchema("id", "bigint", ""), ttypes.FieldSchema("v", "string", "")]
    descriptor = ttypes.StorageDescriptor(
        cols=columns, location="s3://lake/t", serdeInfo=ttypes.SerDeInfo(parameters={})
    )
    return ttypes.Table(
        dbName=database,
        tableName=name,
        sd=descriptor,
        partitionKeys=[],
        parameters=dict(parameters),
        tableType="EXTERNAL_TABLE",
    )


def _message(name: str, kind: int, number: int, content: Any) -> bytes:
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin(name, kind, number)
    content.write(protocol)
    return bytes(buffer.getvalue())
