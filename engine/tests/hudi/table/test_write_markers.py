"""Markers: ours, and both kinds of Hudi's."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.errors import CorruptTableError
from tideline.hudi.table.markers import (
    Marker,
    MarkerKind,
    create_marker,
    delete_markers,
    list_markers,
    marked_names,
)
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.local.store import LocalStore
from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import ObjectStore

T = InstantTime("20250101000000000")
FOLDER = f".hoodie/.temp/{T}"
BASE = "aaaaaaaa-0_0-1-2_20250101000000000.parquet"
LOG = ".aaaaaaaa-0_20250101000000000.log.1_0-35-67"


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    if request.param == "local":
        yield LocalStore(str(tmp_path))
        return
    name = uuid.uuid4().hex
    yield MemoryStore(name)
    MemoryStore.forget(name)


@pytest.mark.parametrize(
    "partition", ["", "p", "a/b=1", "größe=日/x", "2024-01-05 18%3A00%3A00", "a+b&c=%25"]
)
@pytest.mark.parametrize("kind", list(MarkerKind))
def test_created_markers_are_listed(store: ObjectStore, partition: str, kind: MarkerKind) -> None:
    marker = Marker(partition, BASE, kind)
    create_marker(store, T, marker)
    create_marker(store, T, marker)
    assert list_markers(store, T) == (marker,)
    assert marker.path == (f"{partition}/{BASE}" if partition else BASE)


def test_a_marker_is_a_tiny_object_where_hudi_expects_it(store: ObjectStore) -> None:
    create_marker(store, T, Marker("p", BASE, MarkerKind.MERGE))
    assert [info.path for info in store.list(FOLDER)] == [f"{FOLDER}/p/{BASE}.marker.MERGE"]
    assert store.get(f"{FOLDER}/p/{BASE}.marker.MERGE") == b"\n"


def test_batched_markers_of_hudis_timeline_server_are_listed(store: ObjectStore) -> None:
    store.put(f"{FOLDER}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    store.put(f"{FOLDER}/MARKERS0", f"p0/{BASE}.marker.MERGE\np1/{LOG}.marker.APPEND\n".encode())
    store.put(f"{FOLDER}/MARKERS1", f"größe=日/{BASE}.marker.CREATE".encode())
    store.put(f"{FOLDER}/MARKERS2", b"")
    assert set(list_markers(store, T)) == {
        Marker("p0", BASE, MarkerKind.MERGE),
        Marker("p1", LOG, MarkerKind.APPEND),
        Marker("größe=日", BASE, MarkerKind.CREATE),
    }


def test_batches_count_even_when_their_type_file_is_gone(store: ObjectStore) -> None:
    store.put(f"{FOLDER}/MARKERS0", f"{BASE}.marker.CREATE\n".encode())
    assert list_markers(store, T) == (Marker("", BASE, MarkerKind.CREATE),)


def test_direct_and_batched_markers_are_joined(store: ObjectStore) -> None:
    create_marker(store, T, Marker("p", BASE, MarkerKind.CREATE))
    store.put(f"{FOLDER}/MARKERS.type", b"TIMELINE_SERVER_BASED\n")
    lines = f"p/{BASE}.marker.CREATE\nq/{BASE}.marker.CREATE\n"
    store.put(f"{FOLDER}/MARKERS7", lines.encode())
    assert [marker.partition for marker in list_markers(store, T)] == ["p", "q"]


@pytest.mark.parametrize("tail", [b"p1/aaaa", b"p1/\xc3", b"p1/x.marker.CRE"])
def test_an_unfinished_last_line_is_skipped(store: ObjectStore, tail: bytes) -> None:
    store.put(f"{FOLDER}/MARKERS0", f"p0/{BASE}.marker.CREATE\n".encode() + tail)
    assert list_markers(store, T) == (Marker("p0", BASE, MarkerKind.CREATE),)


def test_an_unreadable_line_within_a_batch_is_refused(store: ObjectStore) -> None:
    store.put(f"{FOLDER}/MARKERS0", b"garbage\np0/x.parquet.marker.CREATE\n")
    with pytest.raises(CorruptTableError, match="garbage"):
        list_markers(store, T)


def test_an_unknown_marker_type_is_refused(store: ObjectStore) -> None:
    store.put(f"{FOLDER}/MARKERS.type", b"QUANTUM")
    with pytest.raises(CorruptTableError, match="QUANTUM"):
        list_markers(store, T)


def test_checksum_sidecars_are_no_markers(store: ObjectStore) -> None:
    store.put(f"{FOLDER}/p/.{BASE}.marker.CREATE.crc", b"crc")
    assert list_markers(store, T) == ()


def test_markers_of_other_instants_are_not_listed(store: ObjectStore) -> None:
    create_marker(store, "20250101000000001", Marker("p", BASE, MarkerKind.CREATE))
    create_marker(store, T, Marker("q", BASE, MarkerKind.CREATE))
    assert [marker.partition for marker in list_markers(store, T)] == ["q"]
    delete_markers(store, T)
    assert str(T) not in marked_names(store)
    assert "20250101000000001" in marked_names(store)
    delete_markers(store, T)
