"""LakeStores whose endpoint demands a certificate of its clients: the operator shows that of their
Secret, by way of its egress proxy, and reading processes do."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tideline.errors import StorageUnavailableError
from tideline.secret_values import masked
from tideline.storage.egress.proxy import EgressProxy
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.storage.remote.connection import StoreConnection
from tideline.testing.egress_case import PATIENT
from tideline.testing.fake_clock import FakeClock
from tideline.testing.ruled_s3_server import RuledS3Server
from tideline.testing.spy_server import make_certificate
from tideline.testing.tls_front import Pair, TlsFront
from tideline.trust.addresses import AddressRules
from tideline_operator.api_objects import SECRETS
from tideline_operator.controller.connections import FRESH_S, Connections, StoreAccess
from tideline_operator.controller.endpoints import Endpoints
from tideline_operator.controller.store_secrets import SecretProblemError
from tideline_operator.kube import KubeApi
from tideline_operator.reading.access import ConnectionPool, StoreKeys
from tideline_operator.reading.codec import from_bytes, to_bytes
from tideline_operator.resources.lake_store import (
    LakeStoreSpec,
    StoreClientCertificate,
    StoreCredentials,
    StoreTls,
)
from tideline_operator.resources.resolving import store_options
from tideline_operator.testing.api_server import ApiServer

pytestmark = pytest.mark.api_server


@dataclass(frozen=True)
class Certificates:
    """The authority and the certificate of the server, and of clients that it knows and not."""

    server: tuple[bytes, Pair]
    known: tuple[bytes, Pair]
    unknown: tuple[bytes, Pair]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(
        *(make_certificate(tmp_path_factory.mktemp(name), "localhost") for name in "abc")
    )


@pytest.fixture
def front(certificates: Certificates) -> Iterator[TlsFront]:
    with RuledS3Server("lake") as server:
        place = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        with TlsFront(
            place, certificate=certificates.server[1], demands=certificates.known[0]
        ) as front:
            yield front


@pytest.fixture(params=["directly", "through the egress proxy"])
def egress(request: pytest.FixtureRequest) -> Iterator[EgressProxy | None]:
    if request.param == "directly":
        yield None
        return
    rules = AddressRules.of("127.0.0.0/8")
    proxy = EgressProxy(
        rules, resolve=lambda host, _: (host, ("127.0.0.1",)), limits=PATIENT
    ).start()
    yield proxy
    proxy.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def connections(api_server: ApiServer, clock: FakeClock, egress: EgressProxy | None) -> Connections:
    access = StoreAccess(egress=egress)
    api = api_server.api()
    return Connections(api, clock, "tideline-engine", Endpoints(clock), lambda: None, access)


@pytest.fixture
def api(api_server: ApiServer) -> KubeApi:
    return api_server.api()


def put_secret(api: KubeApi, namespace: str, name: str, **texts: bytes) -> None:
    data = {key.replace("_", "."): base64.b64encode(text).decode() for key, text in texts.items()}
    metadata = {"name": name, "namespace": namespace}
    secret = {"apiVersion": "v1", "kind": "Secret", "data": data, "metadata": metadata}
    api.apply(SECRETS, secret, namespace)


def show(api: KubeApi, namespace: str, pair: Pair) -> None:
    certificate, key = (path.read_bytes() for path in pair)
    put_secret(api, namespace, "shown", tls_crt=certificate, tls_key=key)


@pytest.fixture
def spec(
    front: TlsFront, api: KubeApi, namespace: str, certificates: Certificates
) -> LakeStoreSpec:
    keys = {"AWS_ACCESS_KEY_ID": b"an-id", "AWS_SECRET_ACCESS_KEY": b"made-up-secret"}
    data = {key: base64.b64encode(text).decode() for key, text in keys.items()}
    metadata = {"name": "keys", "namespace": namespace}
    secret = {"apiVersion": "v1", "kind": "Secret", "data": data, "metadata": metadata}
    api.apply(SECRETS, secret, namespace)
    put_secret(api, namespace, "authorities", ca_crt=certificates.server[0])
    show(api, namespace, certificates.known[1])
    return LakeStoreSpec(
        endpoint=front.endpoint,
        credentials=StoreCredentials(secret_name="keys"),
        tls=StoreTls(ca_secret_name="authorities"),
        client_certificate=StoreClientCertificate(secret_name="shown"),
    )


def opened(spec: LakeStoreSpec, connection: StoreConnection) -> ObjectStore:
    location = StoreLocation.of("s3://lake/table", store_options(spec, ca_bundle=None))
    return location.open(connection)


class Open:
    """A gate that refuses nothing."""

    def refusal(self, server: str, *, writes: bool) -> None: ...

    def note(self, server: str, problem: str | None) -> None: ...


def test_the_certificate_of_a_secret_is_shown_and_another_once_it_is_rotated(
    connections: Connections,
    spec: LakeStoreSpec,
    api: KubeApi,
    namespace: str,
    certificates: Certificates,
    clock: FakeClock,
) -> None:
    first = connections.connect(namespace, [spec])
    opened(spec, first).put("x", b"1")
    key = certificates.known[1][1].read_text()
    assert key.split("\n")[1] not in masked(f"it was {key}")
    show(api, namespace, certificates.unknown[1])
    clock.advance(FRESH_S + 1)
    second = connections.connect(namespace, [spec])
    assert second is not first
    words = "Secret 'shown' is of an authority that the server does not know"
    with pytest.raises(StorageUnavailableError, match=words):
        opened(spec, second).get("x")
    show(api, namespace, certificates.known[1])
    clock.advance(FRESH_S + 1)
    assert opened(spec, connections.connect(namespace, [spec])).get("x") == b"1"


def test_a_reading_process_shows_what_it_was_handed(
    connections: Connections, spec: LakeStoreSpec, namespace: str
) -> None:
    connection = connections.connect(namespace, [spec])
    opened(spec, connection).put("x", b"1")
    handed = from_bytes(StoreKeys, to_bytes(StoreKeys, StoreKeys.of(connection)))
    with ConnectionPool().connection(handed, Open(), lambda: "") as given:
        assert opened(spec, given).get("x") == b"1"
    assert "PRIVATE" not in repr(handed)


def test_a_secret_that_is_not_whole_is_named(
    connections: Connections,
    spec: LakeStoreSpec,
    api: KubeApi,
    namespace: str,
    certificates: Certificates,
) -> None:
    certificate, foreign = certificates.known[1][0], certificates.unknown[1][1]
    show(api, namespace, (certificate, foreign))
    words = r"spec\.clientCertificate\.secretName: Secret 'shown': certificate and key do not go"
    with pytest.raises(SecretProblemError, match=words) as caught:
        connections.connect(namespace, [spec])
    assert caught.value.reason == "SecretIncomplete"
