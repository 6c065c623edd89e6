"""An S3 server whose answers are longer than they say, or have no end."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tideline.bounded.read_limits import SETTING
from tideline.errors import StorageUnavailableError, UnsupportedTableError
from tideline.storage.remote.client import RequestLimits
from tideline.storage.s3.client import S3Endpoint
from tideline.storage.s3.store import S3Store
from tideline.testing.in_time import in_time
from tideline.testing.lying_s3_server import Lie, LyingS3Server

IN_FLIGHT_BYTES = 16 * 1024 * 1024
"""Room for what is in the buffers of both sides when the client goes away."""
IMPATIENT = RequestLimits(
    connect_timeout_s=0.5,
    read_timeout_s=0.5,
    data_read_timeout_s=0.5,
    retries_max=0,
    retry_timeout_s=0.5,
    total_timeout_s=1.0,
    metadata_timeout_s=1.0,
)


@pytest.fixture(autouse=True)
def small_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "some-access-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "some-secret")
    monkeypatch.setenv(SETTING, "1Mi")


def store_at(server: LyingS3Server, limits: RequestLimits = IMPATIENT) -> S3Store:
    endpoint = S3Endpoint(server.endpoint, allow_http=True)
    return S3Store("bucket", "t", endpoint=endpoint, limits=limits)


def test_no_more_is_taken_than_was_announced() -> None:
    with LyingS3Server(Lie.SHORT) as server:
        assert in_time(lambda: store_at(server).get("x")) == b"x" * 10
        assert server.sent_bytes < IN_FLIGHT_BYTES


@pytest.mark.parametrize("lie", [Lie.HUGE, Lie.NOTHING, Lie.CHUNKED])
def test_an_answer_without_a_size_or_beyond_the_limit_is_refused(lie: Lie) -> None:
    with LyingS3Server(lie) as server:
        store = store_at(server)
        requests: list[Callable[[], object]] = [
            lambda: store.get("x"),
            lambda: store.get_versioned("x"),
        ]
        for request in requests:
            with pytest.raises((UnsupportedTableError, StorageUnavailableError), match="t/x"):
                in_time(request)
        assert server.sent_bytes < IN_FLIGHT_BYTES


def test_a_range_that_is_longer_than_asked_for_is_cut() -> None:
    with LyingS3Server(Lie.RANGE) as server:
        store = store_at(server, RequestLimits(connect_timeout_s=0.5))
        assert in_time(lambda: store.get_range("x", offset=0, length=10)) == b"x" * 10
        assert server.sent_bytes < IN_FLIGHT_BYTES


def test_an_answer_that_comes_byte_by_byte_ends_at_the_deadline() -> None:
    with LyingS3Server(Lie.TRICKLE) as server:
        start_s = time.monotonic()
        with pytest.raises(StorageUnavailableError, match=r"timed out|no end after 1 s"):
            in_time(lambda: store_at(server).get("x"))
        assert time.monotonic() - start_s < 8


def test_metadata_has_a_deadline_of_its_own() -> None:
    limits = RequestLimits()
    assert limits.metadata_timeout_s < limits.total_timeout_s


def test_another_place_at_the_endpoint_has_the_same_credentials() -> None:
    store = S3Store("bucket", "t", endpoint=S3Endpoint("https://lake.example:9000"))
    other = store.elsewhere("other", "u/v")
    assert other.uri == "s3://other/u/v"
    assert other.endpoint_url == store.endpoint_url
