"""The small HTTP servers of the controller: metrics, health for the kubelet, and pages.

`/healthz` fails when something is stuck that a restart would fix; an unreachable API server or
store is not such a case, and neither are tables that wait for their turns. `/readyz` fails until
the caches are filled and while tables wait for long, or, for a standby, while it cannot reach the
Lease.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer

from tideline_operator.controller.page_access import EVERYWHERE, PageAccess

Answer = Callable[[], tuple[int, str]]
"""A status and a text."""

TEXT = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
_REQUEST_TIMEOUT_S = 10.0

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

            def do_GET(self) -> None:
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
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

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
