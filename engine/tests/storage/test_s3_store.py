"""The store contract on a real MinIO, and what only S3 does."""

import io
import os
import signal

import pytest

from tideline.errors import ConfigError
from tideline.storage.location import StoreLocation
from tideline.testing.minio_server import MinioServer
from tideline.testing.remote_contract import RemoteContract
from tideline.testing.store_contract import StoreContract

pytestmark = pytest.mark.minio

WRONG = "wrong-credential-0123"


class TestS3Store(StoreContract):
    @pytest.fixture
    def location(self, s3_location: StoreLocation) -> StoreLocation:
        return s3_location


class TestS3(RemoteContract):
    credentials = (("AWS_SECRET_ACCESS_KEY", WRONG), ("AWS_ACCESS_KEY_ID", WRONG))
    missing_bucket = "s3://no-such-bucket/table"
    versions_are_digests = True

    @pytest.fixture
    def location(self, s3_location: StoreLocation) -> StoreLocation:
        return s3_location


def test_directory_markers_of_other_tools_are_not_objects(
    s3_location: StoreLocation, minio_server: MinioServer
) -> None:
    store = s3_location.open()
    bucket, _, prefix = s3_location.uri.removeprefix("s3://").partition("/")
    client = minio_server.client()
    for key in ("", "empty/", "full/", "full/deep/"):
        client.put_object(bucket, f"{prefix}/{key}", io.BytesIO(b""), 0)
    store.put("full/x", b"1")
    store.put("full/zero", b"")
    store.put("zero", b"")
    assert sorted(info.path for info in store.list()) == ["full/x", "full/zero", "zero"]
    assert [info.path for info in store.list("full")] == ["full/x", "full/zero"]
    assert [info.path for info in store.list_directory("full").objects] == ["full/x", "full/zero"]
    assert [*store.list("empty")] == []
    assert store.list_directory("empty").objects == ()
    assert store.list_directory().directories == ("empty", "full")


def test_an_aborted_upload_leaves_no_parts_behind(
    s3_location: StoreLocation, minio_server: MinioServer
) -> None:
    store = s3_location.open()
    with pytest.raises(RuntimeError), store.open_writer("broken") as writer:
        writer.write(b"x" * 30_000_000)
        raise RuntimeError
    bucket = s3_location.uri.removeprefix("s3://").partition("/")[0]
    assert minio_server.client()._list_multipart_uploads(bucket).uploads == []


def test_an_endpoint_in_the_environment_changes_nothing(
    s3_location: StoreLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_BUCKET", "elsewhere")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    store = s3_location.open()
    store.put("x", b"1")
    assert store.get("x") == b"1"


def test_missing_credentials_are_a_configuration_error(
    s3_location: StoreLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ConfigError, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        s3_location.open().get("x")


def test_a_forked_child_is_refused_instead_of_hanging(s3_location: StoreLocation) -> None:
    store = s3_location.open()
    store.put("x", b"1")
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            store.get("x")
        except ConfigError as error:
            os._exit(7 if "spawn" in str(error) else 8)
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_ca_bundle_that_is_not_there_is_a_configuration_error(
    s3_location: StoreLocation,
) -> None:
    options = {**dict(s3_location.options), "ca_bundle": "/no/such/ca.pem"}
    with pytest.raises(ConfigError, match=r"ca_bundle.*/no/such/ca\.pem"):
        StoreLocation.of(s3_location.uri, options).open().get("x")
