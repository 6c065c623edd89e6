"""A token endpoint on the loopback interface, for tests: OAuth 2.0 with a client's credentials."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

CLIENT, SECRET = "tideline-reader", "of-the-client-2026"
Respond = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class TokenServer:
    """Gives tokens to one client, and notes what it was asked; `respond` answers instead."""

    url: str
    port: int
    asked: list[dict[str, list[str]]] = field(default_factory=list)
    holds_s: int = 600
    says_how_long: bool = False
    respond: Respond | None = None

    def token(self) -> str:
        """A JSON Web Token that nobody has signed."""
        now_s = int(time.time())
        claims = {"sub": CLIENT, "iat": now_s, "exp": now_s + self.holds_s, "scope": "read"}
        parts = ({"alg": "none"}, claims)
        encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts)
        return ".".join([*(part.rstrip("=") for part in encoded), ""])

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        length = int(request.headers.get("Content-Length", 0))
        self.asked.append(parse_qs(request.rfile.read(length).decode()))
        if self.respond is not None:
            self.respond(request)
            return
        wanted = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {wanted}":
            answer_with(request, 401, {"error": "invalid_client"})
            return
        content: dict[str, Any] = {"access_token": self.token(), "token_type": "Bearer"}
        if self.says_how_long:
            content["expires_in"] = self.holds_s
        answer_with(request, 200, content)


def answer_with(request: BaseHTTPRequestHandler, status: int, content: Any) -> None:
    """This, as JSON."""
    body = json.dumps(content).encode()
    request.send_response(status)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


@contextmanager
def token_server(certificate: Path | None = None, key: Path | None = None) -> Iterator[TokenServer]:
    """One that answers until the end, behind TLS with a certificate and its key."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.answer(self)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "http" if certificate is None else "https"
    port = server.server_port
    found = TokenServer(f"{scheme}://127.0.0.1:{port}/token?realm=shop", port)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
