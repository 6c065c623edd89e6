"""What buckets of some users demand: encryption headers, a requester that pays, checksums, a path
or a host of their own."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from tideline.errors import ConfigError, InvalidDataError, StorageUnavailableError
from tideline.storage.copying import copy_object
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore, Written
from tideline.storage.probe.race import QUICK
from tideline.storage.probe.report import ProbeOutcome, StorePromise
from tideline.storage.probe.run import check_store, probe_conditional_writes
from tideline.storage.s3.request_headers import VARIABLES, RequestHeaders
from tideline.testing.minio_server import MinioServer
from tideline.testing.minio_users import MinioUsers, Right
from tideline.testing.ruled_s3_server import RuledS3Server, S3Rules
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.spy_server import make_certificate

KMS = {"sse": "aws:kms", "sse_kms_key_id": "arn:aws:kms:eu-1:1:key/lake", "sse_bucket_key": "true"}
KMS_HEADERS = {
    "x-amz-server-side-encryption": "aws:kms",
    "x-amz-server-side-encryption-aws-kms-key-id": "arn:aws:kms:eu-1:1:key/lake",
    "x-amz-server-side-encryption-bucket-key-enabled": "true",
}
VARIABLE = "${env.AWS_SECRET_ACCESS_KEY}"
"""What Hadoop puts the value in the place of, wherever it reads a setting."""
PART_BYTES = 8 * 1024 * 1024


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES.values():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)


@pytest.fixture
def server() -> Iterator[RuledS3Server]:
    with RuledS3Server("lake") as server:
        yield server


def opened(server: RuledS3Server, options: Mapping[str, str], name: str = "table") -> ObjectStore:
    return StoreLocation.of(f"s3://lake/{name}", {**server.storage_options(), **options}).open()


def write_all(store: ObjectStore, *, large_bytes: int = PART_BYTES + 1) -> None:
    """Everything that makes an object, and all requests besides."""
    store.put("put", b"1")
    made = store.put_if_absent("created", b"2", token="2")
    assert isinstance(made, Written)
    assert isinstance(store.put_if_match("created", b"3", version=made.version), Written)
    with store.open_writer("small") as stream:
        stream.write(b"x")
    with store.open_writer("large") as stream:
        stream.write(b"x" * large_bytes)
    copy_object(store, "put", store, "copied", size_bytes=1)
    assert store.get("copied") == b"1"
    assert store.open_reader("large").read(2) == b"xx"
    assert {item.path for item in store.list()} >= {"put", "created", "small", "large", "copied"}
    assert store.list_directory().directories == ()
    store.delete_many(["put", "created", "small", "large", "copied"])
    assert not list(store.list())


@pytest.mark.parametrize(
    ("options", "rules"),
    [
        ({"sse": "AES256"}, S3Rules(demanded={"x-amz-server-side-encryption": "AES256"})),
        ({"sse": "aws:kms"}, S3Rules(demanded={"x-amz-server-side-encryption": "aws:kms"})),
        (KMS, S3Rules(demanded=KMS_HEADERS)),
        ({"requester_pays": "true"}, S3Rules(requester_pays=True)),
        ({}, S3Rules(path="/storage/v1/s3")),
    ],
    ids=["sse-s3", "sse-kms", "sse-kms-key", "requester-pays", "path"],
)
def test_a_bucket_gets_what_it_demands(
    server: RuledS3Server, options: Mapping[str, str], rules: S3Rules
) -> None:
    server.rules = rules
    write_all(opened(server, options))
    if options:
        with pytest.raises(StorageUnavailableError, match="403 AccessDenied"):
            opened(server, {}).put("x", b"1")
    assert not server.uploads_under_way()


def test_a_name_that_the_store_would_change_is_refused(server: RuledS3Server) -> None:
    write_all(opened(server, {}, "back\\slash"))
    server.rules = S3Rules(takes_backslashes_for_slashes=True)
    table = SmallTable.create(StoreLocation.of("s3://lake/table", server.storage_options()))
    table.write("insert", batch(range(4), 1))
    before = {*server.buckets["lake"].objects}
    lost = batch(range(4, 6), 1).set_column(1, "part", pa.array(["a\\b", "p0"]))
    message = r"takes a backslash for a slash.*-s3\.allowBackslashInKey.*a\\b"
    with pytest.raises(InvalidDataError, match=message):
        table.write("insert", lost)
    table.lake().repair()
    assert [key for key in server.buckets["lake"].objects if "a/b" in key] == []
    assert {key for key in server.buckets["lake"].objects if key.endswith("parquet")} == {
        key for key in before if key.endswith("parquet")
    }
    assert [key for key, _ in table.values()] == ["k000", "k001", "k002", "k003"]
    store = table.store()
    for write in (
        lambda: store.put_if_absent("a\\b", b"", token="T"),
        lambda: store.put_if_match("a\\b", b"", version="v"),
        lambda: store.open_writer("a\\b").__enter__(),
        lambda: copy_object(store, "hoodie.properties", store, "a\\b", size_bytes=1),
    ):
        with pytest.raises(InvalidDataError, match="takes a backslash for a slash"):
            write()
    assert store.head("a\\b") is None
    report = check_store((store,), effort=QUICK, promises=(StorePromise.NAMES,))
    assert report.outcome is ProbeOutcome.PASSED
    (note,) = report.notes
    assert note.startswith("values of partitions with such names are refused: the store at http")


@pytest.mark.minio
def test_minio_encrypts_what_its_policy_demands(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = base64.b64encode(secrets.token_bytes(32)).decode()
    with MinioServer({"MINIO_KMS_SECRET_KEY": f"lake-key:{secret}"}) as minio:
        users = MinioUsers(minio.address, minio.access_key, minio.secret_key)
        bucket = minio.create_bucket()
        user = users.add({bucket: Right.ALL})
        users.grant(user, {bucket: Right.ALL}, encryption="aws:kms")
        for name, text in user.environment().items():
            monkeypatch.setenv(name, text)

        def table(options: Mapping[str, str]) -> ObjectStore:
            uri = f"s3://{bucket}/table"
            return StoreLocation.of(uri, {**minio.storage_options(), **options}).open()

        for refused in ({}, {"sse": "AES256"}):
            with pytest.raises(StorageUnavailableError, match="403 AccessDenied"):
                table(refused).put("x", b"1")
        keyed = table({"sse": "aws:kms", "sse_kms_key_id": "lake-key"})
        # MinIO has the policy hold for parts as well, which take no such header.
        write_all(keyed, large_bytes=PART_BYTES - 1)
        keyed.put("x", b"1")
        probe_conditional_writes(keyed)
        shown = minio.client().stat_object(bucket, "table/x").metadata
        assert shown is not None
        assert shown["x-amz-server-side-encryption"] == "aws:kms"
        assert shown["x-amz-server-side-encryption-aws-kms-key-id"].endswith("lake-key")
        with pytest.raises(ConfigError, match="KMS"):
            table({"sse": "aws:kms", "sse_kms_key_id": "none"}).put("x", b"1")


def test_an_upload_without_the_header_is_refused_as_a_whole(server: RuledS3Server) -> None:
    server.rules = S3Rules(demanded={"x-amz-server-side-encryption": None})
    store = opened(server, {})
    with pytest.raises(StorageUnavailableError), store.open_writer("large") as stream:
        stream.write(b"x" * (PART_BYTES + 1))
    assert not server.buckets["lake"].objects


def test_a_checksum_comes_with_each_write(server: RuledS3Server) -> None:
    server.rules = S3Rules(demanded={"x-amz-checksum-sha256": None})
    store = opened(server, {"checksum_algorithm": "sha256"})
    store.put("x", b"1")
    with pytest.raises(StorageUnavailableError, match="AccessDenied"):
        opened(server, {}).put("x", b"1")


def test_a_bucket_is_a_host_name_below_a_path(server: RuledS3Server) -> None:
    """127.0.0.1 is the bucket 127 at the host 0.0.1."""
    server.rules = S3Rules(bucket_of_host="lake", path="/gate")
    endpoint = f"http://0.0.1:{urlsplit(server.url).port}/gate/"
    options = {"endpoint": endpoint, "allow_http": "true", "path_style": "false"}
    location = StoreLocation.of("s3://127/table", options)
    assert location.server() == f"{server.url}/gate"
    write_all(location.open())


def test_the_environment_counts_where_an_option_is_left_out(
    server: RuledS3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for option, text in (*KMS.items(), ("requester_pays", "requester")):
        monkeypatch.setenv(VARIABLES[option], text)
    server.rules = S3Rules(demanded=KMS_HEADERS, requester_pays=True)
    write_all(opened(server, {}))
    location = StoreLocation.of("s3://lake/t", {"region": "eu-1"})
    hadoop = location.hadoop_settings()
    prefix = "fs.s3a.bucket.lake"
    assert hadoop[f"{prefix}.encryption.algorithm"] == "SSE-KMS"
    assert hadoop[f"{prefix}.encryption.key"] == KMS["sse_kms_key_id"]
    assert hadoop[f"{prefix}.requester.pays.enabled"] == "true"
    assert location.options == (("region", "eu-1"),)
    with pytest.raises(ConfigError, match="AWS_SSE_KMS_KEY_ID"):
        StoreLocation.of("s3://lake/t", {"sse": "AES256"})
    assert StoreLocation.of("/tmp/t", {"sse": "AES256"}).options == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sse": "sse-c"}, "SSE-C"),
        ({"sse": "kms"}, "AES256, aws:kms, aws:kms:dsse"),
        ({"sse_kms_key_id": "key"}, "goes with sse aws:kms"),
        ({"sse": "AES256", "sse_kms_key_id": "key"}, "goes with sse aws:kms"),
        ({"sse": "AES256", "sse_bucket_key": "true"}, "goes with sse aws:kms"),
        ({"sse": "aws:kms", "sse_kms_key_id": "a\r\nb"}, "id, the ARN or an alias"),
        ({"sse": "aws:kms", "sse_kms_key_id": VARIABLE}, "id, the ARN or an alias"),
        ({"endpoint": f"https://{VARIABLE}.example"}, "must be a URL like"),
        ({"endpoint": f"https://s3.example/{VARIABLE}"}, "must be a URL like"),
        ({"sse": "aws:kms", "sse_bucket_key": "yes"}, "true or false"),
        ({"requester_pays": "me"}, "true or false"),
        ({"checksum_algorithm": "MD5"}, "SHA256, CRC64NVME"),
    ],
)
def test_what_cannot_be_is_refused_by_name(options: Mapping[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StoreLocation.of("s3://lake/t", options)


def test_keys_of_the_customer_are_refused_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "sse-c")
    with pytest.raises(ConfigError, match="SSE-C"):
        StoreLocation.of("s3://lake/t")
    assert StoreLocation.of("/tmp/t").options == ()


@pytest.mark.slow
def test_a_server_is_trusted_by_its_own_authority_alone(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("own", "other")]
    for folder in folders:
        folder.mkdir()
    (own, certificate), (other, _) = (make_certificate(folder, "localhost") for folder in folders)
    bundles = {"both": other + own, "own": own, "other": other}
    with RuledS3Server("lake", certificate=certificate) as server:
        for name, content in bundles.items():
            file = tmp_path / f"{name}.crt"
            file.write_bytes(content)
            store = opened(server, {"ca_bundle": str(file)})
            if name == "other":
                with pytest.raises(StorageUnavailableError, match="TLS certificate refused"):
                    store.get("put")
            else:
                write_all(store, large_bytes=PART_BYTES - 1)
        with pytest.raises(StorageUnavailableError, match="TLS certificate refused"):
            opened(server, {}).get("put")


def test_nothing_is_said_that_was_not_given() -> None:
    assert RequestHeaders.of({}).client_settings() == {"request_payer": False}
    assert RequestHeaders.of({}).s3a_settings() == {}
