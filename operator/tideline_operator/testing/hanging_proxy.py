"""A TCP proxy in front of a server that can stop passing replies on.

It is what a client sees of a server that hangs, of a load balancer that lost its state, or of a
network that drops packets one way: connections open, requests arrive and may be carried out, and
nothing ever comes back. TLS goes through it unread.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

_CHUNK_BYTES = 65_536
_POLL_S = 0.05


class HangingProxy:
    """Listens on `port` of the loopback interface for the length of a `with` block."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_POLL_S)
        self._stops = threading.Event()
        self._passes = threading.Event()
        self._passes.set()
        self._pumps: list[threading.Thread] = []
        self._ends: list[socket.socket] = []
        self.swallowed_bytes = 0
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="hanging proxy", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stops.set()
        for pump in self._pumps:
            pump.join()
        for end in self._ends:
            end.close()

    def swallow_replies(self) -> None:
        """From now on requests arrive at the server, and its replies nowhere."""
        self._passes.clear()

    def _accept(self) -> None:
        with self._listener:
            while not self._stops.is_set():
                try:
                    client, _ = self._listener.accept()
                except TimeoutError:
                    continue
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._ends += [client, server]
                for source, sink, is_reply in ((client, server, False), (server, client, True)):
                    arguments = (source, sink, is_reply)
                    pump = threading.Thread(target=self._pump, args=arguments, daemon=True)
                    self._pumps.append(pump)
                    pump.start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_reply: bool) -> None:
        source.settimeout(_POLL_S)
        while not self._stops.is_set():
            try:
                chunk = source.recv(_CHUNK_BYTES)
                if not chunk:
                    break
                if is_reply and not self._passes.is_set():
                    self.swallowed_bytes += len(chunk)
                    continue
                sink.sendall(chunk)
            except TimeoutError:
                continue
            except OSError:
                break
        if not is_reply or self._passes.is_set():
            with suppress(OSError):
                sink.shutdown(socket.SHUT_WR)
