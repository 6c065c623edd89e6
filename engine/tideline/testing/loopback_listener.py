"""A port on the loopback interface, each connection to it in a thread of its own."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from types import TracebackType
from typing import Self


class LoopbackListener(ABC):
    """Listens from the start, and serves for the length of a `with` block. `connections` are those
    that it accepted. A server in a pod `listens` elsewhere."""

    def __init__(self, listens: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self._listener = socket.create_server(listens)
        self.port = int(self._listener.getsockname()[1])
        self.connections = 0

    @abstractmethod
    def serve(self, connection: socket.socket) -> None:
        """Answer all of a connection, and close it."""

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.connections += 1
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()
