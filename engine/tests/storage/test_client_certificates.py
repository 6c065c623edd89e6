"""A store that demands certificates of its clients: named as such, and reached by a gateway."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.storage.location import StoreLocation
from tideline.storage.remote.failure import CLIENT_CERTIFICATE, RequestFailure
from tideline.storage.s3.store import S3_WORDS
from tideline.testing.minio_server import MinioServer
from tideline.testing.ruled_s3_server import RuledS3Server
from tideline.testing.s3_peer_contract import store_report
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.spy_server import make_certificate
from tideline.testing.tls_front import Pair, TlsFront


@dataclass(frozen=True)
class Certificates:
    """Of the server, of its clients, and of a gateway: the authority of each, and what it gave."""

    server: tuple[bytes, Pair]
    client: tuple[bytes, Pair]
    gateway: tuple[bytes, Pair]
    bundle: Path
    """The authorities of the server and the gateway, as a file."""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    server, client, gateway = (
        make_certificate(tmp_path_factory.mktemp(name), "localhost")
        for name in ("server", "client", "gateway")
    )
    bundle = tmp_path_factory.mktemp("bundle") / "authorities.crt"
    bundle.write_bytes(server[0] + gateway[0])
    return Certificates(server, client, gateway, bundle)


def front_of(
    port: int, certificates: Certificates, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> TlsFront:
    """A server of TLS before a port of this machine that demands a certificate of its clients."""
    return TlsFront(
        ("127.0.0.1", port),
        certificate=certificates.server[1],
        demands=certificates.client[0],
        newest=newest,
    )


@pytest.mark.parametrize(
    ("newest", "words"),
    [
        (ssl.TLSVersion.TLSv1_3, ": the server demands a certificate of its clients"),
        pytest.param(
            ssl.TLSVersion.TLSv1_2,
            "it may be that the server demands a certificate of its clients",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_server_that_demands_a_certificate_is_named(
    certificates: Certificates,
    newest: ssl.TLSVersion,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up-secret")
    with RuledS3Server("lake") as server:
        port = int(server.url.rpartition(":")[2])
        with front_of(port, certificates, newest) as front:
            options = {"endpoint": front.endpoint, "ca_bundle": str(certificates.bundle)}
            store = StoreLocation.of("s3://lake/table", options).open()
            with pytest.raises(StorageUnavailableError, match=words) as caught:
                store.put("a", b"x")
            assert "put a gateway before it" in caught.value.message
            assert (front.relayed, front.connections > 0) == (0, True)
        assert not server.buckets["lake"].objects


@pytest.mark.parametrize("alert", ["CertificateRequired", "BadCertificate"])
def test_what_a_server_did_not_take_has_not_happened(alert: str) -> None:
    """Go's servers say it in the second way with TLS 1.2."""
    failure = RequestFailure.of(OSError(f"error: AlertReceived(\n    {alert},\n)"), S3_WORDS)
    assert failure.transport == CLIENT_CERTIFICATE
    assert not failure.outcome_unknown


@pytest.mark.parametrize("name", ["client_certificate", "client_key"])
def test_a_certificate_as_an_option_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}': no certificate is presented.*gateway"):
        StoreLocation.of("s3://lake/table", {name: "client.pem"})


@pytest.fixture(params=["on loopback", "with TLS of its own"])
def gateway(
    request: pytest.FixtureRequest, certificates: Certificates, minio_server: MinioServer
) -> Iterator[TlsFront]:
    """Before a MinIO that only clients with certificates reach."""
    presents = (certificates.client[1], certificates.server[0])
    own = certificates.gateway[1] if request.param == "with TLS of its own" else None
    port = int(minio_server.address.rpartition(":")[2])
    with (
        front_of(port, certificates) as front,
        TlsFront(front.address, certificate=own, presents=presents) as gateway,
    ):
        yield gateway
        assert (front.refused, gateway.refused) == (0, 0)


@pytest.mark.slow
@pytest.mark.minio
@pytest.mark.usefixtures("minio_credentials")
def test_tables_are_written_and_stores_checked_through_a_gateway(
    gateway: TlsFront, certificates: Certificates, minio_bucket: str
) -> None:
    is_plain = gateway.endpoint.startswith("http:")
    options = {"endpoint": gateway.endpoint, "allow_http": str(is_plain).lower()}
    if not is_plain:
        options["ca_bundle"] = str(certificates.bundle)
    place = StoreLocation.of(f"s3://{minio_bucket}/{secrets.token_hex(6)}/table", options)
    report = store_report(place)
    assert (report.complaints, report.notes) == ((), ())
    table = SmallTable.create(place)
    table.write("insert", batch(range(3), 1))
    table.write("upsert", batch([0], 2))
    assert [value for _, value in table.values()] == [2, 1, 1]
    large = bytes(9 << 20)
    with place.open().open_writer("large") as stream:
        stream.write(large)
    assert place.open().get("large") == large
    assert gateway.relayed > 0
