"""Whose identity the operator uses at stores, where it connects to, and what becomes of Secrets."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tideline.errors import ConfigError, StorageUnavailableError, TidelineError
from tideline.secret_values import masked
from tideline.storage.egress.proxy import EgressProxy
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.egress_case import PATIENT
from tideline.testing.fake_clock import FakeClock
from tideline.testing.patience import PATIENCE_S
from tideline.testing.spy_server import SpyServer, answer
from tideline.trust.addresses import AddressRules
from tideline_operator.api_objects import LAKE_STORES, SECRETS, Manifest
from tideline_operator.controller.connections import FRESH_S, Connections, StoreAccess
from tideline_operator.controller.endpoints import UNANSWERED_MAX, Endpoints
from tideline_operator.controller.store_secrets import SecretProblemError
from tideline_operator.kube import KubeApi
from tideline_operator.resources.lake_store import (
    LakeStoreSpec,
    StoreCredentials,
    StoreWebIdentity,
)
from tideline_operator.resources.resolving import store_options
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase

pytestmark = pytest.mark.api_server

HERE = "127.0.0.1"
DENIED = b"<Error><Code>AccessDenied</Code></Error>"
DIRECTLY = StoreAccess(egress=None)


@pytest.fixture(autouse=True)
def ambient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that has an identity of its own in its environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AMBIENT-ID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-ambient-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "the-ambient-token")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def api(api_server: ApiServer) -> KubeApi:
    return api_server.api()


@pytest.fixture
def proxy() -> Iterator[EgressProxy]:
    running = EgressProxy(AddressRules(), remedy=": the remedy", limits=PATIENT).start()
    yield running
    running.close()


def connections_of(
    api: KubeApi,
    clock: FakeClock,
    access: StoreAccess = DIRECTLY,
    endpoints: Endpoints | None = None,
) -> Connections:
    return Connections(
        api, clock, "tideline-engine", endpoints or Endpoints(clock), lambda: None, access
    )


def put_secret(api: KubeApi, namespace: str, key_id: str, name: str = "keys") -> None:
    pair = {"AWS_ACCESS_KEY_ID": key_id, "AWS_SECRET_ACCESS_KEY": f"the-secret-of-{key_id}"}
    data = {key: base64.b64encode(text.encode()).decode() for key, text in pair.items()}
    secret: Manifest = {"apiVersion": "v1", "kind": "Secret", "data": data,
                        "metadata": {"name": name, "namespace": namespace}}  # fmt: skip
    api.apply(SECRETS, secret, namespace)


def spec(url: str, **given: object) -> LakeStoreSpec:
    return LakeStoreSpec(endpoint=url, **given)  # type: ignore[arg-type]


def with_keys(url: str) -> LakeStoreSpec:
    return spec(url, credentials=StoreCredentials(secret_name="keys"))


def opened(connections: Connections, namespace: str, *stores: LakeStoreSpec) -> ObjectStore:
    options = store_options(stores[0], ca_bundle=None)
    location = StoreLocation.of("s3://bucket/table", options)
    return location.open(connections.connect(namespace, stores))


def signers(spy: SpyServer) -> list[str]:
    """Whose keys signed the requests, in order; empty for one that nobody signed."""
    found = (request.headers.get("authorization", "") for request in spy.requests)
    return [text.partition("Credential=")[2].partition("/")[0] for text in found]


def test_a_store_without_credentials_is_read_by_nobody_unless_the_chart_says_so(
    api: KubeApi, clock: FakeClock
) -> None:
    access = StoreAccess(egress=None, ambient_namespaces=frozenset({"trusted"}))
    connections = connections_of(api, clock, access)
    with SpyServer() as spy:
        for namespace in ("lake", "trusted"):
            assert opened(connections, namespace, spec(spy.url(HERE))).get("x") == b"x"
    assert signers(spy) == ["", "AMBIENT-ID"]
    assert "token" not in str(spy.requests[0].headers).lower()


def test_what_nobody_may_read_is_refused_with_the_remedy(api: KubeApi, clock: FakeClock) -> None:
    words = "no identity for this store: name credentials or webIdentity.*ambientIdentity"
    with SpyServer(lambda _: answer(DENIED, status="403 Forbidden")) as spy:
        store = opened(connections_of(api, clock), "lake", spec(spy.url(HERE)))
        with pytest.raises(StorageUnavailableError, match=words):
            store.get("x")


def test_the_keys_of_a_secret_are_those_of_its_namespace_and_known_as_secret(
    api: KubeApi, api_server: ApiServer, namespace: str, clock: FakeClock
) -> None:
    other = f"{namespace}-other"
    api_server.request("POST", "/api/v1/namespaces", {"metadata": {"name": other}})
    put_secret(api, namespace, "MINE")
    put_secret(api, other, "THEIRS")
    connections = connections_of(api, clock)
    with SpyServer() as spy:
        for name in (namespace, other, namespace):
            opened(connections, name, with_keys(spy.url(HERE))).get("x")
    assert signers(spy) == ["MINE", "THEIRS", "MINE"]
    assert masked("it is the-secret-of-MINE") == "it is ***"


def test_a_secret_that_is_rotated_counts_soon(
    api: KubeApi, namespace: str, clock: FakeClock
) -> None:
    put_secret(api, namespace, "FIRST")
    connections = connections_of(api, clock)
    with SpyServer() as spy:
        store = with_keys(spy.url(HERE))
        opened(connections, namespace, store).get("x")
        versions = connections.versions(namespace, [store])
        put_secret(api, namespace, "SECOND")
        clock.advance(FRESH_S + 1)
        opened(connections, namespace, store).get("x")
        assert connections.versions(namespace, [store]) != versions
        api.delete(SECRETS, "keys", namespace)
        clock.advance(FRESH_S + 1)
        with pytest.raises(SecretProblemError, match="there is no Secret 'keys'"):
            connections.connect(namespace, [store])
    assert signers(spy) == ["FIRST", "SECOND"]


def test_keys_are_used_at_the_endpoints_of_the_stores_that_name_them(
    api: KubeApi, namespace: str, clock: FakeClock
) -> None:
    put_secret(api, namespace, "MINE")
    connections = connections_of(api, clock)
    with SpyServer() as meant, SpyServer() as landing, SpyServer() as stranger:
        stores = [with_keys(meant.url(HERE)), with_keys(landing.url(HERE))]
        connection = connections.connect(namespace, stores)
        for spy in (meant, landing):
            options = {"endpoint": spy.url(HERE), "allow_http": "true"}
            StoreLocation.of("s3://bucket/table", options).open(connection).get("x")
        options = {"endpoint": stranger.url(HERE), "allow_http": "true"}
        with pytest.raises(ConfigError, match="not used at another endpoint"):
            StoreLocation.of("s3://bucket/table", options).open(connection).get("x")
        alone = connections.connect(namespace, stores[:1])
        options = {"endpoint": landing.url(HERE), "allow_http": "true"}
        with pytest.raises(ConfigError, match="not used at another endpoint"):
            StoreLocation.of("s3://bucket/table", options).open(alone).get("x")
    assert stranger.connections == 0


def test_changes_of_stores_leave_no_more_than_a_few_connections(
    api: KubeApi, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline_operator.controller.connections.CONNECTIONS_PER_NAMESPACE_MAX", 3)
    connections = connections_of(api, clock)
    stores = [spec(f"https://store{number}.test") for number in range(5)]
    kept = connections.connect("sea", stores[:1])
    for store in stores:
        clock.advance(1.0)
        connections.connect("lake", [store])
    assert len(connections._known) == 4
    assert connections.connect("sea", stores[:1]) is kept
    newest = connections.connect("lake", stores[4:])
    assert connections.connect("lake", stores[4:]) is newest


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_endpoints_on_this_machine_are_not_connected_to(
    api: KubeApi, clock: FakeClock, proxy: EgressProxy, scheme: str
) -> None:
    words = r"127\.0\.0\.1 is a loopback address that is not connected to: the remedy"
    connections = connections_of(api, clock, StoreAccess(proxy))
    with SpyServer() as spy:
        store = opened(connections, "lake", spec(f"{scheme}://{HERE}:{spy.port}"))
        messages = set()
        for _ in range(UNANSWERED_MAX + 1):
            with pytest.raises(StorageUnavailableError, match=words) as caught:
                store.get("x")
            messages.add(str(caught.value))
    # The same words once the endpoint is left alone, so that conditions do not change.
    assert len(messages) == 1
    assert spy.connections == 0


def test_a_token_of_a_namespace_goes_to_no_sts_on_this_machine(
    api: KubeApi, api_server: ApiServer, namespace: str, clock: FakeClock, proxy: EgressProxy
) -> None:
    account: Manifest = {"metadata": {"name": "tideline-engine"}}
    api_server.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    connections = connections_of(api, clock, StoreAccess(proxy))
    with SpyServer() as sts:
        identity = StoreWebIdentity(
            role_arn="arn:aws:iam::1:role/lake", audience="sts", sts_endpoint=sts.url(HERE)
        )
        store = opened(connections, namespace, spec("https://s3.test", web_identity=identity))
        with pytest.raises(StorageUnavailableError, match=r"the STS .*a loopback address"):
            store.get("x")
    assert sts.connections == 0


def test_an_endpoint_that_fails_for_one_namespace_is_left_alone_there_only(
    api: KubeApi, clock: FakeClock
) -> None:
    """One namespace has wrong settings for an endpoint that another reaches."""
    endpoints = Endpoints(clock)
    connections = connections_of(api, clock, endpoints=endpoints)
    answers = [b"no HTTP\r\n\r\n"]
    with SpyServer(lambda _: answers[0]) as spy:
        store = spec(spy.url(HERE))
        for _ in range(UNANSWERED_MAX):
            with pytest.raises(TidelineError):
                opened(connections, "lake", store).get("x")
        answers[0] = answer(b"x")
        assert opened(connections, "sea", store).get("x") == b"x"
        with pytest.raises(StorageUnavailableError):
            opened(connections, "lake", store).get("x")
    assert [endpoint.namespace for endpoint in endpoints.unavailable] == ["lake"]


_STARTED = """
from pathlib import Path
from tideline.errors import ConfigError
from tideline.storage.location import StoreLocation
from tideline_operator.controller.main import run_controller
try:
    run_controller(Path("no-such-kubeconfig"))
except ConfigError:
    options = {{"endpoint": "{url}", "allow_http": "true"}}
    StoreLocation.of("s3://bucket/table", options).open().get("x")
"""


def test_the_process_opens_no_store_with_what_its_environment_gives() -> None:
    """Wherever in the engine a store is opened without the connection of its LakeStore."""
    with SpyServer() as spy:
        done = subprocess.run(
            [sys.executable, "-c", _STARTED.format(url=spy.url(HERE))],
            env={**os.environ, "TIDELINE_ENGINE_IMAGE": "engine:1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
    assert "this process has no identity of its own at stores" in done.stderr
    assert spy.connections == 0


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


def put_store(case: ControllerCase, **given: object) -> None:
    store: Manifest = {
        "apiVersion": LAKE_STORES.api_version,
        "kind": LAKE_STORES.kind,
        "metadata": {"name": "store", "namespace": case.namespace},
        "spec": given,
    }
    case.api.apply(LAKE_STORES, store, case.namespace)


def message(case: ControllerCase, name: str = "people") -> str:
    return str(case.condition("Ready", name).get("message"))


def test_a_table_at_an_address_that_is_refused_says_so(case: ControllerCase) -> None:
    with SpyServer() as spy:
        put_store(case, endpoint=spy.url(HERE))
        case.declare(storeRef="store", location="s3://lake/people", ingest=None)
        case.start(addresses=AddressRules())
        case.until(lambda: "egress.allowedRanges of the chart" in message(case), "the condition")
        assert case.condition("Ready")["status"] == "False"
        case.stop()
    assert spy.connections == 0


def test_a_table_that_only_its_pods_may_read_says_what_to_do(case: ControllerCase) -> None:
    with SpyServer(lambda _: answer(DENIED, status="403 Forbidden")) as spy:
        put_store(case, endpoint=spy.url(HERE))
        case.declare(storeRef="store", location="s3://lake/people", ingest=None)
        case.start()
        case.until(lambda: "ambientIdentity.namespaces" in message(case), "the condition")
        assert case.condition("Ready")["reason"] == "StorageUnavailable"
        case.stop()
    assert set(signers(spy)) == {""}


def speaks_of_a_loopback(case: ControllerCase, name: str) -> bool:
    return "a loopback address" in message(case, name)


def test_a_catalog_on_this_machine_is_not_connected_to(case: ControllerCase) -> None:
    pytest.importorskip("pyiceberg")
    no_hudi = {"location": None, "recordKey": None, "ordering": None, "schema": None,
               "ingest": None}  # fmt: skip
    with SpyServer() as spy:
        uris = {"plain": spy.url(HERE), "secure": f"https://{HERE}:{spy.port}"}
        for name, uri in uris.items():
            catalog = {"type": "rest", "name": "lake", "uri": uri, "table": f"shop.{name}"}
            case.declare(name, format="Iceberg", services={"mode": "Off"}, catalog=catalog,
                         **no_hudi)  # fmt: skip
        case.start(addresses=AddressRules())
        for name in uris:
            case.until(partial(speaks_of_a_loopback, case, name), name)
        case.stop()
    assert spy.connections == 0
