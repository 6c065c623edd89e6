"""The controller's HTTP servers, and clients that say nothing, or say it slowly."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest

from tideline.testing.patience import PATIENCE_S
from tideline_operator.controller import health
from tideline_operator.controller.health import HttpServer, verdict


@pytest.fixture
def server() -> Iterator[HttpServer]:
    served = HttpServer(0, {"/healthz": lambda: verdict([])}.get)
    served.start()
    yield served
    served.stop()


def is_healthy(server: HttpServer) -> bool:
    with urllib.request.urlopen(
        f"http://127.0.0.1:{server.port}/healthz", timeout=PATIENCE_S
    ) as answer:
        return bool(answer.status == 200)


def asking(server: HttpServer) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
    connection.sendall(b"GET /healthz HTTP/1.0\r\nA: ")
    return connection


def test_a_request_that_drips_ends(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(health, "_REQUEST_TIMEOUT_S", 1.0)
    began_s = time.monotonic()
    with asking(server) as slow, pytest.raises(OSError):
        while time.monotonic() - began_s < PATIENCE_S:
            slow.sendall(b"x")
            time.sleep(0.1)
    assert is_healthy(server)
    assert capsys.readouterr().err == ""


def test_many_that_wait_take_neither_threads_nor_turns(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_ASKING_MAX", 10)
    before = threading.active_count()
    connections = [asking(server) for _ in range(60)]
    try:
        assert is_healthy(server)
        deadline_s = time.monotonic() + PATIENCE_S
        while threading.active_count() > before + 11 and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert threading.active_count() <= before + 11
        # The first ones were sent away, the last ones not.
        assert connections[0].recv(1) == b""
        connections[-1].sendall(b"x\r\n\r\n")
        assert connections[-1].recv(12) == b"HTTP/1.0 200"
    finally:
        for connection in connections:
            connection.close()
