"""A store that answers listings with something else: an empty timeline is not believed at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from tideline.clock import SystemClock
from tideline.errors import StorageUnavailableError
from tideline.hudi.timeline.active import TimelineStore
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.layout import TimelineLayout
from tideline.hudi.timeline.layout_v1 import LAYOUT_V1
from tideline.hudi.timeline.layout_v2 import LayoutV2
from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import Listing
from tideline.storage.remote.client import RequestLimits
from tideline.storage.s3.store import S3Store
from tideline.testing.faulty_store_proxy import FaultyStoreProxy, ProxyFault
from tideline.testing.small_table import SmallTable, batch

LAYOUT_V2 = LayoutV2()
T = InstantTime("20250922132154428")
PROPERTIES = ".hoodie/hoodie.properties"
layouts = pytest.mark.parametrize("layout", [LAYOUT_V1, LAYOUT_V2], ids=["v1", "v2"])


class Lying:
    """Passes calls on; so many listings of a level are empty."""

    def __init__(self, inner: MemoryStore, lies: int) -> None:
        self._inner, self.lies, self.listings = inner, lies, 0

    def list_directory(self, prefix: str = "") -> Listing:
        self.listings += 1
        if self.lies:
            self.lies -= 1
            return Listing((), ())
        return self._inner.list_directory(prefix)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    name = uuid4().hex
    yield MemoryStore(name)
    MemoryStore.forget(name)


def timelines(store: Any, layout: TimelineLayout) -> TimelineStore:
    return TimelineStore(store, layout, SystemClock())


@layouts
def test_a_listing_that_is_empty_once_is_made_again(
    store: MemoryStore, layout: TimelineLayout
) -> None:
    store.put(PROPERTIES, b"x=1")
    made = timelines(store, layout).create_requested(T, Action.COMMIT)
    if layout is LAYOUT_V2:
        assert timelines(Lying(store, 1), layout).load().instants == (made,)
    else:
        with pytest.raises(StorageUnavailableError, match="answers listings with something else"):
            timelines(Lying(store, 1), layout).load()
        assert timelines(Lying(store, 0), layout).load().instants == (made,)


@layouts
def test_a_store_whose_listings_are_all_empty_is_named(
    store: MemoryStore, layout: TimelineLayout
) -> None:
    store.put(PROPERTIES, b"x=1")
    timelines(store, layout).create_requested(T, Action.COMMIT)
    with pytest.raises(StorageUnavailableError, match="answers listings with something else"):
        timelines(Lying(store, 1_000), layout).load()


@layouts
@pytest.mark.parametrize("is_there", [True, False])
def test_a_new_table_and_none_have_an_empty_timeline(
    store: MemoryStore, layout: TimelineLayout, is_there: bool
) -> None:
    if is_there:
        store.put(PROPERTIES, b"x=1")
    counting = Lying(store, 0)
    assert timelines(counting, layout).load().instants == ()
    assert counting.listings <= 2


@pytest.mark.minio
@pytest.mark.parametrize("version", [6, 9])
def test_an_error_that_s3_answers_with_200_is_no_empty_table(
    s3_location: StoreLocation, version: int
) -> None:
    made = SmallTable.create(s3_location, table_version=version)
    made.write("upsert", batch(range(4), 1))
    opened = s3_location.open()
    assert isinstance(opened, S3Store)
    place: Any = opened._endpoint
    timeline = made.lake().hoodie_table.timelines
    with FaultyStoreProxy(urlsplit(opened.endpoint_url).netloc) as proxy:
        behind = S3Store(
            opened._bucket,
            opened._prefix,
            endpoint=replace(place, url=proxy.endpoint),
            limits=RequestLimits(retries_max=0),
        )
        seen = timelines(behind, timeline.layout)
        expected = timeline.load().instants
        assert seen.load().instants == expected
        proxy.inject(ProxyFault.ANSWER_200_WITH_ERROR, method="GET", times=1_000)
        with pytest.raises(StorageUnavailableError, match="answers listings with something else"):
            seen.load()
