"""The ways to catalogs: by a proxy for REST, to an address that was checked for SQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.errors import ConfigError, StorageUnavailableError, TidelineError
from tideline.ingest.location import Location
from tideline.storage.egress.proxy import EgressProxy
from tideline.storage.remote.client import RequestLimits
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline.testing.hostile_catalog import HostileCatalog, configuring_table
from tideline.trust.sql_address import resource_sql_address
from tideline_operator.reading.access import Access

pytest.importorskip("pyiceberg")

from tideline.iceberg.table.catalog_opening import asking_catalog, open_catalog
from tideline.iceberg.table.open_table import IcebergTable
from tideline.testing.egress_case import OpenGate, running_proxy
from tideline.testing.spy_server import SeenRequest, SpyServer, answer

ADDRESSES = {
    "db.example": "93.184.216.34",
    "metadata.example": "169.254.169.254",
    "inside.example": "10.0.0.9",
    "rest.example": "127.0.0.1",
    "elsewhere.example": "127.0.0.1",
}
CONFIG = answer(b'{"defaults": {}, "overrides": {}}')


@pytest.fixture
def proxy() -> Iterator[EgressProxy]:
    with running_proxy(ADDRESSES) as running:
        yield running


def test_a_sql_catalog_is_connected_to_at_the_address_that_was_checked(proxy: EgressProxy) -> None:
    uri = "postgresql+psycopg2://lake:p%40ss@db.example:6432/catalog?sslmode=verify-full"
    opened = resource_sql_address(uri, proxy.of("lake").checked_address)
    assert opened.startswith("postgresql+psycopg2://lake:p%40ss@db.example:6432/catalog?")
    assert opened.endswith("&sslmode=verify-full&hostaddr=93.184.216.34")


@pytest.mark.parametrize("host", ["inside.example", "metadata.example"])
def test_a_sql_catalog_at_an_address_that_is_refused_is_not_opened(
    proxy: EgressProxy, host: str
) -> None:
    access = Access(egress=proxy.of("lake"), catalog_server="catalog x").catalog_access
    properties = {"type": "sql"}
    secret = {"uri": f"postgresql://lake:password@{host}/catalog"}
    with pytest.raises(StorageUnavailableError, match=f"{host} resolves to"):
        open_catalog("lake", properties, credentials=secret, access=access)


@pytest.mark.parametrize("address", ["10.0.0.9", "167772169"])
def test_a_tenant_gives_no_numeric_address_of_his_own(proxy: EgressProxy, address: str) -> None:
    uri = f"postgresql://lake:password@db.example/catalog?hostaddr={address}"
    with pytest.raises(ConfigError, match="SQL catalog"):
        resource_sql_address(uri, proxy.of("lake").checked_address)


def test_no_answer_of_a_rest_catalog_leads_around_the_proxy(
    proxy: EgressProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its own properties nor the environment of the process."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    access = Access(egress=proxy.of("lake"), catalog_server="catalog x").catalog_access
    with SpyServer() as metadata:
        overrides = b'{"defaults": {}, "overrides": {"uri": "%s"}}'

        def answering(request: SeenRequest) -> bytes:
            if "/v1/config" in request.target:
                return answer(overrides % f"http://metadata.example:{metadata.port}".encode())
            return answer(b'{"namespaces": []}')

        with SpyServer(answering) as spy:
            properties = {"type": "rest", "uri": spy.url("rest.example")}
            opened = open_catalog("lake", properties, credentials={"token": "t"}, access=access)
            assert opened.list_namespaces() == []
            assert {seen.headers["host"] for seen in spy.requests} == {f"rest.example:{spy.port}"}
    assert metadata.connections == 0


def test_a_redirect_of_a_catalog_is_not_followed(
    proxy: EgressProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine elsewhere.example login operator password of-the-operator\n")
    monkeypatch.setenv("NETRC", str(netrc))
    access = Access(egress=proxy.of("lake"), catalog_server="catalog x").catalog_access
    with SpyServer(lambda _: answer(b'{"namespaces": []}')) as other:
        location = f"Location: {other.url('elsewhere.example')}/"

        def answering(request: SeenRequest) -> bytes:
            if "/v1/config" in request.target:
                return CONFIG
            return answer(b"", location, status="307 Temporary Redirect")

        with SpyServer(answering) as spy:
            properties = {"type": "rest", "uri": spy.url("rest.example")}
            opened = open_catalog("lake", properties, credentials={"token": "t"}, access=access)
            with pytest.raises(TidelineError, match="redirects"), asking_catalog():
                opened.list_namespaces()
    assert other.connections == 0


def test_the_message_says_why_a_catalog_is_not_connected_to(proxy: EgressProxy) -> None:
    """What a client of a proxy makes of a refusal says nothing."""
    gate = OpenGate()
    access = Access(catalog_gate=gate, catalog_server="catalog x", egress=proxy.of("lake"))
    properties = {"type": "rest", "uri": "http://metadata.example"}
    with (
        pytest.raises(StorageUnavailableError, match=r"resolves to 169\.254\.169\.254"),
        access.asking_catalog(),
    ):
        open_catalog("lake", properties, access=access.catalog_access)
    assert "169.254.169.254" in str(gate.problems)


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        ("https://inside.example", "inside.example resolves to"),
        ("https://metadata.example", "metadata.example resolves to"),
        ("https://10.0.0.9", "10.0.0.9"),
        ("http://rest.example", "needs --allow-http"),
    ],
)
def test_vended_credentials_go_where_addresses_are_checked(
    proxy: EgressProxy, endpoint: str, problem: str
) -> None:
    vended = {
        "s3.access-key-id": "KEY",
        "s3.secret-access-key": "the-vended-secret",
        "s3.session-token": "the-vended-token",
        "s3.endpoint": endpoint,
    }
    limits = RequestLimits(2.0, 2.0, 2.0, retries_max=1, retry_timeout_s=1.0)
    way = proxy.of("lake")
    own = StoreConnection(S3Credentials("OWN", "the-own-secret"), limits=limits, egress=way)
    access = Access(own, egress=way, catalog_server="catalog x")
    with HostileCatalog("s3://bucket/orders") as catalog:
        host = "rest.example"
        catalog.alter("table", configuring_table(vended))
        with pytest.raises(TidelineError, match=problem) as caught:
            table = IcebergTable.from_catalog(
                "lake",
                "shop.orders",
                properties={"type": "rest", "uri": catalog.url.replace("127.0.0.1", host)},
                open_store=lambda at: access.open_store(Location(at.uri, at.options)),
                access=access.catalog_access,
            )
            table.io.read("s3://bucket/orders/data/a.parquet")
    assert "the-" not in str(caught.value)
