"""What a process that died in the middle of a write leaves on a local folder."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from tideline.storage.local import LocalStore, remove_unfinished
from tideline.storage.memory import MemoryStore


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
