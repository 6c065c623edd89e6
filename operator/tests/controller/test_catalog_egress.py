"""The ways to catalogs: by a proxy for REST, to an address that was judged for SQL."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.secret_values import masked
from tideline.storage.egress_proxy import EgressProxy
from tideline.testing.fake_clock import FakeClock
from tideline.trust.addresses import AddressRules
from tideline_operator.api_objects import SECRETS
from tideline_operator.controller.catalog_egress import CatalogEgress, pinned_uri
from tideline_operator.controller.catalog_secrets import CatalogSecrets
from tideline_operator.controller.connections import FRESH_S
from tideline_operator.resources.iceberg import CatalogConnection, CatalogCredentials, CatalogType
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.table_states import resolved_iceberg

pytest.importorskip("pyiceberg")

from tideline.iceberg.table.catalog_table import open_catalog
from tideline.testing.spy_server import SeenRequest, SpyServer, answer

ADDRESSES = {
    "db.example": "93.184.216.34",
    "metadata.example": "169.254.169.254",
    "inside.example": "10.0.0.9",
    "rest.example": "127.0.0.1",
    "elsewhere.example": "127.0.0.1",
}


@pytest.fixture
def proxy() -> Iterator[EgressProxy]:
    rules = AddressRules.of("127.0.0.0/8")
    running = EgressProxy(rules, resolve=lambda host, _: (host, (ADDRESSES[host],))).start()
    yield running
    running.close()


def test_a_sql_catalog_is_connected_to_at_the_address_that_was_judged(proxy: EgressProxy) -> None:
    uri = "postgresql+psycopg2://lake:p%40ss@db.example:6432/catalog?sslmode=verify-full"
    assert pinned_uri(uri, proxy, "lake") == f"{uri}&hostaddr=93.184.216.34"
    plain = pinned_uri("postgresql://db.example/catalog", proxy, "lake")
    assert plain == "postgresql://db.example/catalog?hostaddr=93.184.216.34"


@pytest.mark.parametrize("host", ["inside.example", "metadata.example"])
def test_a_sql_catalog_at_an_address_that_is_refused_is_not_opened(
    proxy: EgressProxy, host: str
) -> None:
    with pytest.raises(StorageUnavailableError, match=f"{host} resolves to"):
        pinned_uri(f"postgresql://{host}/catalog", proxy, "lake")


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://db.example/c?host=inside.example",
        "postgresql://db.example/c?hostaddr=10.0.0.9",
        "postgresql://db.example/c?service=other",
        "postgresql://db.example/c?passfile=/etc/passwd",
        "postgresql://db.example/c?sslkey=/run/secrets/key",
        "postgresql://db.example/c?sslmode=require&sslmode",
        "postgresql:///c?host=/var/run/postgresql",
        "postgresql:///c",
        "postgresql+asyncpg://db.example/c",
        "postgresql://db.example:port/c",
        "mysql+pymysql://db.example/c",
    ],
)
def test_addresses_of_sql_catalogs_that_lead_elsewhere_are_refused(
    proxy: EgressProxy, uri: str
) -> None:
    with pytest.raises(ConfigError, match="SQL catalog"):
        pinned_uri(uri, proxy, "lake")


def test_the_address_in_a_secret_is_the_one_that_is_judged(proxy: EgressProxy) -> None:
    catalog = {"type": "sql", "name": "lake", "table": "shop.orders"}
    table = resolved_iceberg(catalog={**catalog, "uri": "postgresql://db.example/c"})
    secret = {"uri": "postgresql://inside.example/c", "token": "t"}
    with pytest.raises(StorageUnavailableError, match=r"inside\.example resolves to"):
        CatalogEgress.of(proxy, table, secret).pinned()
    pinned = CatalogEgress.of(proxy, table, {"token": "t"}).pinned()
    assert pinned == {"token": "t", "uri": "postgresql://db.example/c?hostaddr=93.184.216.34"}
    assert CatalogEgress.of(None, table, secret).pinned() == secret


def test_no_answer_of_a_rest_catalog_leads_around_the_proxy(
    proxy: EgressProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its own properties, nor a redirect, nor the environment of the process."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    overrides = b'{"defaults": {}, "overrides": {"tideline.proxy-url": "", "uri": "%s"}}'
    with SpyServer() as metadata:

        def answering(request: object) -> bytes:
            if "/v1/config" in str(request):
                return answer(overrides % f"http://metadata.example:{metadata.port}".encode())
            return answer(b"{}")

        with SpyServer(answering) as spy:
            egress = proxy.of("lake").anywhere("test")
            properties = {"type": "rest", "uri": spy.url("rest.example")}
            opened = open_catalog(
                "lake", properties, credentials={"token": "t"}, proxy_url=egress.proxy_url
            )
            with pytest.raises(Exception, match=r"403|EgressRefused"):
                opened.list_namespaces()
    assert spy.requests[0].headers["host"] == f"rest.example:{spy.port}"
    assert "metadata.example resolves to 169.254.169.254" in str(egress.problem())
    assert metadata.connections == 0


@pytest.mark.api_server
def test_secrets_of_catalogs_are_those_of_their_namespace_and_their_newest_version(
    api_server: ApiServer, namespace: str
) -> None:
    api, clock, other = api_server.api(), FakeClock(), f"{namespace}-other"
    api_server.request("POST", "/api/v1/namespaces", {"metadata": {"name": other}})
    catalog = CatalogConnection(
        type=CatalogType.REST, credentials=CatalogCredentials(secret_name="catalog")
    )
    secrets = CatalogSecrets(api, clock)

    def put(where: str, token: str) -> None:
        data = {"PYICEBERG_CATALOG__LAKE__TOKEN": base64.b64encode(token.encode()).decode()}
        secret = {"apiVersion": "v1", "kind": "Secret", "data": data,
                  "metadata": {"name": "catalog", "namespace": where}}  # fmt: skip
        api.apply(SECRETS, secret, where)

    put(namespace, "the-first-token")
    put(other, "the-other-token")
    for where, token in ((namespace, "the-first-token"), (other, "the-other-token")):
        assert secrets.credentials(where, catalog) == {"token": token}
    version = secrets.versions(namespace, catalog)
    put(namespace, "the-second-token")
    clock.advance(FRESH_S + 1)
    assert secrets.credentials(namespace, catalog) == {"token": "the-second-token"}
    assert secrets.versions(namespace, catalog) != version
    assert masked("it is the-second-token") == "it is ***"


def test_a_redirect_of_a_catalog_gets_no_credentials_of_the_process_nor_of_the_table(
    proxy: EgressProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine elsewhere.example login operator password of-the-operator\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with SpyServer(lambda _: answer(b'{"namespaces": []}')) as other:
        location = f"Location: {other.url('elsewhere.example')}/"

        def answering(request: SeenRequest) -> bytes:
            if "/v1/config" in request.target:
                return answer(b'{"defaults": {}, "overrides": {}}')
            return answer(b"", location, status="307 Temporary Redirect")

        with SpyServer(answering) as spy:
            opened = open_catalog(
                "lake",
                {"type": "rest", "uri": spy.url("rest.example")},
                credentials={"token": "the-token"},
                proxy_url=proxy.of("lake").anywhere("test").proxy_url,
            )
            opened.list_namespaces()
    assert "the-token" in spy.seen()
    assert other.requests
    assert "authorization" not in other.requests[0].headers


def test_a_secret_does_not_lead_around_the_proxy(proxy: EgressProxy) -> None:
    """A property of the Secret named like the proxy's is not the proxy's."""
    with SpyServer(lambda _: answer(b'{"defaults": {}, "overrides": {}}')) as spy:
        route = proxy.of("lake").anywhere("test")
        open_catalog(
            "lake",
            {"type": "rest", "uri": spy.url("rest.example")},
            credentials={"tideline.proxy-url": "http://127.0.0.1:1", "token": "t"},
            proxy_url=route.proxy_url,
        )
    assert len(spy.requests) == 1
