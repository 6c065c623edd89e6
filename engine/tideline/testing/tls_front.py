"""A front of TLS before a server, as a gateway or a sidecar is: it ends a connection's TLS and
opens another to the server.

    with TlsFront(("127.0.0.1", 9000), certificate=pair, demands=authority) as front:
        front.address                # a server that demands a certificate of its client
    with TlsFront(front.address, presents=(pair, authority)) as sidecar:
        sidecar.address              # plain TCP, for a client that has none
"""

from __future__ import annotations

import select
import socket
import ssl
from contextlib import ExitStack, suppress
from pathlib import Path

from tideline.testing.loopback_listener import LoopbackListener

Pair = tuple[Path, Path]
"""A certificate and its key."""
_CHUNK_BYTES = 1 << 16
_IDLE_S = 60.0
_LINGER_S = 0.5


class TlsFront(LoopbackListener):
    """Listens on loopback, or where it is to. `certificate` is its own, None for plain TCP;
    `demands` is the authority that its clients' certificates are of. `presents` is the certificate
    that it shows the server, and the authority of the server's, None for plain TCP. `refused`
    counts connections that it did not take, `relayed` those that it did."""

    def __init__(
        self,
        server: tuple[str, int],
        *,
        certificate: Pair | None = None,
        demands: bytes | None = None,
        presents: tuple[Pair, bytes] | None = None,
        newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        listens: tuple[str, int] = ("127.0.0.1", 0),
    ) -> None:
        super().__init__(listens)
        self._server = server
        self._inner = None if certificate is None else _server_side(certificate, demands, newest)
        self._outer = None if presents is None else _client_side(*presents)
        self.refused = 0
        self.relayed = 0
        self._open: list[socket.socket] = []

    def end_connections(self) -> None:
        """End those that are open: the next request needs another."""
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return "127.0.0.1", self.port

    @property
    def endpoint(self) -> str:
        """Its URL, at the name that its certificate has."""
        scheme = "http" if self._inner is None else "https"
        return f"{scheme}://localhost:{self.port}"

    def serve(self, connection: socket.socket) -> None:
        with ExitStack() as opened, suppress(OSError):
            connection.settimeout(_IDLE_S)
            opened.enter_context(connection)
            there = opened.enter_context(socket.create_connection(self._server, _IDLE_S))
            try:
                client = _secured(connection, self._inner)
                server = _secured(there, self._outer, "localhost")
            except OSError:
                self.refused += 1
                _linger(connection)
                return
            self.relayed += 1
            self._open.append(client)
            _relay(opened.enter_context(client), opened.enter_context(server))


def _relay(client: socket.socket, server: socket.socket) -> None:
    towards = {client: server, server: client}
    while True:
        ready = [end for end in towards if isinstance(end, ssl.SSLSocket) and end.pending()]
        for end in ready or select.select([*towards], [], [], _IDLE_S)[0]:
            chunk = _chunk_of(end)
            if chunk is None:
                continue
            if not chunk:
                return
            towards[end].sendall(chunk)


def _chunk_of(end: socket.socket) -> bytes | None:
    """What has arrived, b"" at the end; None where that was no more than words of TLS itself."""
    end.settimeout(0.0)
    try:
        return end.recv(_CHUNK_BYTES)
    except (ssl.SSLWantReadError, BlockingIOError):
        return None
    finally:
        end.settimeout(_IDLE_S)


def _secured(
    connection: socket.socket, context: ssl.SSLContext | None, server: str | None = None
) -> socket.socket:
    if context is None:
        return connection
    is_server = context.protocol is ssl.PROTOCOL_TLS_SERVER
    return context.wrap_socket(
        connection.dup(), server_side=is_server, server_hostname=None if is_server else server
    )


def _linger(connection: socket.socket) -> None:
    """Let the alert arrive: a socket that is closed with bytes unread takes it back."""
    connection.settimeout(_LINGER_S)
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(_CHUNK_BYTES):
            pass


def _server_side(
    certificate: Pair, demands: bytes | None, newest: ssl.TLSVersion
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    context.maximum_version = newest
    if demands is not None:
        context.load_verify_locations(cadata=demands.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _client_side(certificate: Pair, authority: bytes) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.decode())
    context.load_cert_chain(*certificate)
    return context
