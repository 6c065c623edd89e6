"""Credentials that no request can carry are a refusal by name, and not the end of a process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tideline.errors import StorageUnavailableError
from tideline.storage.azure.keys import AzureKeys, ClientSecret
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline.testing.spy_server import SpyServer

HERE = "127.0.0.1"
SECRET = "the-first-line\nthe-second-line"
REFUSED = r"there are no credentials: those given have a character that no request carries"
REQUESTS: dict[str, Callable[[ObjectStore], object]] = {
    "get": lambda store: store.get("x"),
    "get_versioned": lambda store: store.get_versioned("x"),
    "get_range": lambda store: store.get_range("x", offset=0, length=1),
    "head": lambda store: store.head("x"),
    "put": lambda store: store.put("x", b"1"),
    "put_if_absent": lambda store: store.put_if_absent("x", b"1"),
    "put_if_absent with a token": lambda store: store.put_if_absent("x", b"1", token="one"),
    "put_if_match": lambda store: store.put_if_match("x", b"1", version="1"),
    "list": lambda store: [*store.list()],
    "list_after": lambda store: [*store.list_after("a")],
    "list_directory": lambda store: store.list_directory(),
    "delete": lambda store: store.delete("x"),
    "delete_many": lambda store: store.delete_many(["x", "y"]),
    "delete_prefix": lambda store: store.delete_prefix("x"),
    "open_reader": lambda store: store.open_reader("x"),
    "open_writer": lambda store: _written(store),
}


def _written(store: ObjectStore) -> None:
    with store.open_writer("x") as sink:
        sink.write(b"1")


@pytest.fixture(params=["id", "token", "vended", "client", "bearer", "environment"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A store that is opened with what cannot be sent, and the server behind it."""
    with SpyServer() as spy:
        yield OPENED[request.param](spy.url(HERE), monkeypatch), spy


def of_s3(url: str, credentials: Any) -> ObjectStore:
    options = {"endpoint": url, "allow_http": "true"}
    return StoreLocation.of("s3://lake/t", options).open(StoreConnection(credentials))


def of_client(url: str, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    given = {"token": SECRET, "expires_at": datetime.now(UTC) + timedelta(hours=1)}
    monkeypatch.setattr(ClientSecret, "__call__", lambda _: given)
    keys = AzureKeys(tenant_id="tenant", client_id="id", client_secret="secret-of-client")
    options = {"azure_endpoint": url, "allow_http": "true", "azure_account": "own"}
    return StoreLocation.of("az://lake/t", options).open(StoreConnection(keys, scheme="abfss"))


def of_bearer(url: str, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", SECRET)
    return StoreLocation.of("gs://lake/t", {"gcs_endpoint": url, "allow_http": "true"}).open()


def of_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", SECRET)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    return StoreLocation.of("s3://lake/t", {"endpoint": url, "allow_http": "true"}).open()


def vended() -> dict[str, Any]:
    return {"access_key_id": SECRET, "secret_access_key": "any", "token": None, "expires_at": None}


OPENED: dict[str, Callable[[str, pytest.MonkeyPatch], ObjectStore]] = {
    "id": lambda url, _: of_s3(url, S3Credentials(SECRET, "any")),
    "token": lambda url, _: of_s3(url, S3Credentials("id", "any", SECRET)),
    "vended": lambda url, _: of_s3(url, vended),
    "client": of_client,
    "bearer": of_bearer,
    "environment": of_environment,
}


@pytest.mark.parametrize("request_name", REQUESTS)
def test_every_request_is_refused_by_name_and_none_is_sent(
    store: tuple[ObjectStore, SpyServer], request_name: str
) -> None:
    opened, spy = store
    with pytest.raises(StorageUnavailableError, match=REFUSED) as caught:
        REQUESTS[request_name](opened)
    assert "line\n" not in str(caught.value) and "second-line" not in str(caught.value)
    assert not spy.requests


def test_the_next_credentials_are_sent() -> None:
    with SpyServer() as spy:
        with pytest.raises(StorageUnavailableError, match=REFUSED):
            of_s3(spy.url(HERE), S3Credentials(SECRET, "any")).get("x")
        assert of_s3(spy.url(HERE), S3Credentials("id", "any")).get("x") == b"x"
        assert len(spy.requests) == 1
