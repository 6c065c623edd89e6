"""The bucket of a new table on a real MinIO: created where allowed, asked for where not."""

from __future__ import annotations

import secrets

import pytest

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.storage.refusals import MissingBucketError
from tideline.testing.minio_server import MinioServer

pytestmark = [pytest.mark.minio, pytest.mark.usefixtures("minio_credentials")]


def new_bucket(server: MinioServer, **options: str) -> StoreLocation:
    uri = f"s3://tideline-{secrets.token_hex(6)}/lake/table"
    return StoreLocation.of(uri, {**server.storage_options(), **options})


def test_a_new_table_gets_its_bucket_where_that_is_allowed(minio_server: MinioServer) -> None:
    location = new_bucket(minio_server, create_bucket="true")
    table = LakeTable.create(
        location.uri, record_key=["id"], storage_options=dict(location.options)
    )
    assert table.hoodie_table.config.record_key_fields == ("id",)
    assert location.open().head(".hoodie/hoodie.properties") is not None


def test_a_bucket_is_created_once(minio_server: MinioServer) -> None:
    location = new_bucket(minio_server, create_bucket="true")
    assert location.create_missing()
    location.open().put("x", b"1")
    assert not location.create_missing()
    assert location.open().get("x") == b"1"


def test_without_leave_the_missing_bucket_is_a_usage_error_that_says_what_to_do(
    minio_server: MinioServer,
) -> None:
    location = new_bucket(minio_server)
    assert not location.create_missing()
    with pytest.raises(MissingBucketError, match="createBuckets of the LakeStore") as caught:
        LakeTable.create(location.uri, record_key=["id"], storage_options=dict(location.options))
    assert caught.value.exit_code == ConfigError.exit_code


def test_a_name_no_bucket_can_have_is_refused(minio_server: MinioServer) -> None:
    options = {**minio_server.storage_options(), "create_bucket": "true"}
    location = StoreLocation.of("s3://NO_SUCH_bucket/table", options)
    with pytest.raises(ConfigError, match="bucket"):
        location.create_missing()


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("AWS_ACCESS_KEY_ID", "the access key is not known there"),
        ("AWS_SECRET_ACCESS_KEY", "the secret key is not that of the access key"),
    ],
)
def test_which_of_the_credentials_is_wrong_is_reported(
    minio_server: MinioServer, monkeypatch: pytest.MonkeyPatch, variable: str, words: str
) -> None:
    monkeypatch.setenv(variable, "wrong-credential-0123")
    location = new_bucket(minio_server, create_bucket="true")
    with pytest.raises(StorageUnavailableError, match=words) as caught:
        location.create_missing()
    assert "wrong-credential-0123" not in str(caught.value)


def test_no_server_is_an_unavailable_store(minio_credentials: None) -> None:  # noqa: ARG001
    options = {"endpoint": "http://127.0.0.1:1", "allow_http": "true", "create_bucket": "true"}
    with pytest.raises(StorageUnavailableError, match="connection refused"):
        StoreLocation.of("s3://bucket/table", options).create_missing()
