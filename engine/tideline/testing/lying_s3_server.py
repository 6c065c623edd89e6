"""A server that answers every request for an object as no S3 does, on the loopback interface.

What it sends never ends; the client has to stop. It counts what was taken from it.
"""

from __future__ import annotations

import socket
import threading
import time
from enum import Enum
from types import TracebackType
from typing import Self

_CHUNK = b"x" * 65_536
_TRICKLE_S = 0.05


class Lie(Enum):
    """What an answer says about its body, which has no end."""

    SHORT = "ten bytes"
    HUGE = "a terabyte"
    NOTHING = "nothing: the connection would end it"
    CHUNKED = "that it comes in chunks"
    RANGE = "that it is the range that was asked for"
    TRICKLE = "a million bytes, one at a time"


class LyingS3Server:
    """Tells one lie for the length of a `with` block."""

    def __init__(self, lie: Lie) -> None:
        self.sent_bytes = 0
        self._lie = lie
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(65_536)
                connection.sendall(_head(self._lie))
                while True:
                    self.sent_bytes += self._send(connection)
            except OSError:
                return

    def _send(self, connection: socket.socket) -> int:
        if self._lie is Lie.TRICKLE:
            time.sleep(_TRICKLE_S)
            connection.sendall(b"x")
            return 1
        is_chunked = self._lie is Lie.CHUNKED
        connection.sendall(b"10000\r\n" + _CHUNK + b"\r\n" if is_chunked else _CHUNK)
        return len(_CHUNK)


def _head(lie: Lie) -> bytes:
    lines = {
        Lie.SHORT: ["Content-Length: 10"],
        Lie.HUGE: [f"Content-Length: {10**12}"],
        Lie.NOTHING: ["Connection: close"],
        Lie.CHUNKED: ["Transfer-Encoding: chunked"],
        Lie.RANGE: ["Content-Range: bytes 0-9/100", f"Content-Length: {10**12}"],
        Lie.TRICKLE: ["Content-Length: 1000000"],
    }[lie]
    status = "206 Partial Content" if lie is Lie.RANGE else "200 OK"
    first = [f"HTTP/1.1 {status}", "Last-Modified: Wed, 12 Oct 2022 10:00:00 GMT", 'ETag: "x"']
    return "\r\n".join([*first, *lines, "", ""]).encode()
