"""The store contract in memory, and what only memory does."""

from collections.abc import Iterator

import pytest

from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import Written
from tideline.testing.fake_clock import FakeClock
from tideline.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def location(self, request: pytest.FixtureRequest) -> Iterator[StoreLocation]:
        name = f"contract-{id(request.node)}"
        yield StoreLocation.of(f"memory://{name}/table")
        MemoryStore.forget(name)


def test_stores_of_one_name_share_their_objects() -> None:
    StoreLocation.of("memory://shared").open().put("a/x", b"1")
    assert StoreLocation.of("memory://shared/a").open().get("x") == b"1"
    MemoryStore.forget("shared")
    assert StoreLocation.of("memory://shared/a").open().head("x") is None


def test_objects_are_stamped_by_the_clock_given() -> None:
    clock = FakeClock(now_ms=1_000)
    store = MemoryStore("stamped", clock=clock)
    clock.advance(5)
    store.put("x", b"")
    found = MemoryStore("stamped").head("x")
    assert found is not None
    assert found.modified_ms == 6_000
    MemoryStore.forget("stamped")


def test_an_empty_object_is_recognised_by_its_token() -> None:
    store = MemoryStore("tokens")
    first = store.put_if_absent("x.requested", b"", token="T")
    assert isinstance(first, Written)
    assert store.put_if_absent("x.requested", b"", token="T") == first
    MemoryStore.forget("tokens")
