"""What a process that died in the middle of a write leaves on a local folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from tideline.storage.local.store import LocalStore
from tideline.storage.local.unfinished_files import remove_unfinished, remove_unfinished_below
from tideline.storage.memory.store import MemoryStore


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


def test_unfinished_files_of_the_dead_are_removed(tmp_path: Path, store: LocalStore) -> None:
    store.put("folder/object", b"body")
    (tmp_path / "folder/.tmp-1").write_bytes(b"half a bo")
    (tmp_path / "folder/deeper").mkdir()
    (tmp_path / "folder/deeper/.tmp-2").write_bytes(b"")
    remove_unfinished(store, "folder")
    names = sorted(path.name for path in tmp_path.rglob("*"))
    assert names == [".tmp-2", "deeper", "folder", "object"], "one level only"


def test_old_ones_are_removed_at_any_depth_but_not_behind_links(
    tmp_path: Path, store: LocalStore
) -> None:
    elsewhere = tmp_path / "elsewhere"
    for folder in ("folder/deeper", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / ".tmp-1").write_bytes(b"half a bo")
    (tmp_path / "folder/.tmp-2").write_bytes(b"")
    os.utime(tmp_path / "folder/.tmp-2", (2_000, 2_000))
    os.utime(tmp_path / "folder/deeper/.tmp-1", (1_000, 1_000))
    os.utime(elsewhere / ".tmp-1", (1_000, 1_000))
    (tmp_path / "folder/link").symlink_to(elsewhere)
    remove_unfinished_below(store, "folder", 1_500_000)
    assert not (tmp_path / "folder/deeper/.tmp-1").exists()
    assert (tmp_path / "folder/.tmp-2").exists()
    assert (elsewhere / ".tmp-1").exists()
    with (tmp_path / "folder/.tmp-2").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        remove_unfinished_below(store, "folder", 3_000_000)
        assert (tmp_path / "folder/.tmp-2").exists()
    remove_unfinished_below(store, "folder", 3_000_000)
    assert not (tmp_path / "folder/.tmp-2").exists()
    remove_unfinished_below(store, "nowhere", 3_000_000)


def test_files_that_a_writer_is_still_writing_are_kept(tmp_path: Path, store: LocalStore) -> None:
    file = tmp_path / ".tmp-1"
    with file.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        remove_unfinished(store, "")
        assert file.exists()
    remove_unfinished(store, "")
    assert not file.exists()


def test_a_folder_that_is_not_there_is_fine(store: LocalStore) -> None:
    remove_unfinished(store, "nowhere")


def test_other_stores_leave_nothing_unfinished() -> None:
    remove_unfinished(MemoryStore("unfinished"), "folder")
    MemoryStore.forget("unfinished")
