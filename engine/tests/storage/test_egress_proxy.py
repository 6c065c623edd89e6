"""Requests for others leave by way of a proxy that checks addresses after they were resolved."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.secret_values import masked
from tideline.storage.egress.proxy import EgressLimits
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import AlreadyExists, Written
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline.testing.egress_case import (
    HOST,
    LIMITS,
    REMEDY,
    Names,
    Starting,
    by_way_of,
    started_proxies,
    store_at,
)
from tideline.testing.minio_server import MinioServer
from tideline.testing.patience import PATIENCE_S
from tideline.testing.spy_server import SeenRequest, SpyServer, answer, make_certificate


@pytest.fixture
def start() -> Iterator[Starting]:
    with started_proxies() as started:
        yield started


def test_small_requests_share_a_connection_and_arrive_as_they_were_sent(start: Starting) -> None:
    with SpyServer() as spy:
        names = Names(store_test="127.0.0.1")
        store = store_at(spy.url(HOST), start(names))
        for _ in range(30):
            assert store.get("a b+c/ä") == b"x"
    # A client may open another before it has put one back.
    assert spy.connections < 6
    assert names.asked == [HOST] * spy.connections
    first = spy.requests[0]
    assert first.target == "/bucket/table/a%20b%2Bc/%C3%A4"
    assert first.headers["host"] == f"{HOST}:{spy.port}"
    assert first.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=KEY-ID/")
    assert not [name for name in first.headers if name.startswith("proxy")]


@pytest.mark.minio
def test_everything_a_store_does_passes(
    start: Starting, minio_server: MinioServer, minio_bucket: str
) -> None:
    proxy = start(Names(minio_test="127.0.0.1"))
    port = minio_server.endpoint.rpartition(":")[2]
    keys = S3Credentials(minio_server.access_key, minio_server.secret_key)
    connection = StoreConnection(keys, limits=LIMITS, egress=proxy.of("lake"))
    options = {"endpoint": f"http://minio.test:{port}", "allow_http": "true"}
    store = StoreLocation.of(f"s3://{minio_bucket}/table", options).open(connection)
    body = os.urandom(20 << 20)
    with store.open_writer("large") as writer:
        writer.write(body)
    assert store.get("large") == body
    assert store.get_range("large", offset=9 << 20, length=5) == body[9 << 20 :][:5]
    assert isinstance(store.put_if_absent("small", b"1", token="t"), Written)
    assert isinstance(store.put_if_absent("small", b"2", token="u"), AlreadyExists)
    assert store.head("missing") is None
    for number in range(5):
        store.put(f"many/{number}", b"")
    assert len([*store.list("many")]) == 5
    store.delete_many(f"many/{number}" for number in range(5))
    assert [found.path for found in store.list()] == ["large", "small"]


def test_https_is_passed_as_it_is_and_the_certificate_is_that_of_the_host(
    start: Starting, tmp_path: Path
) -> None:
    authorities, certificate = make_certificate(tmp_path, HOST)
    with SpyServer(certificate=certificate) as spy:
        proxy = start(Names(store_test="127.0.0.1", other_test="127.0.0.1"))
        store = store_at(spy.url(HOST), proxy, authorities=authorities)
        assert [store.get("a"), store.get("b")] == [b"x", b"x"]
        assert spy.connections == 1
        with pytest.raises(StorageUnavailableError):
            store_at(spy.url("other.test"), proxy, authorities=authorities).get("a")
        with pytest.raises(StorageUnavailableError):
            store_at(spy.url(HOST), proxy).get("a")
    assert len(spy.requests) == 2


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("169.254.169.254", "the address of a metadata service"),
        ("10.0.0.7", "a private address"),
        ("127.0.0.1", "a loopback address"),
        ("::1", "a loopback address"),
        ("93.184.216.34 10.0.0.7", "a private address"),
    ],
)
def test_an_address_that_may_not_be_connected_to_is_named_with_the_remedy(
    start: Starting, scheme: str, address: str, kind: str
) -> None:
    store = store_at(f"{scheme}://{HOST}", start(Names(store_test=address), ranges=""))
    shown = f"resolves to {address.split()[-1]}, {kind} that is not connected to{REMEDY}"
    with pytest.raises(StorageUnavailableError, match=shown):
        store.get("x")
    with pytest.raises(StorageUnavailableError, match=shown):
        store.put_if_absent("x", b"1", token="t")


def test_an_address_in_place_of_a_name_is_checked_too(start: Starting) -> None:
    with SpyServer() as spy:
        proxy = start(lambda host, _: (host, (host,)), ranges="")
        with pytest.raises(StorageUnavailableError, match=r"127\.0\.0\.1 is a loopback address"):
            store_at(spy.url("127.0.0.1"), proxy).get("x")
    assert spy.connections == 0


def test_a_name_is_resolved_once_for_each_connection(start: Starting) -> None:
    """What is checked is what is connected to: the second answer of the name is never used."""
    with SpyServer() as spy:
        answers = iter(["127.0.0.1", "10.0.0.1", "169.254.169.254"])
        asked: list[str] = []

        def rebinding(host: str, _: int) -> tuple[str, tuple[str, ...]]:
            asked.append(host)
            return host, (next(answers),)

        store = store_at(spy.url(HOST), start(rebinding))
        assert store.get("x") == b"x"
    assert asked == [HOST]
    assert spy.connections == 1


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_redirect_of_a_store_is_not_followed_to_another_host(
    start: Starting, scheme: str
) -> None:
    with SpyServer() as other:
        target = f"Location: {scheme}://other.test:{other.port}/latest/meta-data"
        with SpyServer(lambda _: answer(b"", target, status="307 Temporary Redirect")) as spy:
            proxy = start(Names(store_test="127.0.0.1", other_test="127.0.0.1"))
            with pytest.raises(StorageUnavailableError, match=r"redirects to .*not its endpoint"):
                store_at(spy.url(HOST), proxy).get("x")
    assert spy.requests
    assert other.connections == 0


def test_a_redirect_within_the_endpoint_is_followed(start: Starting) -> None:
    def answering(request: SeenRequest) -> bytes:
        if request.target.endswith("/x"):
            return answer(b"", "Location: /bucket/table/y", status="307 Temporary Redirect")
        return answer(b"y")

    with SpyServer(answering) as spy:
        assert store_at(spy.url(HOST), start(Names(store_test="127.0.0.1"))).get("x") == b"y"


def test_a_redirect_that_requests_follows_is_checked_and_has_no_authorization(
    start: Starting,
) -> None:
    with SpyServer() as allowed:
        targets = {
            "/a": allowed.url("other.test"),
            "/b": "http://metadata.test/latest",
            "/c": "https://metadata.test/latest",
        }
        redirect = "302 Found"
        with SpyServer(
            lambda asked: answer(b"", f"Location: {targets[asked.target]}", status=redirect)
        ) as spy:
            names = Names(
                store_test="127.0.0.1", other_test="127.0.0.1", metadata_test="169.254.169.254"
            )
            session = by_way_of(start(names))
            session.headers["Authorization"] = "Bearer the-token"
            assert session.get(spy.url(HOST) + "/a", timeout=PATIENCE_S).text == "x"
            assert session.get(spy.url(HOST) + "/b", timeout=PATIENCE_S).status_code == 403
            with pytest.raises(requests.exceptions.ProxyError):
                session.get(spy.url(HOST) + "/c", timeout=PATIENCE_S)
    assert "the-token" in spy.seen()
    assert "the-token" not in allowed.seen()
    assert "proxy" not in (spy.seen() + allowed.seen()).lower()


@pytest.mark.parametrize(
    "ticket", ["", "http://any.x:guessed@", "http://{}:any.x@", "http://other:{}@"]
)
def test_without_a_ticket_nothing_is_passed_on(start: Starting, ticket: str) -> None:
    with SpyServer() as spy:
        url = start(Names(store_test="127.0.0.1")).url_for("lake")
        secret, _, port = url.split(":", 2)[2].partition("@")
        proxy = (ticket.format(secret) or "http://") + port
        session = requests.Session()
        session.trust_env = False
        session.proxies = {"http": proxy}
        found = session.get(spy.url(HOST), timeout=PATIENCE_S)
    assert found.status_code == 407
    assert spy.connections == 0


def test_a_client_cannot_take_another_namespace(start: Starting) -> None:
    """The user of a URL binds the client itself; the ticket alone says for whom it is."""
    names = Names()
    names.addresses = {"minio.lake.svc": "10.96.0.9"}
    proxy = start(names, ranges="")
    assert proxy.namespace_of(proxy.of("sea").proxy_url.split(":")[2].partition("@")[0]) == "sea"
    for user in ("lake", "any.lake", "to.bm90aGluZw", "to.!"):
        session = requests.Session()
        session.trust_env = False
        ticket = proxy.of("sea").proxy_url.partition("egress:")[2]
        session.proxies = {"http": f"http://{user}:{ticket}"}
        assert session.get("http://minio.lake.svc:9000", timeout=PATIENCE_S).status_code in (
            403,
            407,
        )


def test_routes_are_values_for_one_server_and_secret(start: Starting) -> None:
    proxy = start(Names())
    egress = proxy.of("lake")
    assert proxy.of("lake") == egress == pickle.loads(pickle.dumps(egress))
    route = egress.to("http://Store.test.")
    assert route == egress.to("http://store.test:80")
    secret = egress.proxy_url.split(":")[2].partition("@")[0]
    assert secret not in repr(egress) + repr(route)
    assert secret not in masked(f"the proxy {route.proxy_url}")
    others = (
        proxy.of("sea").to("http://store.test"),
        egress.to("https://store.test"),
        egress.anywhere("one catalog"),
        egress.anywhere("another"),
    )
    assert len({route, *others}) == 5
    for url in ("", "store.test", "http://", "http://[::1", "http://store.test:port"):
        with pytest.raises(ConfigError, match="must be a URL"):
            egress.to(url)


def test_only_the_newest_problems_are_remembered(start: Starting) -> None:
    proxy = start(Names(), limits=EgressLimits(problems_max=2))
    urls = [f"http://unknown{number}.test" for number in range(3)]
    for url in urls:
        with pytest.raises(StorageUnavailableError, match="host name not found"):
            store_at(url, proxy).get("x")
    found = [proxy.of("lake").to(url).problem() for url in urls]
    assert found == [None, "host name not found", "host name not found"]


def test_a_service_of_the_own_namespace_is_connected_to_and_that_of_another_is_not(
    start: Starting,
) -> None:
    host, full = "minio.lake.svc", "minio.lake.svc.cluster.local"
    names = Names()
    names.addresses = {host: "10.96.0.9"}
    names.canonical = {host: full}
    proxy = start(names, ranges="")
    with pytest.raises(StorageUnavailableError, match="a private address"):
        store_at(f"http://{host}:9000", proxy, namespace="sea").get("x")
    own, foreign = proxy.of("lake"), proxy.of("sea")
    assert own.checked_address(host, 5432) == "10.96.0.9"
    with pytest.raises(StorageUnavailableError, match="a private address"):
        foreign.checked_address(host, 5432)
    names.canonical = {host: "db.internal"}
    with pytest.raises(StorageUnavailableError, match="a private address"):
        own.checked_address(host, 5432)


def test_what_was_refused_before_does_not_explain_what_fails_later(start: Starting) -> None:
    names = Names(store_test="10.0.0.1")
    with SpyServer(lambda _: b"no HTTP\r\n\r\n") as spy:
        store = store_at(spy.url(HOST), start(names))
        with pytest.raises(StorageUnavailableError, match="a private address"):
            store.get("x")
        names.addresses[HOST] = "127.0.0.1"
        with pytest.raises(StorageUnavailableError) as caught:
            store.get("x")
    assert "private" not in str(caught.value)


def test_servers_that_cannot_be_reached_are_told_apart(start: Starting) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    proxy = start(Names(store_test="127.0.0.1"))
    for url, found in (
        (f"http://{HOST}:{port}", "connection refused"),
        (f"https://{HOST}:{port}", "connection refused"),
        ("http://unknown.test", "host name not found"),
    ):
        with pytest.raises(StorageUnavailableError, match=found):
            store_at(url, proxy).get("x")


def test_connections_that_show_no_ticket_keep_nobody_away(start: Starting) -> None:
    with SpyServer() as spy:
        proxy = start(Names(store_test="127.0.0.1"), limits=EgressLimits(connections_max=8))
        port = int(proxy.url_for("lake").rpartition(":")[2])
        nobodys = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        assert store_at(spy.url(HOST), proxy).get("a") == b"x"
        for store in nobodys:
            store.close()
