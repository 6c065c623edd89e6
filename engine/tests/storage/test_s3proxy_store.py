"""What S3Proxy does of the contract of stores: refused over a folder, and over Azure's storage."""

from __future__ import annotations

import pytest

from tideline.errors import StorageUnavailableError
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import AlreadyExists, Changed
from tideline.storage.probe.report import ProbeOutcome, StorePromise
from tideline.testing.s3_peer_contract import store_report
from tideline.testing.s3_peers import PlaceAtPeer

pytestmark = pytest.mark.slow


@pytest.fixture
def location(place_at_peer: PlaceAtPeer) -> StoreLocation:
    return place_at_peer("s3proxy")


def test_each_request_alone_is_answered_as_by_s3(location: StoreLocation) -> None:
    store = location.open()
    first = store.put_if_absent("x", b"1", token="A")
    assert store.put_if_absent("x", b"2", token="B") == AlreadyExists()
    assert store.put_if_absent("x", b"1", token="A") == first
    second = store.put("x", b"2")
    assert store.put_if_match("x", b"3", version=second.version) != Changed()
    assert store.put_if_match("x", b"4", version=second.version) == Changed()
    assert store.get("x") == b"3"


def test_concurrent_ones_are_not(location: StoreLocation) -> None:
    report = store_report(location)
    failed = {result.promise for result in report.complaints}
    assert StorePromise.COUNTER in failed
    assert failed <= {StorePromise.COUNTER, StorePromise.REPLACE_RACE}
    assert all(result.outcome is ProbeOutcome.FAILED for result in report.complaints)
    assert [*location.open().list()] == []


def test_over_azure_no_object_is_created(place_at_peer: PlaceAtPeer) -> None:
    """It hands the name of our token on, which Azure does not take; `abfss://` needs no gateway."""
    store = place_at_peer("s3proxy-over-azure").open()
    store.put("x", b"1")
    assert store.get("x") == b"1"
    with pytest.raises(StorageUnavailableError, match="500 InternalError"):
        store.put_if_absent("y", b"1", token="A")
    assert store.head("y") is None
