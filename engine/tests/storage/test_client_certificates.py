"""A store that demands certificates of its clients: one that is shown, and a gateway before it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import ssl
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tideline.cli.main import run
from tideline.errors import ConfigError, StorageUnavailableError
from tideline.storage.egress.certificate_relay import CertificateRelay
from tideline.storage.egress.client_certificate import WatchedFiles
from tideline.storage.egress.client_files import ClientFiles
from tideline.storage.location import StoreLocation
from tideline.storage.remote.failure import CLIENT_CERTIFICATE, WRONG_CERTIFICATE, RequestFailure
from tideline.storage.s3.store import S3_WORDS
from tideline.testing.minio_server import MinioServer
from tideline.testing.ruled_s3_server import RuledS3Server
from tideline.testing.s3_peer_contract import store_report
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.spy_server import make_certificate
from tideline.testing.store_contract import StoreContract
from tideline.testing.tls_front import Pair, TlsFront

TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@dataclass(frozen=True)
class Certificates:
    """Of the server, of its clients, and of a gateway: the authority of each, and what it gave."""

    server: tuple[bytes, Pair]
    client: tuple[bytes, Pair]
    other: tuple[bytes, Pair]
    ended: tuple[bytes, Pair]
    gateway: tuple[bytes, Pair]
    bundle: Path
    """The authorities of the server and the gateway, as a file."""

    def shown(self, pair: Pair | None) -> dict[str, str]:
        """Storage options that show a certificate."""
        trusted = {"ca_bundle": str(self.bundle)}
        if pair is None:
            return trusted
        return {**trusted, "client_certificate": str(pair[0]), "client_key": str(pair[1])}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    server, client, other, ended, gateway = (
        make_certificate(tmp_path_factory.mktemp(name), "localhost", days=days)
        for name, days in (("server", 2), ("client", 2), ("other", 2), ("ended", -1), ("gate", 2))
    )
    bundle = tmp_path_factory.mktemp("bundle") / "authorities.crt"
    bundle.write_bytes(server[0] + gateway[0])
    return Certificates(server, client, other, ended, gateway, bundle)


def front_of(
    port: int,
    certificates: Certificates,
    newest: ssl.TLSVersion = TLS_1_3,
    demands: bytes | None = None,
) -> TlsFront:
    """A server of TLS before a port of this machine that demands a certificate of its clients."""
    return TlsFront(
        ("127.0.0.1", port),
        certificate=certificates.server[1],
        demands=demands or certificates.client[0],
        newest=newest,
    )


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RuledS3Server]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up-secret")
    with RuledS3Server("lake") as server:
        yield server


@pytest.mark.parametrize("newest", [TLS_1_3, TLS_1_2])
@pytest.mark.parametrize(
    ("which", "words"),
    [
        ("other", "other.*is of an authority that the server does not know"),
        ("ended", "ended.*has expired for the server: renew it"),
    ],
)
def test_a_certificate_that_is_refused_is_named_and_the_request_has_not_happened(
    which: str,
    words: str,
    newest: ssl.TLSVersion,
    certificates: Certificates,
    server: RuledS3Server,
) -> None:
    authority, pair = getattr(certificates, which)
    demands = authority if which == "ended" else None
    with front_of(port_of(server.url), certificates, newest, demands) as front:
        options = {"endpoint": front.endpoint, **certificates.shown(pair)}
        store = StoreLocation.of("s3://lake/table", options).open()
        with pytest.raises(StorageUnavailableError, match=words) as caught:
            store.put("a", b"x")
        assert pair[1].read_text()[40:80] not in str(caught.value)
        assert (front.relayed, front.connections) == (0, 1)
    assert not server.buckets["lake"].objects


@pytest.mark.parametrize(
    ("newest", "words"),
    [
        (TLS_1_3, ": the server demands a certificate of its clients"),
        pytest.param(
            TLS_1_2,
            "it may be that the server demands a certificate of its clients",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_server_that_demands_a_certificate_is_named(
    certificates: Certificates, newest: ssl.TLSVersion, words: str, server: RuledS3Server
) -> None:
    with front_of(port_of(server.url), certificates, newest) as front:
        options = {"endpoint": front.endpoint, **certificates.shown(None)}
        store = StoreLocation.of("s3://lake/table", options).open()
        with pytest.raises(StorageUnavailableError, match=words) as caught:
            store.put("a", b"x")
        assert "client_certificate, or clientCertificate of a LakeStore" in caught.value.message
        assert (front.relayed, front.connections > 0) == (0, True)
    assert not server.buckets["lake"].objects


@pytest.mark.parametrize("alert", ["CertificateRequired", "BadCertificate"])
def test_what_a_server_did_not_take_has_not_happened(alert: str) -> None:
    """Go's servers say it in the second way with TLS 1.2."""
    failure = RequestFailure.of(OSError(f"error: AlertReceived(\n    {alert},\n)"), S3_WORDS)
    assert failure.transport == CLIENT_CERTIFICATE
    assert not failure.outcome_unknown


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("No required SSL certificate was sent", CLIENT_CERTIFICATE),
        ("The SSL certificate error", WRONG_CERTIFICATE),
    ],
)
def test_pages_of_nginx_are_understood(title: str, words: str) -> None:
    page = f"Client error with status code: 400 Bad Request: <center>{title}</center>"
    failure = RequestFailure.of(OSError(page), S3_WORDS)
    assert (failure.transport, failure.outcome_unknown) == (words, False)
    assert words in str(failure.error("write", uri="s3://lake/a", endpoint="https://gate"))


def test_a_certificate_that_is_replaced_counts_for_the_next_connection(
    certificates: Certificates, server: RuledS3Server, tmp_path: Path
) -> None:
    """Half of a replacement does not."""
    pair = tmp_path / "tls.crt", tmp_path / "tls.key"
    for new, path in zip(certificates.client[1], pair, strict=True):
        shutil.copy(new, path)
    with front_of(port_of(server.url), certificates) as front:
        options = {"endpoint": front.endpoint, **certificates.shown(pair)}
        store = StoreLocation.of("s3://lake/table", options).open()
        store.put("a", b"1")
        shutil.copy(certificates.other[1][0], pair[0])
        front.end_connections()
        store.put("a", b"2")
        shutil.copy(certificates.other[1][1], pair[1])
        front.end_connections()
        with pytest.raises(StorageUnavailableError, match="does not know"):
            store.put("a", b"3")
        for new, path in zip(certificates.client[1], pair, strict=True):
            shutil.copy(new, path)
        assert store.get("a") == b"2"


def test_what_is_no_certificate_with_its_key_is_refused_before_a_request(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    (certificate, key), (_, foreign) = certificates.client[1], certificates.other[1]
    locked = tmp_path / "locked.key"
    locked.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMA==\n"
                      "-----END ENCRYPTED PRIVATE KEY-----\n")  # fmt: skip
    for given, words in (
        ((certificate, foreign), "do not go together"),
        ((certificate, tmp_path / "missing"), "cannot read client_key: No such file"),
        ((key, key), "there is no certificate in it"),
        ((certificate, None), "there is no private key with it"),
        ((certificate, locked), "its key has a password"),
    ):
        options = {"endpoint": "https://localhost:1", "client_certificate": str(given[0])}
        if given[1] is not None:
            options["client_key"] = str(given[1])
        with pytest.raises(ConfigError, match=words):
            StoreLocation.of("s3://lake/table", options).open().get("a")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"endpoint": "http://minio.test", "allow_http": "true", "client_certificate": "a"},
            "client_certificate needs an endpoint with TLS",
        ),
        ({"client_key": "a"}, "client_key goes with client_certificate"),
    ],
)
def test_options_that_show_nothing_are_refused(options: Mapping[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        StoreLocation.of("s3://lake/table", options)


def test_nobody_else_of_this_machine_gets_through_the_relay(
    certificates: Certificates, server: RuledS3Server
) -> None:
    """Nor does a redirect to another server."""
    with front_of(port_of(server.url), certificates) as front:
        files = ClientFiles(*map(str, certificates.client[1]))
        relay = CertificateRelay(WatchedFiles(files), certificates.bundle.read_bytes()).start()
        way = urlsplit(relay.to(front.endpoint).proxy_url)
        for ticket, port, status in (
            (None, front.port, 407),
            (f"{way.username}:guessed", front.port, 407),
            (f"{way.username}:{way.password}", front.port + 1, 403),
            (f"{way.username}:{way.password}", front.port, 404),
        ):
            asked = HTTPConnection(way.hostname or "", way.port or 0, timeout=5)
            shown = (
                {}
                if ticket is None
                else {"Proxy-Authorization": f"Basic {b64encode(ticket.encode()).decode()}"}
            )
            asked.request("GET", f"http://localhost:{port}/elsewhere/x", headers=shown)
            assert asked.getresponse().status == status
            asked.close()
        relay.close()


@pytest.mark.slow
@pytest.mark.minio
@pytest.mark.usefixtures("minio_credentials")
class TestStoreThatDemandsCertificates(StoreContract):
    """The contract, on a MinIO behind TLS that demands one."""

    @pytest.fixture
    def location(
        self,
        certificates: Certificates,
        minio_server: MinioServer,
        minio_bucket: str,
    ) -> Iterator[StoreLocation]:
        with front_of(port_of(minio_server.address), certificates) as front:
            options = {"endpoint": front.endpoint, **certificates.shown(certificates.client[1])}
            yield StoreLocation.of(f"s3://{minio_bucket}/{secrets.token_hex(6)}/table", options)
            assert front.refused == 0


@pytest.mark.slow
@pytest.mark.minio
@pytest.mark.usefixtures("minio_credentials")
def test_commands_show_the_certificate_of_their_environment_and_make_buckets(
    certificates: Certificates,
    minio_server: MinioServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    certificate, key = certificates.client[1]
    monkeypatch.setenv("TIDELINE_S3_CLIENT_CERTIFICATE_FILE", str(certificate))
    monkeypatch.setenv("TIDELINE_S3_CLIENT_KEY_FILE", str(key))
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificates.bundle))
    bucket = f"made-{secrets.token_hex(6)}"
    with front_of(port_of(minio_server.address), certificates) as front:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", front.endpoint)
        made = ["create", f"s3://{bucket}/table", "--record-key", "id", "--ordering", "at"]
        assert run([*made, "--create-bucket"]) == 0, capsys.readouterr().err
        capsys.readouterr()
        assert run(["check-store", f"s3://{bucket}/place", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["outcome"] == "passed"
        monkeypatch.delenv("TIDELINE_S3_CLIENT_CERTIFICATE_FILE")
        monkeypatch.delenv("TIDELINE_S3_CLIENT_KEY_FILE")
        assert run(["show", f"s3://{bucket}/table"]) != 0
        assert "demands a certificate of its clients" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.minio
@pytest.mark.usefixtures("minio_credentials")
def test_many_large_objects_pass_at_once(
    certificates: Certificates, minio_server: MinioServer, minio_bucket: str
) -> None:
    bodies = [os.urandom(9 << 20) for _ in range(6)]
    with front_of(port_of(minio_server.address), certificates) as front:
        options = {"endpoint": front.endpoint, **certificates.shown(certificates.client[1])}
        store = StoreLocation.of(f"s3://{minio_bucket}/large", options).open()

        def there_and_back(number: int) -> bytes:
            with store.open_writer(str(number)) as sink:
                sink.write(bodies[number])
            return store.get(str(number))

        with ThreadPoolExecutor(6) as threads:
            assert [*threads.map(there_and_back, range(6))] == bodies


SPARK = """
import json, sys, tempfile
from pathlib import Path
from tideline import LakeTable
from tideline.spark.session.spark_session import spark_session
from tideline.storage.location import StoreLocation

uri, options = sys.argv[1], json.loads(sys.argv[2])
spark = spark_session("mtls", master="local[1]", locations=[StoreLocation.of(uri, options)],
                      extra_conf={"spark.driver.memory": "1g"})
table = LakeTable.create(uri, record_key="id", ordering="at", storage_options=options)
rows = spark.range(100).selectExpr("cast(id as string) id", "1L as at")
table.write(rows)
table.write(rows.where("id < 10").selectExpr("id", "2L as at"))
print("rows", table.snapshot(spark).count(), table.snapshot(spark).where("at = 2").count())
spark.range(7).repartition(2).write.parquet(f"{uri}-by-spark".replace("s3:", "s3a:"))
print("own", spark.read.parquet(f"{uri}-by-spark".replace("s3:", "s3a:")).count())
made = Path(tempfile.gettempdir()).glob("tideline-key-store-*/client.jks")
print("modes", [path.stat().st_mode & 0o77 for path in made])
"""


@pytest.mark.slow
@pytest.mark.minio
@pytest.mark.spark
@pytest.mark.usefixtures("minio_credentials")
def test_spark_shows_it_too(
    certificates: Certificates, minio_server: MinioServer, minio_bucket: str, tmp_path: Path
) -> None:
    """By Java's own key store, which nobody else may read and which is gone in the end."""
    uri = f"s3://{minio_bucket}/{secrets.token_hex(6)}/table"
    with front_of(port_of(minio_server.address), certificates) as front:
        options = {"endpoint": front.endpoint, **certificates.shown(certificates.client[1])}
        done = subprocess.run(
            [sys.executable, "-c", SPARK, uri, json.dumps(options)],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            capture_output=True, text=True, check=False, timeout=400,
        )  # fmt: skip
        assert front.refused == 0
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rows 100 10" in done.stdout and "own 7" in done.stdout
    assert "modes [0]" in done.stdout and not [*tmp_path.glob("tideline-key-store-*")]


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
