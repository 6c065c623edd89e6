"""S3 that refuses, stalls, drops connections or loses replies."""

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from tideline.errors import StorageUnavailableError
from tideline.storage.object_store import AlreadyExists, Changed, Written
from tideline.storage.s3.client import RequestLimits, S3Endpoint
from tideline.storage.s3.store import S3Store
from tideline.testing.faulty_s3_proxy import FaultyS3Proxy, ProxyFault
from tideline.testing.minio_server import MinioServer

IMPATIENT = RequestLimits(
    connect_timeout_s=0.5,
    read_timeout_s=0.5,
    data_read_timeout_s=0.5,
    retries_max=1,
    retry_timeout_s=1.0,
)


def store_at(endpoint: str, bucket: str = "bucket", limits: RequestLimits = IMPATIENT) -> S3Store:
    return S3Store(bucket, "t", endpoint=S3Endpoint(endpoint, allow_http=True), limits=limits)


@pytest.fixture
def any_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "some-access-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "some-secret")


@pytest.fixture
def proxy() -> Iterator[FaultyS3Proxy]:
    with FaultyS3Proxy() as running:
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


def test_a_busy_server_is_retried_and_then_named(
    any_credentials: None,  # noqa: ARG001
    proxy: FaultyS3Proxy,
) -> None:
    proxy.inject_always(ProxyFault.ANSWER_503)
    store = store_at(proxy.endpoint)
    with pytest.raises(StorageUnavailableError, match="503 SlowDown"):
        store.get("x")
    assert proxy.count("GET") == 2
    every_request_fails(store, "503")


def test_a_dropped_connection_is_named(
    any_credentials: None,  # noqa: ARG001
    proxy: FaultyS3Proxy,
) -> None:
    proxy.inject_always(ProxyFault.DROP_REQUEST)
    every_request_fails(store_at(proxy.endpoint), "connection dropped")


def test_a_silent_server_times_out(
    any_credentials: None,  # noqa: ARG001
    proxy: FaultyS3Proxy,
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


@pytest.mark.minio
class TestLostReplies:
    """A proxy between the store and a real MinIO swallows what MinIO answered."""

    @pytest.fixture
    def proxy(self, minio_server: MinioServer) -> Iterator[FaultyS3Proxy]:
        with FaultyS3Proxy(minio_server.address) as running:
            yield running

    @pytest.fixture
    def store(
        self,
        proxy: FaultyS3Proxy,
        minio_bucket: str,
        minio_credentials: None,  # noqa: ARG002
    ) -> S3Store:
        store = store_at(proxy.endpoint, minio_bucket)
        store.delete_prefix("")
        return store

    @pytest.mark.parametrize(
        "fault",
        [
            ProxyFault.APPLY_AND_DROP_REPLY,
            ProxyFault.APPLY_AND_ANSWER_500,
            ProxyFault.APPLY_AND_STALL,
        ],
    )
    @pytest.mark.parametrize("body", [b"", b"{}", b'{"token":"T-1"}'])
    def test_a_create_with_a_token_is_recognised_as_ours(
        self, store: S3Store, proxy: FaultyS3Proxy, fault: ProxyFault, body: bytes
    ) -> None:
        proxy.inject(fault)
        created = store.put_if_absent("x", body, token="T-1")
        assert created == Written(store.get_versioned("x").version)
        assert store.get("x") == body

    @pytest.mark.parametrize(
        "fault",
        [ProxyFault.APPLY_AND_DROP_REPLY, ProxyFault.DROP_REQUEST, ProxyFault.ANSWER_503],
    )
    def test_a_foreign_object_stays_foreign_even_when_replies_are_lost(
        self, store: S3Store, proxy: FaultyS3Proxy, fault: ProxyFault
    ) -> None:
        store.put_if_absent("x", b"", token="theirs")
        proxy.inject(fault)
        assert store.put_if_absent("x", b"", token="ours") == AlreadyExists()

    @pytest.mark.parametrize("fault", [ProxyFault.DROP_REQUEST, ProxyFault.ANSWER_503])
    def test_a_create_that_never_arrived_is_sent_again(
        self, store: S3Store, proxy: FaultyS3Proxy, fault: ProxyFault
    ) -> None:
        proxy.inject(fault)
        assert isinstance(store.put_if_absent("x", b"", token="T"), Written)

    def test_a_create_without_a_token_never_claims_what_it_cannot_know(
        self, store: S3Store, proxy: FaultyS3Proxy
    ) -> None:
        for fault in (ProxyFault.APPLY_AND_ANSWER_500, ProxyFault.APPLY_AND_DROP_REPLY):
            proxy.inject(fault)
            assert store.put_if_absent(fault.name, b"1") == AlreadyExists()
        proxy.inject(ProxyFault.APPLY_AND_STALL)
        with pytest.raises(StorageUnavailableError, match="timed out"):
            store.put_if_absent("x", b"1")
        assert store.get("x") == b"1"

    def test_a_swap_whose_reply_was_lost_is_changed_or_unknown(
        self, store: S3Store, proxy: FaultyS3Proxy
    ) -> None:
        for fault in (ProxyFault.APPLY_AND_ANSWER_500, ProxyFault.APPLY_AND_DROP_REPLY):
            version = store.put("x", b"1").version
            proxy.inject(fault)
            assert store.put_if_match("x", b"2", version=version) == Changed()
        version = store.get_versioned("x").version
        proxy.inject(ProxyFault.APPLY_AND_STALL)
        with pytest.raises(StorageUnavailableError, match="timed out"):
            store.put_if_match("x", b"3", version=version)
        assert store.get("x") == b"3"

    def test_reads_and_plain_writes_survive_one_bad_answer(
        self, store: S3Store, proxy: FaultyS3Proxy
    ) -> None:
        for fault in (ProxyFault.ANSWER_503, ProxyFault.DROP_REQUEST, ProxyFault.STALL):
            proxy.inject(fault)
            store.put("x", fault.name.encode())
            proxy.inject(fault, method="GET")
            assert store.get("x") == fault.name.encode()

    def test_a_failed_upload_leaves_no_object(self, store: S3Store, proxy: FaultyS3Proxy) -> None:
        proxy.inject(ProxyFault.ANSWER_503, times=100)
        with (
            pytest.raises(StorageUnavailableError, match="503"),
            store.open_writer("big") as writer,
        ):
            for _ in range(4):
                writer.write(b"x" * 8_000_000)
        assert store.head("big") is None

    def test_an_answer_that_is_cut_is_never_taken_for_the_whole(
        self, store: S3Store, proxy: FaultyS3Proxy
    ) -> None:
        body = b"0123456789" * 50_000
        store.put("x", body)

        def read_by_stream() -> bytes:
            with store.open_reader("x") as reader:
                return reader.read()

        reads: tuple[Callable[[], bytes], ...] = (
            lambda: store.get("x"),
            lambda: store.get_versioned("x").body,
            lambda: store.get_range("x", offset=0, length=len(body)),
            read_by_stream,
        )
        for read in reads:
            proxy.inject(ProxyFault.CUT_BODY, method="GET")
            try:
                assert read() == body
            except StorageUnavailableError:
                assert read() == body
        proxy.inject(ProxyFault.CUT_BODY, method="GET")
        try:
            assert [item.path for item in store.list()] == ["x"]
        except StorageUnavailableError:
            assert [item.path for item in store.list()] == ["x"]
