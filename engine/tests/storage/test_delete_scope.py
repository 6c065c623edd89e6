"""The guard before every delete: what it refuses, and that a refusal deletes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tideline.errors import CorruptTableError
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.local.store import LocalStore
from tideline.storage.memory.store import MemoryStore
from tideline.storage.nested_tables import DELTA, HUDI, ICEBERG, nested_tables, root_around
from tideline.storage.object_store import ObjectStore

KEPT = ("a/needed", ".hoodie/hoodie.properties", "inner/.hoodie/x", "inner/p/file")


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    yield MemoryStore("delete-scope")
    MemoryStore.forget("delete-scope")


def scope(store: ObjectStore, **settings: Any) -> DeleteScope:
    needed = {"a/needed": "the newest version of a file group"}
    nested = {"inner": HUDI}
    return DeleteScope(store, "clean 7", needed.get, nested=nested, **settings)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("a/needed", "the newest version of a file group"),
        (".hoodie/hoodie.properties", "control folder"),
        ("inner/.hoodie/x", "in another table, 'inner'"),
        ("inner/p/file", "in another table, 'inner'"),
        ("inner", "in another table, 'inner'"),
        ("other/.hoodie/x", "control folder"),
        ("../outside", "'..'"),
        ("a//b", "empty"),
    ],
)
def test_a_refusal_names_path_and_reason_and_nothing_goes(
    store: ObjectStore, path: str, reason: str
) -> None:
    for name in ("a/old", *KEPT):
        store.put(name, b"")
    guard = scope(store)
    assert list(guard.refusals(["a/old", path])) == [path]
    with pytest.raises(CorruptTableError) as refused:
        guard.remove_many(iter(["a/old", path]))
    assert refused.value.path == path
    assert reason in refused.value.message
    assert "clean 7 would delete 1 file that must stay" in refused.value.message
    with pytest.raises(CorruptTableError):
        guard.remove(path)
    assert [info.path for info in store.list()] == sorted(("a/old", *KEPT))


def test_what_is_not_needed_is_deleted(store: ObjectStore) -> None:
    for path in ("a/old", "a/older", "innermost/x", *KEPT):
        store.put(path, b"")
    scope(store).remove_many(["a/old", "a/older", "a/missing"])
    scope(store).remove("innermost/x")
    assert [info.path for info in store.list()] == sorted(KEPT)


def test_an_operation_is_entitled_to_its_own_part_of_the_control_folder(store: ObjectStore) -> None:
    for path in (".hoodie/.temp/1/p/m", ".hoodie/.temp/11/p/m", ".hoodie/hoodie.properties"):
        store.put(path, b"")
    guard = scope(store, control=(".hoodie/.temp/1",))
    for refused in (".hoodie", ".hoodie/.temp", ".hoodie/.temp/11", "a"):
        with pytest.raises(CorruptTableError):
            guard.remove_below(refused)
    guard.remove_below(".hoodie/.temp/1")
    assert [info.path for info in store.list()] == [
        ".hoodie/.temp/11/p/m",
        ".hoodie/hoodie.properties",
    ]


def test_a_link_is_no_second_name_for_a_file_that_is_needed(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "table"))
    outside = LocalStore(str(tmp_path / "outside"))
    store.put("a/needed", b"")
    store.put("a/old", b"")
    outside.put("x", b"")
    (tmp_path / "table" / "alias").symlink_to(tmp_path / "table" / "a")
    (tmp_path / "table" / "out").symlink_to(tmp_path / "outside")
    guard = scope(store)
    assert guard.refusals(["alias/needed", "out/x", "alias/old"]) == {
        "alias/needed": "the newest version of a file group",
        "out/x": "a directory link leads out of the folder: put the files where the link is, "
        "or remove the link",
    }
    guard.remove("alias/old")
    assert store.head("a/old") is None
    assert outside.head("x") is not None


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("alias/p/file", "it is in another table, 'inner'"),
        ("control/hoodie.properties", "it is in the control folder of a table"),
    ],
)
def test_a_link_is_no_way_into_another_table_or_a_control_folder(
    tmp_path: Path, path: str, reason: str
) -> None:
    store = LocalStore(str(tmp_path))
    for name in KEPT:
        store.put(name, b"")
    (tmp_path / "alias").symlink_to(tmp_path / "inner")
    (tmp_path / "control").symlink_to(tmp_path / ".hoodie")
    assert scope(store).refusals([path]) == {path: reason}
    with pytest.raises(CorruptTableError):
        scope(store).remove(path)
    assert [info.path for info in store.list()] == sorted(KEPT)


def test_tables_below_a_root_are_known_by_what_a_listing_shows() -> None:
    paths = (
        ".hoodie/hoodie.properties",
        ".hoodie/metadata/.hoodie/hoodie.properties",
        "metadata/v1.metadata.json",
        "a/b/.hoodie/20250101000000000.commit",
        "a/b/.hoodie/metadata/.hoodie/hoodie.properties",
        "a/b/p/x.parquet",
        "c/metadata/00001-u.metadata.json",
        "d/metadata/snap-1.avro",
        "e/.hoodie_partition_metadata",
        "f/v1.metadata.json",
        "both/metadata/v2.gz.metadata.json",
        "both/.hoodie/hoodie.properties",
        "g/.hoodie",
        "h/_delta_log/00000000000000000007.json",
        "both/_delta_log/_last_checkpoint",
        "i/_delta_log",
    )
    found = nested_tables(paths)
    assert found == {"a/b": HUDI, "c": ICEBERG, "both": HUDI, "h": DELTA}
    assert [root_around(path, found) for path in ("a/b", "a/b/p/x", "a/bc", "c/x", "x")] == [
        "a/b",
        "a/b",
        None,
        "c",
        None,
    ]


def test_a_link_is_no_way_into_another_table(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.put("inner/.hoodie/hoodie.properties", b"")
    store.put("inner/p/file", b"rows")
    (tmp_path / "p").symlink_to(tmp_path / "inner" / "p")
    guarded = DeleteScope(store, "clean 7", nested={"inner": HUDI})

    with pytest.raises(CorruptTableError, match="in another table, 'inner'"):
        guarded.remove("p/file")
    assert guarded.refusals(("p/file",)) == {"p/file": "it is in another table, 'inner'"}
    assert store.get("inner/p/file") == b"rows"
