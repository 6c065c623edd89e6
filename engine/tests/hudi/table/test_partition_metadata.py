"""The files that make directories partitions."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tideline.hudi.table.partition_metadata import find_partitions, write_partition_metadata
from tideline.hudi.table.properties import parse_properties
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.memory.store import MemoryStore

T = InstantTime("20250922202154428")


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    name = uuid.uuid4().hex
    yield MemoryStore(name)
    MemoryStore.forget(name)


@pytest.mark.parametrize(
    ("partition", "depth"),
    [("", "0"), ("2023-01-01", "1"), ("a=1/b=2", "2"), ("2023/04/01/12", "4")],
)
def test_it_names_the_instant_and_the_depth(store: MemoryStore, partition: str, depth: str) -> None:
    write_partition_metadata(store, partition, T)
    path = f"{partition}/.hoodie_partition_metadata".lstrip("/")
    assert parse_properties(store.get(path)) == {"commitTime": str(T), "partitionDepth": depth}
    assert find_partitions(info.path for info in store.list()) == (partition,)


def test_it_looks_as_hudi_writes_it(store: MemoryStore) -> None:
    write_partition_metadata(store, "p", T)
    assert store.get("p/.hoodie_partition_metadata") == (
        b"#partition metadata\n"
        b"#Mon Sep 22 20:21:54 2025\n"
        b"commitTime=20250922202154428\n"
        b"partitionDepth=1\n"
    )


def test_the_first_writer_of_a_partition_stays(store: MemoryStore) -> None:
    write_partition_metadata(store, "p", T)
    before = store.get("p/.hoodie_partition_metadata")
    write_partition_metadata(store, "p", InstantTime("20260101000000000"))
    assert store.get("p/.hoodie_partition_metadata") == before


def test_only_directories_with_metadata_are_partitions(store: MemoryStore) -> None:
    for partition in ("b", "größe=日/x y", "a"):
        write_partition_metadata(store, partition, T)
    store.put("c/.hoodie_partition_metadata.parquet", b"PAR1")
    store.put("d/data.parquet", b"PAR1")
    store.put(".hoodie/metadata/files/.hoodie_partition_metadata", b"")
    store.put("nested/.hoodie/metadata/files/.hoodie_partition_metadata", b"")
    assert find_partitions(info.path for info in store.list()) == ("a", "b", "c", "größe=日/x y")


def test_nothing_below_a_partition_is_one(store: MemoryStore) -> None:
    for partition in ("a", "a/b", "a/b/c", "ab"):
        write_partition_metadata(store, partition, T)
    assert find_partitions(info.path for info in store.list()) == ("a", "ab")
    write_partition_metadata(store, "", T)
    assert find_partitions(info.path for info in store.list()) == ("",)
