"""A store that answers every read a byte at a time, for ever: no time limit on silence ends it."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

_LENGTH = 1_000_000
_PAUSE_S = 0.1


class DrippingStore:
    """Listens on loopback within `with`; `requests` counts what it was asked for."""

    def __init__(self) -> None:
        self.requests = 0
        self._stop = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        store = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                store.requests += 1
                self.send_response(200)
                self.send_header("Content-Length", str(_LENGTH))
                self.send_header("ETag", '"1"')
                self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
                self.end_headers()
                while not store._stop.is_set():
                    try:
                        self.wfile.write(b"#")
                        self.wfile.flush()
                    except OSError:
                        return
                    time.sleep(_PAUSE_S)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        return Handler
