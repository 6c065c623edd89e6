"""A socket that takes a bounded time and a bounded number of bytes, whatever the server does."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from dataclasses import dataclass

from tideline.ingest.sources.wire.memory_file import memory_file

_CHUNK_BYTES = 1 << 16


class TooMuchError(Exception):
    """The server sends more than is read."""


@dataclass(slots=True)
class BoundedSocket:
    """Until `until_s` of the monotonic clock, and as long as `bytes_left` were not read. What fails
    is an OSError, as errors of TLS are."""

    socket: socket.socket
    until_s: float
    bytes_left: int

    def close(self) -> None:
        """Whatever its state."""
        with contextlib.suppress(OSError):
            self.socket.close()

    def send(self, message: bytes) -> None:
        """All of it. Raises OSError."""
        self._wait()
        self.socket.sendall(message)

    def receive(self, length: int) -> bytes:
        """As many bytes. Raises OSError, TooMuchError."""
        if length > self.bytes_left:
            raise TooMuchError(f"a message of {length:,} bytes")
        self.bytes_left -= length
        received = bytearray()
        while len(received) < length:
            self._wait()
            chunk = self.socket.recv(min(length - len(received), _CHUNK_BYTES))
            if not chunk:
                raise ConnectionError("the server closed the connection")
            received += chunk
        return bytes(received)

    def receive_some(self, length_max: int) -> bytes:
        """What comes next, nothing at the end. Raises OSError, TooMuchError."""
        self._wait()
        chunk = self.socket.recv(min(length_max, _CHUNK_BYTES))
        if len(chunk) > self.bytes_left:
            raise TooMuchError("an answer that does not end")
        self.bytes_left -= len(chunk)
        return chunk

    def encrypt(self, context: ssl.SSLContext, host: str) -> None:
        """Speak TLS from now on. Raises OSError, ValueError for a host that is no name."""
        self._wait()
        self.socket = context.wrap_socket(self.socket, server_hostname=host)

    def _wait(self) -> None:
        left_s = self.until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self.socket.settimeout(left_s)


def load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """A client's own, of PEM texts. Raises OSError, ValueError."""
    with memory_file("certificate", f"{key.strip()}\n{certificate.strip()}\n") as path:
        # An encrypted key would ask a terminal.
        context.load_cert_chain(path, password="")


def words_of(error: Exception) -> str:
    """What failed, without what a server says of itself."""
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return str(error.reason or error.args[-1])
    if isinstance(error, ConnectionError) and error.strerror is None and error.args:
        return str(error.args[0])
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
