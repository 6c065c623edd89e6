"""Whose identity the operator uses at Google's and Azure's storage, and where it connects to.

In these tests the operator has identities of its own for both in its environment.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qs, urlsplit

import pytest

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.secret_values import masked
from tideline.storage.egress.proxy import EgressProxy
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.egress_case import PATIENT
from tideline.testing.fake_clock import FakeClock
from tideline.testing.gcs_server import service_account_key, signer_of
from tideline.testing.spy_server import SeenRequest, SpyServer, answer
from tideline.trust.addresses import AddressRules
from tideline_operator.api_objects import SECRETS, Manifest
from tideline_operator.controller.connections import FRESH_S, Connections, StoreAccess
from tideline_operator.controller.endpoints import Endpoints
from tideline_operator.controller.store_secrets import SecretProblemError
from tideline_operator.kube import KubeApi
from tideline_operator.resources.lake_store import (
    LakeStoreSpec,
    StoreAzure,
    StoreCredentials,
    StoreGoogle,
    StoreTls,
)
from tideline_operator.resources.resolving import store_options
from tideline_operator.testing.api_server import ApiServer

pytestmark = pytest.mark.api_server

HERE = "127.0.0.1"
ACCOUNT = "lake@own.iam.gserviceaccount.com"
KINDS = ("gs", "abfss")
DENIED = answer(b"<Error><Code>AccessDenied</Code></Error>", status="403 Forbidden")


@pytest.fixture(autouse=True)
def ambient(monkeypatch: pytest.MonkeyPatch) -> None:
    key = base64.b64encode(b"ambient").decode()
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", key)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "ambient")
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "ambient")
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", service_account_key("ambient@sea"))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def api(api_server: ApiServer) -> KubeApi:
    return api_server.api()


def connections_of(
    api: KubeApi, clock: FakeClock, egress: EgressProxy | None = None
) -> Connections:
    access = StoreAccess(egress, ambient_namespaces=frozenset({"trusted"}))
    return Connections(api, clock, "tideline-engine", Endpoints(clock), lambda: None, access)


def put_secret(api: KubeApi, namespace: str, content: Mapping[str, str]) -> None:
    data = {name: base64.b64encode(text.encode()).decode() for name, text in content.items()}
    secret: Manifest = {"apiVersion": "v1", "kind": "Secret", "data": data,
                        "metadata": {"name": "keys", "namespace": namespace}}  # fmt: skip
    api.apply(SECRETS, secret, namespace)


def store(kind: str, url: str, *, account: str = "own", has_keys: bool = True) -> LakeStoreSpec:
    keys = StoreCredentials(secret_name="keys") if has_keys else None
    if kind == "gs":
        return LakeStoreSpec(gcs=StoreGoogle(endpoint=url), credentials=keys)
    return LakeStoreSpec(azure=StoreAzure(account=account, endpoint=url), credentials=keys)


def opened(connections: Connections, namespace: str, *stores: LakeStoreSpec) -> ObjectStore:
    uri = "gs://lake/table" if stores[0].gcs else "az://lake/table"
    location = StoreLocation.of(uri, store_options(stores[0], ca_bundle=None))
    return location.open(connections.connect(namespace, stores))


def signers(spy: SpyServer) -> list[str]:
    return [signer(request) for request in spy.requests]


def signer(request: SeenRequest) -> str:
    """A service account, an account of Azure, or a signature; empty for nobody."""
    given = request.headers.get("authorization", "")
    for signature in parse_qs(urlsplit(request.target).query).get("sig", ()):
        return signature
    if given.startswith("SharedKey "):
        return given.removeprefix("SharedKey ").partition(":")[0]
    return signer_of(given)


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_without_a_secret_is_read_by_nobody_in_every_namespace(
    api: KubeApi, clock: FakeClock, kind: str
) -> None:
    """A token of the operator's would go to the server that a tenant names."""
    connections = connections_of(api, clock)
    with SpyServer() as spy:
        public = store(kind, spy.url(HERE), has_keys=False)
        for namespace in ("lake", "trusted"):
            assert opened(connections, namespace, public).get("x") == b"x"
    assert signers(spy) == ["", ""]
    assert all("authorization" not in request.headers for request in spy.requests)


@pytest.mark.parametrize("kind", KINDS)
def test_what_nobody_may_read_is_refused_with_the_remedy(
    api: KubeApi, clock: FakeClock, kind: str
) -> None:
    with SpyServer(lambda _: DENIED) as spy:
        found = opened(
            connections_of(api, clock), "lake", store(kind, spy.url(HERE), has_keys=False)
        )
        with pytest.raises(StorageUnavailableError, match=r"no identity .*: name credentials in"):
            found.get("x")


def test_requests_are_signed_with_what_the_secret_has_and_soon_with_what_it_has_then(
    api: KubeApi, namespace: str, clock: FakeClock
) -> None:
    connections = connections_of(api, clock)
    own = base64.b64encode(b"the own key").decode()
    rows: tuple[tuple[str, Mapping[str, str], str], ...] = (
        ("abfss", {"AZURE_STORAGE_ACCOUNT_KEY": own}, "own"),
        ("abfss", {"AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=the-signature"}, "the-signature"),
        ("gs", {"GOOGLE_SERVICE_ACCOUNT_KEY": service_account_key(ACCOUNT)}, ACCOUNT),
        ("gs", {"GOOGLE_SERVICE_ACCOUNT_KEY": service_account_key(f"b{ACCOUNT}")}, f"b{ACCOUNT}"),
    )
    with SpyServer() as spy:
        for kind, content, _ in rows:
            api.delete(SECRETS, "keys", namespace)
            put_secret(api, namespace, content)
            clock.advance(FRESH_S + 1)
            opened(connections, namespace, store(kind, spy.url(HERE))).get("x")
            assert [masked(text) for text in content.values()] == ["***"]
    assert signers(spy) == [expected for _, _, expected in rows]
    with pytest.raises(SecretProblemError, match=r"'keys' .* AZURE_STORAGE_ACCOUNT_KEY|neither"):
        connections.connect(namespace, [store("abfss", "https://store.test")])


@pytest.mark.parametrize("kind", KINDS)
def test_keys_are_used_where_the_stores_that_name_them_are(
    api: KubeApi, namespace: str, clock: FakeClock, kind: str
) -> None:
    content = {
        "AZURE_STORAGE_ACCOUNT_KEY": base64.b64encode(b"own").decode(),
        "GOOGLE_SERVICE_ACCOUNT_KEY": service_account_key(ACCOUNT),
    }
    put_secret(api, namespace, content)
    connections = connections_of(api, clock)
    with SpyServer() as meant, SpyServer() as stranger:
        own = store(kind, meant.url(HERE))
        connection = connections.connect(namespace, [own])
        others = [store(kind, stranger.url(HERE))]
        if kind == "abfss":
            others.append(store(kind, meant.url(HERE), account="other"))
        for other in others:
            uri = "gs://lake/table" if kind == "gs" else "az://lake/table"
            location = StoreLocation.of(uri, store_options(other, ca_bundle=None))
            with pytest.raises(ConfigError, match="not used at another endpoint, region or acc"):
                location.open(connection).get("x")
        with pytest.raises(ConfigError, match=f"are for {kind}:// locations"):
            StoreLocation.of("s3://lake/table", {}).open(connection).get("x")
        assert opened(connections, namespace, own).get("x") == b"x"
    assert stranger.connections == 0
    assert meant.connections == 1


def test_stores_of_several_kinds_have_no_connection_together(
    api: KubeApi, clock: FakeClock
) -> None:
    stores = [store(kind, "https://store.test", has_keys=False) for kind in KINDS]
    with pytest.raises(SecretProblemError, match="must be of one kind of store"):
        connections_of(api, clock).connect("lake", stores)


@pytest.fixture
def proxy() -> Iterator[EgressProxy]:
    running = EgressProxy(AddressRules(), remedy=": the remedy", limits=PATIENT).start()
    yield running
    running.close()


def test_servers_on_this_machine_are_not_connected_to(
    api: KubeApi, namespace: str, clock: FakeClock, proxy: EgressProxy
) -> None:
    """Neither a store nor the server of tokens that a tenant's Secret names."""
    words = r"127\.0\.0\.1 is a loopback address that is not connected to: the remedy"
    connections = connections_of(api, clock, proxy)
    with SpyServer() as spy:
        for kind in KINDS:
            for url in (spy.url(HERE), f"https://{HERE}:{spy.port}"):
                found = opened(connections, namespace, store(kind, url, has_keys=False))
                with pytest.raises(StorageUnavailableError, match=words):
                    found.get("x")
        client = {"AZURE_TENANT_ID": "own", "AZURE_CLIENT_ID": "id", "AZURE_CLIENT_SECRET": "cs-1",
                  "AZURE_AUTHORITY_HOST": spy.url(HERE)}  # fmt: skip
        put_secret(api, namespace, client)
        found = opened(connections, namespace, store("abfss", "https://store.test"))
        with pytest.raises(StorageUnavailableError, match=words):
            found.get("x")
    assert spy.connections == 0


@pytest.mark.parametrize("kind", KINDS)
def test_authorities_of_a_store_are_those_of_its_secret(
    api: KubeApi, namespace: str, clock: FakeClock, kind: str
) -> None:
    put_secret(api, namespace, {"ca.crt": "no certificate"})
    own = store(kind, "https://store.test", has_keys=False)
    tls = LakeStoreSpec(gcs=own.gcs, azure=own.azure, tls=StoreTls(ca_secret_name="keys"))
    connection = connections_of(api, clock).connect(namespace, [tls])
    assert connection.ca_certificates == b"no certificate"
