"""A server that lies costs a look a bounded time and a bounded memory, and no secret."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tideline.errors import ConfigError, StorageUnavailableError, TidelineError
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.wire import look
from tideline.ingest.sources.postgres.wire.look import look_by
from tideline.ingest.sources.postgres.wire.messages import message, text

SOURCE = DeclaredPostgres(table="orders", slot="s", publication="p")
PASSWORD = "spring-tide-of-2026"


class Server:
    """One on loopback that does `answer` to each connection, and keeps what it was sent."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self.sent = bytearray()
        self._answer = answer
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                made, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answering, args=(made,), daemon=True).start()

    def _answering(self, made: socket.socket) -> None:
        with made:
            try:
                self._answer(made)
                made.settimeout(0.2)
                while chunk := made.recv(4096):
                    self.sent += chunk
            except OSError:
                return

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@contextmanager
def lying(answer: Callable[[socket.socket], None]) -> Iterator[Server]:
    server = Server(answer)
    yield server
    server.close()


def looked(port: int, options: str = "?sslmode=disable", **more: str) -> None:
    uri = f"postgresql://reader:{PASSWORD}@127.0.0.1:{port}/shop{options}"
    look_by(SOURCE, {"POSTGRES_URI": uri, **more}, directly, None)


def directly(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), 3.0)


def int32(number: int) -> bytes:
    return struct.pack("!i", number)


def asks(kind: int, rest: bytes = b"") -> bytes:
    return message(b"R", int32(kind) + rest)


def row(*values: str) -> bytes:
    written = b"".join(int32(len(value)) + value.encode() for value in values)
    return message(b"D", struct.pack("!h", len(values)) + written)


def columns(*type_oids: int) -> bytes:
    described = (text("c") + struct.pack("!ihihih", 0, 0, oid, -1, -1, 0) for oid in type_oids)
    return message(b"T", struct.pack("!h", len(type_oids)) + b"".join(described))


READY = message(b"Z", b"I")
SIGNED_IN = asks(0) + READY


def sends(*chunks: bytes) -> Callable[[socket.socket], None]:
    return lambda made: made.sendall(b"".join(chunks))


def drip(made: socket.socket) -> None:
    made.sendall(b"R" + int32(1000))
    while True:
        made.sendall(b"\0")
        time.sleep(0.05)


def flood(kind: bytes) -> Callable[[socket.socket], None]:
    def answer(made: socket.socket) -> None:
        while True:
            made.sendall(message(kind, b"x" * 60_000))

    return answer


def rows_for_ever(made: socket.socket) -> None:
    made.sendall(SIGNED_IN + READY + columns(25))
    while True:
        made.sendall(row("") * 1000)


LIES: dict[str, tuple[Callable[[socket.socket], None], str]] = {
    "silence": (lambda _: time.sleep(5), "timed out"),
    "drip": (drip, "timed out"),
    "closes": (lambda _: None, r"closed the connection|reset by peer|timed out"),
    "http": (sends(b"HTTP/1.1 400 no\r\n\r\n"), "no server of Postgres"),
    "huge": (sends(b"R" + int32(2**31 - 1)), "a message of 2,147,483,643 bytes"),
    "negative": (sends(b"R" + int32(-9)), "a message of -9 bytes"),
    "notices": (flood(b"N"), "a message of 60,000 bytes|timed out"),
    "settings": (flood(b"S"), "a message of 60,000 bytes|timed out"),
    "challenges": (lambda made: made.sendall(asks(11, b"r=1,s=,i=1") * 9), "way of signing in"),
    "rows": (rows_for_ever, "more than 10,000 rows|timed out"),
    "cut": (sends(SIGNED_IN, READY, columns(25)[:-2]), "timed out|closed"),
    "columns": (sends(SIGNED_IN, READY, message(b"T", b"\x7f\xff")), "a message is cut off"),
    "values": (sends(SIGNED_IN, READY, columns(16), row("maybe")), "not as its type is written"),
    "numbers": (sends(SIGNED_IN, READY, columns(23), row("9" * 9000)), "not as its type"),
    "large numbers": (sends(SIGNED_IN, READY, columns(20), row("9" * 20)), "not as its type"),
    "far log": (
        sends(
            SIGNED_IN, READY, columns(16), row("f"), READY, columns(25), row("999999999/0"), READY
        ),
        "no server of Postgres: ValueError",
    ),
    "log of another type": (
        sends(SIGNED_IN, READY, columns(16), row("f"), READY, columns(20), row("5"), READY),
        "no server of Postgres: AttributeError",
    ),
    "no rows": (sends(SIGNED_IN, READY, READY), "no server of Postgres: AssertionError"),
    "log": (
        sends(SIGNED_IN, READY, columns(16), row("f"), READY, columns(25), row("x"), READY),
        "no server of Postgres: ValueError",
    ),
    "more columns": (sends(SIGNED_IN, READY, columns(16), row("f", "t")), "other columns"),
    "tls": (sends(b"?"), "no server of Postgres"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_lies_costs_a_bounded_time(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "LOOK_S", 0.8)
    answer, words = LIES[lie]
    with lying(answer) as server:
        began_s = time.monotonic()
        with pytest.raises(TidelineError, match=words) as caught:
            looked(server.port, "" if lie == "tls" else "?sslmode=disable")
        assert time.monotonic() - began_s < 6
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("asked", [3, 5])
@pytest.mark.parametrize("options", ["?sslmode=disable", "", "?sslmode=allow"])
def test_no_password_is_sent_without_tls(asked: int, options: str) -> None:
    """Nor an MD5 of it, which is as good as it."""
    first = b"" if "disable" in options else b"N"
    with lying(sends(first, asks(asked, b"salt"))) as server:
        with pytest.raises(ConfigError, match="it is not sent"):
            looked(server.port, options)
        time.sleep(0.3)
    assert PASSWORD.encode() not in server.sent
    assert b"md5" not in server.sent


def test_tls_that_is_required_is_not_given_up() -> None:
    with lying(sends(b"N", SIGNED_IN)) as server:
        for mode in ("require", "verify-ca", "verify-full"):
            with pytest.raises(ConfigError, match="the server has no TLS"):
                looked(server.port, f"?sslmode={mode}", POSTGRES_CA="x")


def test_what_comes_before_tls_is_not_taken_for_the_server() -> None:
    """Words that somebody puts between, in front of the handshake (CVE-2021-23222)."""
    with lying(sends(b"S", SIGNED_IN)) as server, pytest.raises(ConfigError, match="TLS with"):
        looked(server.port, "?sslmode=require")


def test_signing_in_is_not_skipped_half_way() -> None:
    answer = sends(asks(10, b"SCRAM-SHA-256\0\0"), asks(0), READY)
    words = "that it knows the password"
    with lying(answer) as server, pytest.raises(StorageUnavailableError, match=words):
        looked(server.port)


@pytest.mark.parametrize("kind", [b"E", b"N"])
def test_the_words_of_a_server_are_short_and_have_no_secrets(kind: bytes) -> None:
    words = f"M{PASSWORD} \x1b[31m".encode() + b"x" * 5000
    answer = sends(message(kind, b"C28P01\0" + words + b"\0\0"), b"R")
    with lying(answer) as server, pytest.raises(TidelineError) as caught:
        looked(server.port)
    assert PASSWORD not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 500
