"""S3 that refuses, stalls, drops connections or loses replies."""

import socket
import time
from collections.abc import Iterator

import pytest

from tideline.errors import StorageUnavailableError
from tideline.storage.remote.client import RequestLimits
from tideline.storage.s3.client import S3Endpoint
from tideline.storage.s3.store import S3Store
from tideline.testing.faulty_store_proxy import FaultyStoreProxy, ProxyFault
from tideline.testing.ruled_s3_server import RuledS3Server, S3Rules

IMPATIENT = RequestLimits(
    connect_timeout_s=0.5,
    read_timeout_s=0.5,
    data_read_timeout_s=0.5,
    retries_max=1,
    retry_timeout_s=1.0,
)

BUSY = [(ProxyFault.ANSWER_503, "503"), (ProxyFault.ANSWER_429, "429")]


def store_at(endpoint: str, bucket: str = "bucket", limits: RequestLimits = IMPATIENT) -> S3Store:
    return S3Store(bucket, "t", endpoint=S3Endpoint(endpoint, allow_http=True), limits=limits)


@pytest.fixture
def any_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "some-access-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "some-secret")


@pytest.fixture
def proxy() -> Iterator[FaultyStoreProxy]:
    with FaultyStoreProxy() as running:
        yield running


def every_request_fails(store: S3Store, reason: str) -> None:
    """Every method says what happened and where, and never shows a credential."""
    for action in (
        lambda: store.get("x"),
        lambda: store.head("x"),
        lambda: store.get_range("x", offset=0, length=1),
        lambda: store.put("x", b""),
        lambda: store.put_if_absent("x", b""),
        lambda: store.put_if_absent("x", b"", token="T"),
        lambda: store.put_if_match("x", b"", version='"v"'),
        lambda: [*store.list()],
        lambda: store.list_directory(),
        lambda: [*store.list_after("x")],
        lambda: store.delete("x"),
        lambda: store.open_reader("x"),
    ):
        with pytest.raises(StorageUnavailableError, match=reason) as caught:
            action()
        assert store.endpoint_url in str(caught.value)
        assert store.uri in str(caught.value)
        assert "some-" not in str(caught.value)
    # obstore does not distinguish transport failures of its streams.
    reason = f"{reason}|the request was not answered"
    with pytest.raises(StorageUnavailableError, match=reason), store.open_writer("x") as writer:
        writer.write(b"x")


def test_a_refused_connection_is_named(any_credentials: None) -> None:  # noqa: ARG001
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    every_request_fails(store_at(f"http://127.0.0.1:{port}"), "connection refused")


def test_an_unknown_host_is_named(any_credentials: None) -> None:  # noqa: ARG001
    every_request_fails(store_at("http://no-such-host.invalid"), "host name not found")


def test_an_unknown_key_is_no_missing_object(any_credentials: None) -> None:  # noqa: ARG001
    with RuledS3Server("bucket", rules=S3Rules(answer=(404, "XAdminUserNotFound"))) as server:
        every_request_fails(store_at(server.endpoint), "access key is not known there")


@pytest.mark.parametrize(("fault", "status"), BUSY)
def test_a_busy_server_is_retried_and_then_named(
    any_credentials: None,  # noqa: ARG001
    proxy: FaultyStoreProxy,
    fault: ProxyFault,
    status: str,
) -> None:
    proxy.inject_always(fault)
    store = store_at(proxy.endpoint)
    with pytest.raises(StorageUnavailableError, match=f"{status} SlowDown"):
        store.get("x")
    assert proxy.count("GET") == 2
    every_request_fails(store, status)


def test_a_dropped_connection_is_named(
    any_credentials: None,  # noqa: ARG001
    proxy: FaultyStoreProxy,
) -> None:
    proxy.inject_always(ProxyFault.DROP_REQUEST)
    every_request_fails(store_at(proxy.endpoint), "connection dropped")


def test_a_silent_server_times_out(
    any_credentials: None,  # noqa: ARG001
    proxy: FaultyStoreProxy,
) -> None:
    proxy.inject_always(ProxyFault.STALL)
    store = store_at(proxy.endpoint)
    started_s = time.monotonic()
    with pytest.raises(StorageUnavailableError, match="timed out"):
        store.get("x")
    with pytest.raises(StorageUnavailableError, match="timed out"):
        store.put_if_absent("x", b"", token="T")
    assert time.monotonic() - started_s < 8


def test_an_unreachable_endpoint_fails_in_time_by_default(
    any_credentials: None,  # noqa: ARG001
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
    started_s = time.monotonic()
    with pytest.raises(StorageUnavailableError):
        store_at(endpoint, limits=RequestLimits()).get("x")
    assert time.monotonic() - started_s < 20
