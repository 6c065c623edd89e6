"""The small HTTP servers of the controller: metrics, health for the kubelet, and pages.

`/healthz` fails when something is stuck that a restart would fix; an unreachable API server or
store is not such a case, and neither are tables that wait for their turns. `/readyz` fails until
the caches are filled and while tables wait for long, or, for a standby, while it cannot reach the
Lease.

Any pod may be able to connect. A connection whose request is not complete after
`_REQUEST_TIMEOUT_S` is closed, even if a byte came now and then; of more than `_ASKING_MAX` such
connections the eldest is closed.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from tideline_operator.controller.page_access import EVERYWHERE, PageAccess

Answer = Callable[[], tuple[int, str]]
"""A status and a text."""

TEXT = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
_REQUEST_TIMEOUT_S = 10.0
_ASKING_MAX = 100

_log = logging.getLogger(__name__)


class HttpServer:
    """Serves what `find` has for a path, to whom `access` allows it. `port` 0 takes a free one; see
    `port`."""

    def __init__(
        self,
        port: int,
        find: Callable[[str], Answer | None],
        headers: Mapping[str, str] = TEXT,
        access: PageAccess | None = None,
    ) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = _REQUEST_TIMEOUT_S
            server: _Server

            def do_GET(self) -> None:
                self.server.has_asked(self.connection)
                named = {name: self.headers.get(name, "") for name in ("Host", "Authorization")}
                refused = access.refusal(named, self.client_address[0]) if access else None
                if refused is not None:
                    self.send(refused.status, refused.text, {**headers, **refused.headers})
                    return
                answer = find(self.path.partition("?")[0])
                status, text = (404, "not found\n") if answer is None else _guarded(answer)
                self.send(status, text, headers)

            def send(self, status: int, text: str, all_headers: Mapping[str, str]) -> None:
                body = text.encode()
                self.send_response(status)
                for name, value in all_headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        host = access.host if access else EVERYWHERE
        self._server = (_LocalServer if host else _Server)((host, port), Handler)

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def start(self) -> None:
        """Serve, in a new thread."""
        thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)
        thread.start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """Listens on IPv4 and IPv6, where there is IPv6."""

    daemon_threads = True
    request_queue_size = 128
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def __init__(self, *arguments: Any) -> None:
        self._lock = threading.Lock()
        self._asking: dict[socket.socket, float] = {}
        """When each connection without a complete request began, the eldest first."""
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._asking[request] = time.monotonic()
        self._close_overdue()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Called every half second, and after each connection."""
        self._close_overdue()

    def has_asked(self, connection: socket.socket) -> None:
        """The request has been read, or the connection has ended."""
        with self._lock:
            self._asking.pop(connection, None)

    def shutdown_request(self, request: Any) -> None:
        self.has_asked(request)
        super().shutdown_request(request)

    def handle_error(self, *_: object) -> None:
        """A client that disconnects is not worth a line."""
        if not isinstance(sys.exception(), OSError):
            _log.exception("cannot answer a request")

    def _close_overdue(self) -> None:
        overdue_s = time.monotonic() - _REQUEST_TIMEOUT_S
        with self._lock:
            while self._asking:
                connection, since_s = next(iter(self._asking.items()))
                if since_s > overdue_s and len(self._asking) <= _ASKING_MAX:
                    return
                del self._asking[connection]
                # Its thread finds that nothing more comes. The lock keeps it from closing now.
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Not HTTPServer's, which looks up a host name that is not needed.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "", self.server_address[1]


class _LocalServer(_Server):
    """Listens on an IPv4 address."""

    address_family = socket.AF_INET


def verdict(problems: list[str]) -> tuple[int, str]:
    """200 when nothing is wrong, 503 with what is."""
    return (503, "\n".join(problems) + "\n") if problems else (200, "ok\n")


def _guarded(answer: Answer) -> tuple[int, str]:
    try:
        return answer()
    except Exception:
        _log.exception("cannot answer a request")
        return 500, "error\n"
