"""Files older than the active timeline count only where something may have been archived."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.clock import SystemClock
from tideline.hudi.timeline.active import ActiveTimeline, TimelineStore
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.layout_v1 import LAYOUT_V1
from tideline.storage.memory.store import MemoryStore

FIRST = InstantTime("20250101000000001")
EARLIER = InstantTime("20240101000000001")


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    yield MemoryStore("archive-knowledge")
    MemoryStore.forget("archive-knowledge")


def load(store: MemoryStore) -> ActiveTimeline:
    store.put(f".hoodie/{FIRST}.commit", b"{}")
    return TimelineStore(store, LAYOUT_V1, SystemClock()).load()


def test_what_a_rolled_back_first_write_left_is_not_taken_for_archived(store: MemoryStore) -> None:
    """Its instant is gone, and the table's first commit is a later one."""
    for path in (".temp/x/y", ".heartbeat/z", ".aux/a", ".schema/s", "metadata/files/f"):
        store.put(f".hoodie/{path}", b"")
    timeline = load(store)
    assert timeline.is_committed(FIRST)
    assert not timeline.is_committed(EARLIER)
    assert not timeline.completed().is_committed(EARLIER)


@pytest.mark.parametrize("folder", ["archived", "history"])
def test_with_an_archive_older_files_belong_to_the_table(store: MemoryStore, folder: str) -> None:
    store.put(f".hoodie/{folder}/.commits_.archive.1_1-0-1", b"")
    timeline = load(store)
    assert timeline.is_committed(EARLIER)
    assert timeline.completed().is_committed(EARLIER)
