"""What retried tasks left: data files that are marked but that no stat names."""

from __future__ import annotations

import pytest

from tideline.formats.log_block import BlockKind, HeaderKey, encode_block
from tideline.hudi.commit.finalize import delete_unreported_files
from tideline.hudi.table.markers import Marker, MarkerKind, create_marker
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.memory.store import MemoryStore

T = InstantTime("20250101000000009")
OTHER = InstantTime("20250101000000008")
BASE = f"f-0_0-0-0_{T}.parquet"
LOG = ".f-0_20250101000000001.log.2_0-0-0"


@pytest.fixture
def store() -> MemoryStore:
    MemoryStore.forget("finalize")
    return MemoryStore("finalize")


def leave(store: MemoryStore, name: str, body: bytes) -> None:
    kind = MarkerKind.APPEND if name.startswith(".") else MarkerKind.CREATE
    create_marker(store, T, Marker("p", name, kind))
    store.put(f"p/{name}", body)


def block(instant: InstantTime) -> bytes:
    return encode_block(BlockKind.PARQUET_DATA, {HeaderKey.INSTANT_TIME: str(instant)}, b"rows")


@pytest.mark.parametrize("body", [block(T), b"cut short"])
def test_files_of_lost_attempts_are_deleted(store: MemoryStore, body: bytes) -> None:
    leave(store, BASE, b"rows")
    leave(store, LOG, body)
    assert sorted(delete_unreported_files(store, T, ())) == [f"p/{LOG}", f"p/{BASE}"]
    assert store.head(f"p/{LOG}") is None
    assert store.head(f"p/{BASE}") is None


def test_reported_files_stay(store: MemoryStore) -> None:
    leave(store, BASE, b"rows")
    leave(store, LOG, block(T))
    stats = [WriteStat(path=f"p/{BASE}"), WriteStat(path=f"p/{LOG}")]
    assert delete_unreported_files(store, T, stats) == ()


def test_a_log_whose_name_another_writer_took_is_left_to_it(store: MemoryStore) -> None:
    leave(store, LOG, block(OTHER))
    assert delete_unreported_files(store, T, ()) == ()
    assert store.get(f"p/{LOG}") == block(OTHER)


def test_a_marker_without_a_file_is_no_trouble(store: MemoryStore) -> None:
    create_marker(store, T, Marker("p", LOG, MarkerKind.APPEND))
    assert delete_unreported_files(store, T, ()) == (f"p/{LOG}",)
