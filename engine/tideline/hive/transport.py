"""Bytes to and from one server of a Hive metastore, within limits. Needs no extra.

1. Of several addresses the first that takes a connection is used.
2. An answer has `timeout_s` until its next bytes come, and `ANSWER_TIMEOUTS` times as long until
   its last.
3. An answer has the limits of metadata that others wrote: on its bytes, on a text in it, and on the
   values in it, which its decoder counts.
4. A server that speaks TLS, or asks for Kerberos, is named as one.

The methods have the names by which Thrift's protocols call them.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Final, TypeAlias

from tideline.bounded.read_limits import read_limits, too_large, too_many_values
from tideline.errors import ConfigError, StorageUnavailableError
from tideline.hive.address import HiveAddress

Connect: TypeAlias = Callable[[str, int], socket.socket]
"""Gives a connection to a host and port. Raises OSError or StorageUnavailableError."""

ANSWER_TIMEOUTS: Final = 3
TEXT_BYTES_MAX: Final = 16 * 1024 * 1024
UNSUPPORTED: Final = (
    "name a metastore without it, or a proxy of your own in front of it, such as stunnel"
)
_ANSWER = "the metastore's answer"
_CONNECT_S = 20.0
_CHUNK_BYTES = 64 * 1024
_FIRST_OF_THRIFT = 0x80
_FIRST_OF_TLS = 0x15
_FIRST_OF_SASL = range(1, 6)
_FIRST_OF_HTTP = ord("H")


class Transport:
    """A connection; each request is written, flushed, and its answer read."""

    def __init__(self, connected: socket.socket, timeout_s: float) -> None:
        self._socket = connected
        self._timeout_s = timeout_s
        self._out = bytearray()
        self._in = bytearray()
        self._at = 0
        self._left = self._values_left = 0
        self._until_s = 0.0
        self._is_new = True

    @classmethod
    def opened(
        cls,
        addresses: tuple[HiveAddress, ...],
        timeout_s: float,
        connect: Connect | None = None,
    ) -> Transport:
        """One to the first address that takes it. Raises StorageUnavailableError."""
        until_s = time.monotonic() + timeout_s * ANSWER_TIMEOUTS
        failure: Exception | None = None
        for address in addresses:
            if failure is not None and time.monotonic() > until_s:
                break
            try:
                made = (connect or _connected)(address.host, address.port)
            except StorageUnavailableError as error:
                failure = error
            except (OSError, UnicodeError, OverflowError) as error:
                failure = _away(f"no connection to {address}", error)
            else:
                return cls(made, timeout_s)
        assert failure is not None
        raise failure

    def write(self, data: bytes) -> None:
        self._out += data

    def flush(self) -> None:
        """Send what was written. Raises StorageUnavailableError."""
        limits = read_limits()
        if self._at < len(self._in):
            raise StorageUnavailableError(f"{_ANSWER} has more in it than was asked for")
        self._left, self._values_left = limits.object_bytes_max, limits.values_max
        self._until_s = time.monotonic() + self._timeout_s * ANSWER_TIMEOUTS
        sent, self._out = self._out, bytearray()
        try:
            self._socket.settimeout(self._timeout_s)
            self._socket.sendall(sent)
        except OSError as error:
            raise _away("the connection is gone", error) from error

    def readAll(self, size: int) -> bytes:
        """So many bytes of the answer. Raises StorageUnavailableError, UnsupportedTableError for an
        answer beyond the limits, ConfigError for a server of another protocol."""
        end = self._at + size
        while end > len(self._in):
            if self._at:
                del self._in[: self._at]
                self._at, end = 0, size
            self._in += self._received()
        found = bytes(self._in[self._at : end])
        self._at = end
        return found

    def count(self, values: int) -> None:
        """Note that the answer has so many values more. Raises UnsupportedTableError when there are
        too many."""
        self._values_left -= values
        if self._values_left < 0:
            limit = read_limits().values_max
            raise too_many_values(limit - self._values_left, limit, path=_ANSWER)

    def close(self) -> None:
        self._socket.close()

    def _received(self) -> bytes:
        left_s = self._until_s - time.monotonic()
        try:
            if left_s <= 0:
                raise TimeoutError
            self._socket.settimeout(min(self._timeout_s, left_s))
            chunk = self._socket.recv(_CHUNK_BYTES)
        except TimeoutError as error:
            raise _away("no whole answer in time", error) from error
        except OSError as error:
            raise _away(self._on_end(), error) from error
        if not chunk:
            raise _away(self._on_end(), ConnectionResetError()) from ConnectionResetError()
        if self._is_new:
            _refuse_other_protocols(chunk[0])
            self._is_new = False
        self._left -= len(chunk)
        if self._left < 0:
            raise too_large(_ANSWER, read_limits().object_bytes_max)
        return chunk

    def _on_end(self) -> str:
        if not self._is_new:
            return "the connection is gone"
        return (
            "it closes the connection without an answer, as one that was stopped, or that demands "
            "Kerberos or TLS, which are not supported"
        )


def check_text(size_bytes: int) -> None:
    """Raise UnsupportedTableError for a text of an answer that is too long, and
    StorageUnavailableError for one of no length."""
    if size_bytes < 0:
        raise StorageUnavailableError(f"{_ANSWER} cannot be read: a length below zero")
    limit = min(TEXT_BYTES_MAX, read_limits().object_bytes_max)
    if size_bytes > limit:
        raise too_large(f"a text in {_ANSWER}", limit)


def _connected(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), _CONNECT_S)


def _away(reason: str, cause: BaseException) -> StorageUnavailableError:
    error = StorageUnavailableError(f"the metastore does not answer: {reason}")
    error.__cause__ = cause
    return error


def _refuse_other_protocols(first: int) -> None:
    if first == _FIRST_OF_THRIFT:
        return
    if first == _FIRST_OF_TLS:
        what = "speaks TLS (hive.metastore.use.SSL)"
    elif first in _FIRST_OF_SASL:
        what = "demands Kerberos (hive.metastore.sasl.enabled)"
    elif first == _FIRST_OF_HTTP:
        what = "speaks HTTP (hive.metastore.server.thrift.transport.mode)"
    else:
        raise ConfigError("what answers is no Hive metastore: correct its address")
    raise ConfigError(f"the metastore {what}, which is not supported: {UNSUPPORTED}")
