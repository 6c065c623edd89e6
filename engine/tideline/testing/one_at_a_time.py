"""A proxy that lets one request through at a time, for servers that cannot take two.

Iceberg's REST catalog for tests keeps its tables in a SQLite database in memory: of two requests at
the same moment one fails. Writers behind the proxy still meet each other between their requests.
"""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler

from tideline.testing.loopback_server import LoopbackServer

_TIMEOUT_S = 60.0
_OWN_HEADERS = ("host", "connection", "content-length", "accept-encoding", "transfer-encoding")


@contextmanager
def one_at_a_time(uri: str, loses: Callable[[str, str], bool] | None = None) -> Iterator[str]:
    """The address of a proxy before `uri`, for the length of a `with` block. `loses` says of a
    method and a path whether the server's answer gets lost on its way: it is asked after that."""
    handler = partial(_Handler, uri.rstrip("/"), threading.Lock(), loses or (lambda *_: False))
    with LoopbackServer(handler) as server:
        yield server.url


class _Handler(BaseHTTPRequestHandler):
    """Passes a request on, and the answer back."""

    protocol_version = "HTTP/1.1"

    def __init__(
        self, uri: str, turn: threading.Lock, loses: Callable[[str, str], bool], *given: object
    ) -> None:
        self._uri = uri
        self._turn = turn
        self._loses = loses
        super().__init__(*given)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self._pass_on()

    do_POST = do_DELETE = do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Tests print nothing."""

    def _pass_on(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        headers = {
            name: text for name, text in self.headers.items() if name.lower() not in _OWN_HEADERS
        }
        body = self.rfile.read(length) if length else None
        request = urllib.request.Request(
            self._uri + self.path, data=body, headers=headers, method=self.command
        )
        with self._turn:
            try:
                with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                    status, kind, content = answer.status, answer.headers, answer.read()
            except urllib.error.HTTPError as error:
                with error:
                    status, kind, content = error.code, error.headers, error.read()
            is_lost = self._loses(self.command, self.path)
        if is_lost:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("content-type", kind.get("content-type") or "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
