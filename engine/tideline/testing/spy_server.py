"""A server on the loopback interface that keeps every request it gets and answers as the test says.

It reads and writes bytes, so that its answers may be no HTTP at all.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from tideline.testing.loopback_listener import LoopbackListener


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """One request; names of headers are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Answering = Callable[[SeenRequest], bytes]


def answer(body: bytes = b"", *headers: str, status: str = "200 OK") -> bytes:
    """An answer with what an S3 client asks of one."""
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Length: {len(body)}",
        'ETag: "one"',
        f"Last-Modified: {formatdate(0, usegmt=True)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class SpyServer(LoopbackListener):
    """Running for the length of a `with` block, with TLS where it has a certificate."""

    def __init__(
        self,
        answering: Answering = lambda _: answer(b"x"),
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        super().__init__()
        self.requests: list[SeenRequest] = []
        self._answering = answering
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(*certificate)

    def url(self, host: str) -> str:
        scheme = "http" if self._context is None else "https"
        return f"{scheme}://{host}:{self.port}"

    def seen(self) -> str:
        """Everything that arrived, in one text."""
        return "\n".join(
            f"{request.method} {request.target} {request.headers}" for request in self.requests
        )

    def _secured(self, connection: socket.socket) -> socket.socket:
        if self._context is None:
            return connection
        return self._context.wrap_socket(connection, server_side=True)

    def serve(self, connection: socket.socket) -> None:
        with suppress(OSError, ValueError), self._secured(connection) as connection:
            stream = connection.makefile("rb")
            while (first := stream.readline()).strip():
                method, target, _ = first.decode().split(" ", 2)
                headers = {}
                while line := stream.readline().strip():
                    name, _, value = line.decode().partition(":")
                    headers[name.lower()] = value.strip()
                body = stream.read(int(headers.get("content-length", 0)))
                request = SeenRequest(method, target, headers, body)
                self.requests.append(request)
                connection.sendall(self._answering(request))


def make_certificate(folder: Path, host: str, *, days: int = 2) -> tuple[bytes, tuple[Path, Path]]:
    """An authority (PEM), and the certificate that it gives to a host, with its key; with less than
    no days one that has ended. Needs openssl."""
    authority, signing = folder / "authority.crt", folder / "authority.key"
    certificate, key = folder / f"{host}.crt", folder / f"{host}.key"
    asked, extensions = folder / f"{host}.csr", folder / f"{host}.ext"
    extensions.write_text(f"basicConstraints=CA:FALSE\nsubjectAltName=DNS:{host}\n")
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    for arguments in (
        ("req", "-x509", *new_key, "-days", "2", "-subj", "/CN=authority",
         "-keyout", signing, "-out", authority),
        ("req", *new_key, "-subj", f"/CN={host.partition('.')[0]}", "-keyout", key, "-out", asked),
        ("x509", "-req", "-in", asked, "-CA", authority, "-CAkey", signing, "-days", days,
         "-extfile", extensions, "-out", certificate),
    ):  # fmt: skip
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
    return authority.read_bytes(), (certificate, key)
