"""The store contract on a local folder, and what only a local folder does."""

import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tideline.errors import (
    InvalidDataError,
    ObjectNotFoundError,
    StorageUnavailableError,
    UnsupportedTableError,
)
from tideline.storage.local import listing
from tideline.storage.local.store import LocalStore
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectInfo, Written
from tideline.testing.patience import PATIENCE_S
from tideline.testing.store_contract import StoreContract, in_parallel

PYTHON = [sys.executable, "-c"]


class TestLocalStore(StoreContract):
    @pytest.fixture
    def location(self, tmp_path: Path) -> StoreLocation:
        return StoreLocation.of(str(tmp_path / "täble with space"))


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


def test_local_path_names_the_native_file(store: LocalStore, tmp_path: Path) -> None:
    store.put("a/b c", b"x")
    path = store.local_path("a/b c")
    assert path == str(tmp_path / "a" / "b c")
    assert Path(path).read_bytes() == b"x"
    assert store.local_path("") == str(tmp_path)


def test_unfinished_files_are_never_listed(store: LocalStore, tmp_path: Path) -> None:
    store.put("p/x", b"1")
    (tmp_path / "p" / ".tmp-0b3c").write_bytes(b"half")
    assert [info.path for info in store.list()] == ["p/x"]
    assert [info.path for info in store.list_directory("p").objects] == ["p/x"]
    store.delete_prefix("p")
    assert [*tmp_path.iterdir()] == []


def test_no_temporary_file_remains_after_any_put(store: LocalStore, tmp_path: Path) -> None:
    version = store.put("p/x", b"1").version
    store.put("p/x", b"2")
    store.put_if_absent("p/x", b"3")
    store.put_if_absent("p/y", b"4")
    store.put_if_match("p/x", b"5", version=version)
    store.put_if_match("p/x", b"6", version=store.get_versioned("p/x").version)
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == ["x", "y"]


def test_delete_leaves_the_directory(store: LocalStore, tmp_path: Path) -> None:
    store.put("p/x", b"1")
    store.delete("p/x")
    assert (tmp_path / "p").is_dir()


def test_a_folder_is_listed_as_it_was_at_one_moment(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first file was looked up, and went with the next one before that was."""
    for name in "abcd":
        store.put(f"folder/{name}", b"1")
    looked_up, gone = listing._looked_up, ["a", "b"]

    def look_up(*where: Any) -> list[ObjectInfo]:
        found = looked_up(*where)
        while gone:
            store.delete(f"folder/{gone.pop(0)}")
        return found

    monkeypatch.setattr(listing, "_looked_up", look_up)
    assert [item.path for item in store.list_directory("folder").objects] == [
        "folder/c",
        "folder/d",
    ]


def test_a_directory_is_not_an_object(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    assert store.head("d") is None
    with pytest.raises(ObjectNotFoundError):
        store.get("d")
    store.delete("d")
    assert (tmp_path / "d").is_dir()


def test_hadoop_checksum_of_a_replaced_body_goes(store: LocalStore, tmp_path: Path) -> None:
    store.put("hoodie.properties", b"old")
    sidecar = tmp_path / ".hoodie.properties.crc"
    for replace in (
        lambda: store.put("hoodie.properties", b"new"),
        lambda: store.put_if_match(
            "hoodie.properties", b"2", version=store.get_versioned("hoodie.properties").version
        ),
        lambda: store.delete("hoodie.properties"),
        lambda: store.put_if_absent("hoodie.properties", b"again"),
    ):
        sidecar.write_bytes(b"crc\0")
        replace()
        assert not sidecar.exists()


def test_a_link_within_the_folder_is_a_second_name_that_no_listing_shows(
    store: LocalStore, tmp_path: Path
) -> None:
    store.put("real/x", b"1")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "loop").symlink_to(tmp_path)
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    assert [info.path for info in store.list()] == ["real/x"]
    assert store.get("link/x") == b"1"
    store.delete("link/x")
    assert list(store.list()) == []


@pytest.mark.parametrize("place", ["link", "p/link"])
def test_a_link_out_of_the_folder_is_refused_by_name(tmp_path: Path, place: str) -> None:
    outside = LocalStore(str(tmp_path / "outside"))
    outside.put("x", b"1")
    store = LocalStore(str(tmp_path / "table"))
    store.put("p/y", b"2")
    (tmp_path / "table" / place).symlink_to(tmp_path / "outside")
    with pytest.raises(UnsupportedTableError, match=f"leads out of the folder.*{place}.*outside"):
        list(store.list())
    refused: list[Callable[[], object]] = [
        lambda: store.list_directory(place),
        lambda: store.get(f"{place}/x"),
        lambda: store.put(f"{place}/new", b""),
        lambda: store.put_if_absent(f"{place}/new", b""),
        lambda: store.delete(f"{place}/x"),
        lambda: store.delete_prefix(f"{place}/sub"),
    ]
    for request in refused:
        with pytest.raises(UnsupportedTableError, match="leads out of the folder"):
            request()
    store.delete_prefix("")
    assert [info.path for info in outside.list()] == ["x"]


def test_a_folder_that_is_reached_through_a_link_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "table").symlink_to(tmp_path / "disk")
    store = LocalStore(str(tmp_path / "table"))
    store.put("p/x", b"1")
    assert [info.path for info in store.list()] == ["p/x"]


def test_writers_do_not_lose_to_a_directory_being_removed(store: LocalStore) -> None:
    def work(number: int) -> None:
        for turn in range(30):
            if number == 0:
                store.delete_prefix("p")
            else:
                store.put_if_absent(f"p/q/{number}-{turn}", b"x")

    in_parallel(work, 4)


def test_compare_and_swap_holds_across_processes(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.put("counter", b"0")
    program = """if True:
        import sys
        from tideline.storage.local.store import LocalStore
        from tideline.storage.object_store import Written
        store, done = LocalStore(sys.argv[1]), 0
        while done < 40:
            seen = store.get_versioned("counter")
            body = str(int(seen.body) + 1).encode()
            done += isinstance(store.put_if_match("counter", body, version=seen.version), Written)
    """
    workers = [subprocess.Popen([*PYTHON, program, str(tmp_path)]) for _ in range(3)]
    assert [worker.wait(PATIENCE_S) for worker in workers] == [0, 0, 0]
    assert store.get("counter") == b"120"


def test_plain_writes_and_deletes_do_not_slip_into_a_compare_and_swap(store: LocalStore) -> None:
    """A swap that succeeds must have replaced exactly the body it read."""
    store.put("x", b"start")
    replaced: dict[bytes, bytes] = {}

    def work(number: int) -> None:
        for turn in range(40):
            body = f"{number}-{turn}".encode()
            if number == 0:
                store.put("x", body)
                continue
            seen = store.get_versioned("x")
            if isinstance(store.put_if_match("x", body, version=seen.version), Written):
                assert seen.body not in replaced
                replaced[seen.body] = body

    in_parallel(work, 4)
    assert len(replaced) == len(set(replaced.values()))


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """What the kernel writes of a file in this process, as on a disk that is full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, limits[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_while_streaming_is_named_and_leaves_nothing(
    store: LocalStore, tmp_path: Path
) -> None:
    with (
        files_of_at_most(1000),
        pytest.raises(StorageUnavailableError, match=r"File too large.*/full"),
        store.open_writer("full") as writer,
    ):
        writer.write(b"x" * 5_000_000)
    assert not (tmp_path / "full").exists()


def test_a_full_disk_at_close_is_named_and_leaves_nothing(
    store: LocalStore, tmp_path: Path
) -> None:
    with (
        files_of_at_most(10),
        pytest.raises(StorageUnavailableError, match="File too large"),
        store.open_writer("full") as writer,
    ):
        writer.write(b"fits the buffer")
    assert not (tmp_path / "full").exists()


def test_a_put_that_does_not_fit_leaves_the_old_body(store: LocalStore, tmp_path: Path) -> None:
    store.put("x", b"old")
    with files_of_at_most(1000):
        with pytest.raises(StorageUnavailableError, match=r"File too large.*/x"):
            store.put("x", b"n" * 5000)
        with pytest.raises(StorageUnavailableError):
            store.put_if_absent("y", b"n" * 5000)
    assert store.get("x") == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_folder_without_permission_is_named() -> None:
    """In a process of its own, because root may write anywhere."""
    program = """if True:
        import os, sys
        from tideline.errors import StorageUnavailableError
        from tideline.storage.local.store import LocalStore
        if os.getuid() == 0:
            os.setgid(65534); os.setuid(65534)
        store = LocalStore(sys.argv[1])
        for action in (
            lambda: store.put("new", b""), lambda: store.get("x"), lambda: store.delete("x"),
            lambda: store.put_if_absent("new", b""), lambda: store.open_writer("n").__enter__(),
        ):
            try:
                action()
            except StorageUnavailableError as error:
                assert "Permission denied" in str(error) and sys.argv[1] in str(error), error
            else:
                raise SystemExit("not refused")
    """
    # Not tmp_path: its parents are closed to other users.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "x").write_bytes(b"1")
        (folder / "x").chmod(0)
        folder.chmod(0o555)
        command = [*PYTHON, program, name]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        folder.chmod(0o755)
    assert done.returncode == 0, done.stderr


def test_a_file_where_a_directory_must_be_is_named(store: LocalStore) -> None:
    store.put("a", b"x")
    with pytest.raises(StorageUnavailableError, match="a/b"):
        store.put("a/b", b"y")


def test_a_name_too_long_for_the_file_system_is_the_callers_fault(store: LocalStore) -> None:
    with pytest.raises(InvalidDataError, match="cannot hold this name"):
        store.put("n" * 300, b"x")
