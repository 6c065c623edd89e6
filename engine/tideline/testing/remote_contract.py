"""What every store at a server must do beyond the contract of all stores, as one pytest suite.

A test module subclasses `RemoteContract` and overrides the fixture `location`. A proxy between the
store and its server loses replies; wrong credentials and missing buckets are named.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from tideline.errors import ConfigError, ObjectNotFoundError, StorageUnavailableError
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import AlreadyExists, Changed, Written
from tideline.storage.probe.run import probe_conditional_writes
from tideline.storage.remote.client import RequestLimits
from tideline.storage.remote.store import RemoteStore
from tideline.testing.faulty_store_proxy import FaultyStoreProxy, ProxyFault

IMPATIENT = RequestLimits(
    connect_timeout_s=0.5,
    read_timeout_s=0.5,
    data_read_timeout_s=0.5,
    retries_max=1,
    retry_timeout_s=1.0,
)


class RemoteContract:
    """Subclass as `Test...` and override `location`."""

    credentials: tuple[tuple[str, str], ...]
    """Variables of the environment with credentials, each with a value that is wrong."""
    missing_bucket: str
    """The location of a bucket that is not there, at the same server."""
    bucket_word = "bucket"
    versions_are_digests = False
    """Whether the same bytes come back with the same version."""
    next_page = "continuation-token="
    """What requests for further pages of a list have in their targets."""
    refuses_lists_that_are_none = False
    """Whether the client does; else lists are continued."""
    refuses_conditions_first = False
    """Whether a replacement in a missing bucket is answered as one of a changed object."""

    @pytest.fixture
    def location(self) -> StoreLocation:
        raise NotImplementedError

    @pytest.fixture
    def store(self, location: StoreLocation) -> RemoteStore:
        store = location.open()
        assert isinstance(store, RemoteStore)
        return store

    @pytest.fixture
    def proxy(self, store: RemoteStore) -> Iterator[FaultyStoreProxy]:
        with FaultyStoreProxy(urlsplit(store.endpoint_url).netloc) as running:
            yield running

    @pytest.fixture
    def behind(self, store: RemoteStore, proxy: FaultyStoreProxy) -> RemoteStore:
        """The store, reached through the proxy and without patience."""
        place: Any = store._endpoint
        endpoint = replace(place, url=proxy.endpoint + urlsplit(store.endpoint_url).path)
        return type(store)(store._bucket, store._prefix, endpoint=endpoint, limits=IMPATIENT)

    def test_an_empty_object_is_recognised_by_its_token(self, store: RemoteStore) -> None:
        first = store.put_if_absent("x.requested", b"", token="T")
        assert isinstance(first, Written)
        assert store.put_if_absent("x.requested", b"", token="T") == first
        assert store.put_if_absent("x.requested", b"", token="U") == AlreadyExists()

    def test_the_same_bytes_are_another_version_unless_it_is_a_digest(
        self, store: RemoteStore
    ) -> None:
        first = store.put("x", b"1").version
        store.put("x", b"2")
        again = store.put("x", b"1").version
        assert (first == again) is self.versions_are_digests

    def test_wrong_credentials_are_named_but_never_shown(
        self, location: StoreLocation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        good = [os.environ[name] for name, _ in self.credentials]
        for name, wrong in self.credentials:
            with monkeypatch.context() as changed:
                changed.setenv(name, wrong)
                store = location.open()
                for action in _every_request(store):
                    with pytest.raises(StorageUnavailableError, match="access denied") as caught:
                        action()
                    text = str(caught.value)
                    assert location.uri in text
                    assert "http://127.0.0.1" in text
                    assert not any(secret in text for secret in (*good, wrong))
                    assert caught.value.__suppress_context__

    def test_a_missing_bucket_is_a_configuration_error(self, location: StoreLocation) -> None:
        place = StoreLocation.of(self.missing_bucket, dict(location.options))
        swaps = not self.refuses_conditions_first
        if not swaps:
            assert place.open().put_if_match("x", b"", version='"v"') == Changed()
        for action in _every_request(place.open(), swaps=swaps):
            message = rf"the {self.bucket_word} does not exist.*no-such-bucket"
            with pytest.raises(ConfigError, match=message):
                action()

    def test_a_missing_object_is_named_with_its_endpoint(self, location: StoreLocation) -> None:
        message = rf"http://127.*{location.uri}/a/b"
        with pytest.raises(ObjectNotFoundError, match=message) as caught:
            location.open().get("a/b")
        assert "Debug source" not in str(caught.value)

    def test_objects_of_which_some_are_missing_are_deleted_together(
        self, store: RemoteStore
    ) -> None:
        for number in range(0, 40, 2):
            store.put(f"{number}", b"x")
        store.delete_many(map(str, range(40)))
        assert [*store.list()] == []

    # Lost replies: a proxy swallows what the server answered.

    @pytest.mark.parametrize(
        "fault",
        [
            ProxyFault.APPLY_AND_DROP_REPLY,
            ProxyFault.APPLY_AND_ANSWER_500,
            pytest.param(ProxyFault.APPLY_AND_STALL, marks=pytest.mark.slow),
        ],
    )
    @pytest.mark.parametrize("body", [b"", b"{}", b'{"token":"T-1"}'])
    def test_a_create_with_a_token_is_recognised_as_ours(
        self, behind: RemoteStore, proxy: FaultyStoreProxy, fault: ProxyFault, body: bytes
    ) -> None:
        proxy.inject(fault)
        created = behind.put_if_absent("x", body, token="T-1")
        assert created == Written(behind.get_versioned("x").version)
        assert behind.get("x") == body

    @pytest.mark.parametrize(
        "fault",
        [ProxyFault.APPLY_AND_DROP_REPLY, ProxyFault.DROP_REQUEST, ProxyFault.ANSWER_503],
    )
    def test_a_foreign_object_stays_foreign_even_when_replies_are_lost(
        self, behind: RemoteStore, proxy: FaultyStoreProxy, fault: ProxyFault
    ) -> None:
        behind.put_if_absent("x", b"", token="theirs")
        proxy.inject(fault)
        assert behind.put_if_absent("x", b"", token="ours") == AlreadyExists()

    @pytest.mark.parametrize("fault", [ProxyFault.DROP_REQUEST, ProxyFault.ANSWER_503])
    def test_a_create_that_never_arrived_is_sent_again(
        self, behind: RemoteStore, proxy: FaultyStoreProxy, fault: ProxyFault
    ) -> None:
        proxy.inject(fault)
        assert isinstance(behind.put_if_absent("x", b"", token="T"), Written)

    def test_a_create_without_a_token_never_claims_what_it_cannot_know(
        self, behind: RemoteStore, proxy: FaultyStoreProxy
    ) -> None:
        for fault in (ProxyFault.APPLY_AND_ANSWER_500, ProxyFault.APPLY_AND_DROP_REPLY):
            proxy.inject(fault)
            assert behind.put_if_absent(fault.name, b"1") == AlreadyExists()
        proxy.inject(ProxyFault.APPLY_AND_STALL)
        with pytest.raises(StorageUnavailableError, match="timed out"):
            behind.put_if_absent("x", b"1")
        assert behind.get("x") == b"1"

    def test_a_swap_whose_reply_was_lost_is_changed_or_unknown(
        self, behind: RemoteStore, proxy: FaultyStoreProxy
    ) -> None:
        for fault in (ProxyFault.APPLY_AND_ANSWER_500, ProxyFault.APPLY_AND_DROP_REPLY):
            version = behind.put("x", b"1").version
            proxy.inject(fault)
            assert behind.put_if_match("x", b"2", version=version) == Changed()
        version = behind.get_versioned("x").version
        proxy.inject(ProxyFault.APPLY_AND_STALL)
        with pytest.raises(StorageUnavailableError, match="timed out"):
            behind.put_if_match("x", b"3", version=version)
        assert behind.get("x") == b"3"

    def test_reads_and_plain_writes_survive_one_bad_answer(
        self, behind: RemoteStore, proxy: FaultyStoreProxy
    ) -> None:
        for fault in (ProxyFault.ANSWER_503, ProxyFault.DROP_REQUEST, ProxyFault.STALL):
            proxy.inject(fault)
            behind.put("x", fault.name.encode())
            proxy.inject(fault, method="GET")
            assert behind.get("x") == fault.name.encode()

    def test_a_failed_upload_leaves_no_object(
        self, behind: RemoteStore, proxy: FaultyStoreProxy
    ) -> None:
        proxy.inject(ProxyFault.ANSWER_503, times=100)
        with (
            pytest.raises(StorageUnavailableError, match="503"),
            behind.open_writer("big") as writer,
        ):
            for _ in range(4):
                writer.write(b"x" * 8_000_000)
        assert behind.head("big") is None

    def test_an_answer_that_is_cut_is_never_taken_for_the_whole(
        self, behind: RemoteStore, proxy: FaultyStoreProxy
    ) -> None:
        body = b"0123456789" * 50_000
        behind.put("x", body)

        def read_by_stream() -> bytes:
            with behind.open_reader("x") as reader:
                return reader.read()

        reads: tuple[Callable[[], bytes], ...] = (
            lambda: behind.get("x"),
            lambda: behind.get_versioned("x").body,
            lambda: behind.get_range("x", offset=0, length=len(body)),
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
            assert [item.path for item in behind.list()] == ["x"]
        except StorageUnavailableError:
            assert [item.path for item in behind.list()] == ["x"]

    # Lies: what a store, or a proxy before it, says is not what took place.

    def test_a_create_that_is_refused_although_it_took_place_is_ours(
        self, behind: RemoteStore, proxy: FaultyStoreProxy
    ) -> None:
        """As after a retry on the way, whose first request had taken effect."""
        proxy.inject(ProxyFault.APPLY_AND_ANSWER_412)
        created = behind.put_if_absent("x", b"1", token="T")
        assert created == Written(behind.get_versioned("x").version)
        behind.put_if_absent("y", b"1", token="theirs")
        proxy.inject(ProxyFault.APPLY_AND_ANSWER_412)
        assert behind.put_if_absent("y", b"2", token="ours") == AlreadyExists()
        assert behind.get("y") == b"1"

    def test_a_swap_that_is_refused_although_it_took_place_is_no_success(
        self, behind: RemoteStore, proxy: FaultyStoreProxy
    ) -> None:
        version = behind.put("x", b"1").version
        proxy.inject(ProxyFault.APPLY_AND_ANSWER_412)
        assert behind.put_if_match("x", b"2", version=version) == Changed()
        assert behind.get("x") == b"2"

    def test_a_write_that_is_answered_with_200_and_an_error_is_no_success(
        self, behind: RemoteStore, proxy: FaultyStoreProxy
    ) -> None:
        proxy.inject(ProxyFault.ANSWER_200_WITH_ERROR)
        created = behind.put_if_absent("x", b"1", token="T")
        assert created == Written(behind.get_versioned("x").version)
        proxy.inject(ProxyFault.ANSWER_200_WITH_ERROR)
        with pytest.raises(StorageUnavailableError):
            behind.put("y", b"1")
        assert behind.head("y") is None

    def test_an_upload_or_a_copy_that_ends_with_200_and_an_error_is_no_success(
        self, behind: RemoteStore, proxy: FaultyStoreProxy
    ) -> None:
        large = 20_000_000
        is_said = False
        with suppress(StorageUnavailableError):
            with behind.open_writer("big") as writer:
                writer.write(b"x" * large)
                proxy.inject(ProxyFault.ANSWER_200_WITH_ERROR, method="POST")
            is_said = True
        found = behind.head("big")
        assert found is not None or not is_said
        assert found is None or found.size_bytes == large
        behind.put("from", b"1")
        proxy.inject(ProxyFault.ANSWER_200_WITH_ERROR)
        with suppress(StorageUnavailableError):
            if behind.copy_within("from", behind, "to"):
                assert behind.get("to") == b"1"

    def test_a_list_goes_on_behind_an_answer_that_is_none(
        self, store: RemoteStore, behind: RemoteStore, proxy: FaultyStoreProxy
    ) -> None:
        names = [f"many/{number:04}" for number in range(1_003)] + ["many/below/x", "other"]
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda name: store.put(name, b"1"), names))
        place: Any = behind._endpoint
        behind = type(behind)(behind._bucket, behind._prefix, endpoint=place)
        expected = sorted(name for name in names if name != "other")
        level = [name for name in expected if name != "many/below/x"]

        def broken() -> None:
            proxy.inject_at(self.next_page, ProxyFault.ANSWER_200_WITH_ERROR)

        if self.refuses_lists_that_are_none:
            broken()
            with suppress(StorageUnavailableError):
                assert [found.path for found in behind.list("many")] == expected
        else:
            broken()
            assert [found.path for found in behind.list("many")] == expected
            broken()
            after = [found.path for found in behind.list_after("many/0000")]
            assert after == [*[name for name in expected if name > "many/0000"], "other"]
            broken()
            found = behind.list_directory("many")
            assert sorted(item.path for item in found.objects) == level
            assert found.directories == ("many/below",)
        with pytest.raises(StorageUnavailableError):
            proxy.inject_at(self.next_page, ProxyFault.ANSWER_200_WITH_ERROR, times=1_000)
            behind.list_directory("many")

    def test_a_coding_that_is_said_changes_no_byte(
        self, behind: RemoteStore, proxy: FaultyStoreProxy
    ) -> None:
        behind.put("x", b"1234")
        reads: tuple[Callable[[], bytes], ...] = (
            lambda: behind.get("x"),
            lambda: behind.get_range("x", offset=0, length=4),
        )
        for read in reads:
            proxy.inject(ProxyFault.SAY_GZIP, method="GET")
            assert read() == b"1234"

    def test_a_store_that_says_it_wrote_and_did_not_is_refused(
        self, behind: RemoteStore, proxy: FaultyStoreProxy
    ) -> None:
        patient = RequestLimits(retry_timeout_s=1.0)
        place: Any = behind._endpoint
        replaced = type(behind)(behind._bucket, behind._prefix, endpoint=place, limits=patient)
        proxy.inject(ProxyFault.ANSWER_200_ALONE, times=10_000)
        with pytest.raises(ConfigError, match="refuses"):
            probe_conditional_writes(replaced)


def _every_request(store: Any, *, swaps: bool = True) -> tuple[Callable[[], object], ...]:
    swap = (lambda: store.put_if_match("x", b"", version='"v"'),)
    return (
        *(swap if swaps else ()),
        lambda: store.get("x"),
        lambda: store.head("x"),
        lambda: store.put("x", b""),
        lambda: store.put_if_absent("x", b"", token="T"),
        lambda: [*store.list()],
        lambda: store.list_directory(),
        lambda: store.delete("x"),
        lambda: store.delete_prefix("x"),
        lambda: store.open_reader("x"),
    )
