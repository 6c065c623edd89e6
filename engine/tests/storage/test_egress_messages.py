"""What the egress proxy passes on, within limits, and what it holds back."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
import requests

from tideline.errors import StorageUnavailableError
from tideline.storage.egress.proxy import EgressLimits
from tideline.testing.egress_case import (
    HOST,
    Names,
    Starting,
    by_way_of,
    started_proxies,
    store_at,
)
from tideline.testing.patience import PATIENCE_S
from tideline.testing.spy_server import SeenRequest, SpyServer, answer


@pytest.fixture
def start() -> Iterator[Starting]:
    with started_proxies() as started:
        yield started


def test_a_slow_resolver_is_given_up_and_holds_up_nobody_else(start: Starting) -> None:
    hanging = threading.Event()

    def names(host: str, _: int) -> tuple[str, tuple[str, ...]]:
        if host == "slow.test":
            hanging.wait(20)
        return host, ("127.0.0.1",)

    limits = EgressLimits(connect_s=0.3, lookups_per_namespace_max=2)
    with SpyServer() as spy:
        proxy = start(names, limits=limits)
        for _ in range(3):
            with pytest.raises(StorageUnavailableError, match=r"timed out|being looked up"):
                store_at(f"http://slow.test:{spy.port}", proxy, namespace="sea").get("x")
        assert store_at(spy.url(HOST), proxy).get("x") == b"x"
        hanging.set()


def test_connections_of_one_namespace_are_limited(start: Starting) -> None:
    limits = EgressLimits(connections_per_namespace_max=2)
    with SpyServer() as spy:
        proxy = start(Names(store_test="127.0.0.1"), limits=limits)
        sessions = [by_way_of(proxy) for _ in range(3)]
        codes = [session.get(spy.url(HOST), timeout=PATIENCE_S).status_code for session in sessions]
        assert codes == [200, 200, 502]
        assert by_way_of(proxy, "sea").get(spy.url(HOST), timeout=PATIENCE_S).status_code == 200
        sessions[0].close()
        deadline_s = time.monotonic() + PATIENCE_S
        while sessions[2].get(spy.url(HOST), timeout=PATIENCE_S).status_code != 200:
            assert time.monotonic() < deadline_s


def test_a_proxy_that_is_closed_ends_what_is_under_way(start: Starting) -> None:
    reached, over = threading.Barrier(9), threading.Event()

    def hanging(_: SeenRequest) -> bytes:
        reached.wait(PATIENCE_S)
        over.wait(2 * PATIENCE_S)
        return answer()

    with SpyServer(hanging) as spy:
        proxy = start(Names(store_test="127.0.0.1"))

        def ask() -> None:
            with suppress(requests.exceptions.RequestException):
                by_way_of(proxy).get(spy.url(HOST), timeout=2 * PATIENCE_S)

        threads = [threading.Thread(target=ask, daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        reached.wait(PATIENCE_S)
        proxy.close()
        for thread in threads:
            thread.join(PATIENCE_S)
        ended = [not thread.is_alive() for thread in threads]
        over.set()
    assert all(ended)


def test_idle_connections_end(start: Starting) -> None:
    with SpyServer() as spy:
        proxy = start(Names(store_test="127.0.0.1"), limits=EgressLimits(idle_s=0.4))
        session = by_way_of(proxy)
        assert session.get(spy.url(HOST), timeout=PATIENCE_S).text == "x"
        time.sleep(1.2)
        assert not proxy._state.open
        assert session.get(spy.url(HOST), timeout=PATIENCE_S).text == "x"
    assert spy.connections == 2


def test_large_bodies_pass_both_ways_in_blocks(start: Starting) -> None:
    body = os.urandom(32 << 20)

    with SpyServer(lambda _: answer(body)) as spy:
        proxy = start(Names(store_test="127.0.0.1"))
        assert store_at(spy.url(HOST), proxy).get("large") == body
        found = by_way_of(proxy).put(spy.url(HOST), data=body, timeout=PATIENCE_S)
        assert found.content == body
    assert [request.body for request in spy.requests] == [b"", body]


def test_a_hundred_connections_are_served_at_once(start: Starting) -> None:
    with SpyServer() as spy:
        proxy = start(Names(store_test="127.0.0.1"))
        ready, found = threading.Barrier(100), []

        def ask() -> None:
            session = by_way_of(proxy)
            session.get(spy.url(HOST), timeout=PATIENCE_S)
            ready.wait(PATIENCE_S)
            found.append(session.get(spy.url(HOST), timeout=PATIENCE_S).text)

        threads = [threading.Thread(target=ask) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert found == ["x"] * 100
    assert spy.connections == 100


def test_a_client_that_gives_up_frees_its_connection(start: Starting) -> None:
    reached = threading.Event()

    def hanging(_: SeenRequest) -> bytes:
        reached.set()
        time.sleep(30)
        return answer()

    with SpyServer(hanging) as spy:
        proxy = start(Names(store_test="127.0.0.1"))
        with pytest.raises(requests.exceptions.ReadTimeout):
            by_way_of(proxy).get(spy.url(HOST), timeout=(2, 0.3))
        assert reached.wait(PATIENCE_S)
        deadline_s = time.monotonic() + PATIENCE_S
        while proxy._state.open:
            assert time.monotonic() < deadline_s
            time.sleep(0.02)


@pytest.mark.parametrize(
    "hostile",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 9\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\nx",
        b"HTTP/1.1 101 Switching\r\nUpgrade: other\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    ],
)
def test_answers_that_can_be_read_in_two_ways_are_not_passed_on(
    start: Starting, hostile: bytes
) -> None:
    with SpyServer(lambda _: hostile) as spy:
        session = by_way_of(start(Names(store_test="127.0.0.1")))
        with pytest.raises(requests.exceptions.RequestException):
            session.get(spy.url(HOST), timeout=PATIENCE_S)


def test_bytes_after_an_answer_are_no_answer_of_another_host(start: Starting) -> None:
    """requests uses one connection to a proxy for all hosts."""
    poison = answer(b"poison")
    with SpyServer(lambda _: answer(b"x") + poison) as spy, SpyServer() as other:
        session = by_way_of(start(Names(store_test="127.0.0.1", other_test="127.0.0.1")))
        assert session.get(spy.url(HOST), timeout=PATIENCE_S).text == "x"
        assert session.get(other.url("other.test"), timeout=PATIENCE_S).text == "x"


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\n",
         "abc"),
        (b"HTTP/1.1 103 Early\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nz",
         "z"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", ""),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab", "ab"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", "ab"),
    ],
)  # fmt: skip
def test_every_way_to_say_how_long_an_answer_is_passes(
    start: Starting, raw: bytes, body: str
) -> None:
    with SpyServer(lambda _: raw) as spy:
        session = by_way_of(start(Names(store_test="127.0.0.1")))
        for _ in range(2):
            assert session.get(spy.url(HOST), timeout=PATIENCE_S).text == body


def test_an_answer_without_a_length_ends_with_its_connection(start: Starting) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nabc")
        connection.close()

    threading.Thread(target=serve, daemon=True).start()
    session = by_way_of(start(Names(store_test="127.0.0.1")))
    url = f"http://{HOST}:{listener.getsockname()[1]}"
    assert session.get(url, timeout=PATIENCE_S).text == "abc"
    listener.close()
