"""A server on the loopback interface for the length of a `with` block."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from socketserver import BaseRequestHandler
from types import TracebackType
from typing import Any, Self

_POLL_S = 0.01


class LoopbackServer:
    """Answers with a handler, each connection in a thread of its own. The port is taken at once."""

    def __init__(self, handler: Callable[[Any, Any, Any], BaseRequestHandler]) -> None:
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is what such tests are about."""
