"""Connections with credentials of their own: shared by stores, never shown, never shipped."""

from __future__ import annotations

import pickle

import pytest

from tideline.errors import StorageUnavailableError
from tideline.storage.location import StoreLocation
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline.storage.s3.store import S3Store
from tideline.testing.minio_server import MinioServer


def test_credentials_are_neither_shown_nor_pickled() -> None:
    credentials = S3Credentials("public-part", "secret-part")
    connection = StoreConnection(credentials)
    store = StoreLocation.of("s3://lake/table").open(connection)
    for item in (credentials, connection, store):
        assert "part" not in repr(item) + str(item)
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(item)


def test_stores_without_a_connection_are_shipped_as_before() -> None:
    store = StoreLocation.of("s3://lake/table").open()
    assert str(pickle.loads(pickle.dumps(store))) == str(store)


@pytest.mark.minio
def test_each_connection_uses_its_own_credentials(
    minio_server: MinioServer, minio_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in minio_server.environment():
        monkeypatch.delenv(name, raising=False)
    location = StoreLocation.of(f"s3://{minio_bucket}/own", dict(minio_server.storage_options()))
    right = StoreConnection(S3Credentials(minio_server.access_key, minio_server.secret_key))
    wrong = StoreConnection(S3Credentials(minio_server.access_key, "wrong"))
    location.open(right).put("a", b"1")
    with pytest.raises(StorageUnavailableError, match="access denied"):
        location.open(wrong).get("a")
    assert location.open(right).get("a") == b"1"


def test_stores_of_one_bucket_share_their_client() -> None:
    connection = StoreConnection(S3Credentials("key", "secret"))
    options: dict[str, str | bool] = {"endpoint": "http://127.0.0.1:9", "allow_http": True}
    first, second = (
        StoreLocation.of(f"s3://lake/{name}", options).open(connection) for name in "ab"
    )
    assert isinstance(first, S3Store) and isinstance(second, S3Store)
    assert first._client() is second._client()
