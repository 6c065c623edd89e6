"""Names in a local folder that lead elsewhere, wait for ever, or have no end."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tideline.bounded.read_limits import SETTING
from tideline.clock import SystemClock
from tideline.errors import (
    CorruptTableError,
    ObjectNotFoundError,
    TidelineError,
    UnsupportedTableError,
)
from tideline.storage.copying import copy_object
from tideline.storage.local import regular_file
from tideline.storage.local.liveness import KernelWord, WriterLock, ask_kernel, list_writer_locks
from tideline.storage.local.regular_file import native_file
from tideline.storage.local.store import LocalStore
from tideline.storage.local.unfinished_files import has_unfinished, remove_unfinished
from tideline.storage.lock import LOCAL_LOCK_PATH, open_table_lock
from tideline.storage.object_store import AlreadyExists, Changed
from tideline.testing.in_time import in_time

MIB = 1024 * 1024


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one object, beside a file that is not in it."""
    (tmp_path / "table" / "p").mkdir(parents=True)
    (tmp_path / "table" / "p" / "real").write_bytes(b"own")
    (tmp_path / "canary").write_bytes(b"canary")
    return tmp_path / "table"


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(str(root))


@pytest.fixture(params=["held", "opened"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How a file is looked at: held by the kernel, or opened where it holds none."""
    if request.param == "opened":
        monkeypatch.setattr(regular_file, "_HOLDING", os.O_CLOEXEC)
    regular_file._holds.cache_clear()
    return str(request.param)


@pytest.fixture(autouse=True)
def asked_again() -> Iterator[None]:
    yield
    regular_file._holds.cache_clear()


def reads(store: LocalStore, path: str) -> dict[str, Callable[[], object]]:
    """Every way to read the object."""
    return {
        "get": lambda: store.get(path),
        "get_versioned": lambda: store.get_versioned(path),
        "get_range": lambda: store.get_range(path, offset=0, length=100),
        "open_reader": lambda: store.open_reader(path),
        "head": lambda: store.head(path),
        "native": lambda: native_file(store, path),
        "copy": lambda: copy_object(store, path, store, "copy", size_bytes=1),
        "put_if_match": lambda: store.put_if_match(path, b"new", version="1"),
        "put": lambda: store.put(path, b"new"),
        "listing": lambda: list(store.list()),
        "level": lambda: store.list_directory("p"),
        "after": lambda: list(store.list_after("")),
    }


READS = tuple(reads(LocalStore("/"), "x"))


def make(kind: str, place: Path) -> None:
    """Something that no object is."""
    match kind:
        case "fifo":
            os.mkfifo(place)
        case "socket":
            # The name of a socket may have 107 bytes.
            with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as made:
                made.bind(f"{short}/s")
                (Path(short) / "s").rename(place)
        case "device":
            os.mknod(place, 0o20600, os.makedev(1, 5))
        case _:
            place.symlink_to(kind.format(place.parents[2]))


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("kind", ["fifo", "socket", "device"])
def test_what_is_no_regular_file_is_named_and_never_opened(
    store: LocalStore, root: Path, kind: str, read: str
) -> None:
    if kind == "device" and os.geteuid() != 0:
        pytest.skip("only root makes devices")
    make(kind, root / "p" / "bad")
    with pytest.raises(CorruptTableError, match=rf"is a {kind}.*p/bad"):
        in_time(reads(store, "p/bad")[read])


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(
    "target", ["{0}/canary", "../../canary", "/dev/zero", "/proc/self/environ", "/etc/passwd"]
)
@pytest.mark.usefixtures("way")
def test_a_link_to_a_file_out_of_the_folder_is_refused_by_name(
    store: LocalStore, root: Path, target: str, read: str
) -> None:
    make(target, root / "p" / "bad")
    with pytest.raises(UnsupportedTableError, match=r"leads out of the folder.*p/bad"):
        in_time(reads(store, "p/bad")[read])
    assert (root.parent / "canary").read_bytes() == b"canary"


@pytest.mark.usefixtures("way")
def test_a_link_to_a_fifo_within_the_folder_is_none_to_read(store: LocalStore, root: Path) -> None:
    make("fifo", root / "pipe")
    (root / "p" / "bad").symlink_to(root / "pipe")
    with pytest.raises(CorruptTableError, match=r"is a fifo.*p/bad"):
        in_time(lambda: store.get("p/bad"))


@pytest.mark.usefixtures("way")
def test_a_link_to_a_file_within_the_folder_is_an_object(store: LocalStore, root: Path) -> None:
    (root / "p" / "link").symlink_to("real")
    (root / "p" / "absolute").symlink_to(root / "p" / "real")
    for path in ("p/real", "p/link", "p/absolute"):
        assert store.get(path) == store.get_range(path, offset=0, length=9) == b"own"
        with store.open_reader(path) as reader:
            assert reader.read() == b"own"
        found = store.head(path)
        assert found is not None
        assert found.size_bytes == 3
    assert [info.path for info in store.list_directory("p").objects] == [
        "p/absolute", "p/link", "p/real",
    ]  # fmt: skip
    copy_object(store, "p/link", store, "copy", size_bytes=3)
    assert not (root / "copy").is_symlink()
    store.delete("p/link")
    assert store.get("p/real") == b"own"


@pytest.mark.usefixtures("way")
def test_the_folder_itself_may_be_a_link(store: LocalStore, root: Path) -> None:
    other = root.parent / "other"
    other.symlink_to(root)
    assert LocalStore(str(other)).get("p/real") == store.get("p/real") == b"own"


def test_a_link_that_is_exchanged_after_the_look_is_not_followed(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read is what was looked at, whatever its name leads to by then."""
    own, bad = root / "p" / "real", root / "p" / "bad"
    bad.symlink_to(own)
    look = regular_file._check_inside

    def exchange(*given: object) -> None:
        look(*given)  # type: ignore[arg-type]
        bad.unlink()
        bad.symlink_to(root.parent / "canary")

    monkeypatch.setattr(regular_file, "_check_inside", exchange)
    assert store.get("p/bad") == b"own"


def test_a_link_to_nothing_is_no_object_and_takes_no_write(store: LocalStore, root: Path) -> None:
    (root / "p" / "bad").symlink_to(root / "p" / "nothing")
    assert store.head("p/bad") is None
    with pytest.raises(ObjectNotFoundError):
        store.get("p/bad")
    for write in (lambda: store.put("p/bad", b"1"), lambda: store.put_if_absent("p/bad", b"1")):
        with pytest.raises(UnsupportedTableError, match=r"a link to nothing .*p/bad"):
            in_time(write)
    assert store.put_if_match("p/bad", b"1", version="1") == Changed()
    store.delete("p/bad")
    assert not (root / "p" / "bad").is_symlink()


@pytest.mark.parametrize("read", [name for name in READS if name not in ("put", "put_if_match")])
def test_a_link_to_itself_is_named(store: LocalStore, root: Path, read: str) -> None:
    (root / "p" / "bad").symlink_to("bad")
    with pytest.raises(UnsupportedTableError, match=r"a link leads to itself.*p/bad"):
        in_time(reads(store, "p/bad")[read])


@pytest.mark.parametrize("kind", ["fifo", "{0}/canary", "../nothing", "bad"])
def test_whatever_it_is_can_be_deleted_without_what_it_leads_to(
    store: LocalStore, root: Path, kind: str
) -> None:
    make(kind, root / "p" / "bad")
    in_time(lambda: store.delete("p/bad"))
    assert [info.path for info in store.list()] == ["p/real"]
    assert (root.parent / "canary").read_bytes() == b"canary"


@pytest.mark.parametrize("kind", ["fifo", "{0}/canary", "../../new"])
def test_an_upload_goes_into_no_link_and_no_fifo(store: LocalStore, root: Path, kind: str) -> None:
    make(kind, root / "p" / "bad")

    def upload() -> None:
        with store.open_writer("p/bad") as writer:
            writer.write(b"over")

    with pytest.raises((CorruptTableError, UnsupportedTableError), match="p/bad"):
        in_time(upload)
    assert (root.parent / "canary").read_bytes() == b"canary"
    assert not (root.parent / "new").exists()


def test_a_file_that_is_larger_than_it_says_is_read_up_to_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files of the kernel say that they have no bytes."""
    name = "proc/self/smaps"
    whole = LocalStore("/").get(name)
    assert len(whole) > 65_536
    monkeypatch.setenv(SETTING, "64Ki")
    with pytest.raises(UnsupportedTableError, match=rf"larger than the 65.5 kB.*{name}"):
        LocalStore("/").get(name)
    monkeypatch.setenv(SETTING, "")
    read = 0
    original = os.read

    def count(descriptor: int, length: int) -> bytes:
        nonlocal read
        chunk = original(descriptor, length)
        read += len(chunk)
        return chunk

    monkeypatch.setenv(SETTING, "64Ki")
    monkeypatch.setattr(os, "read", count)
    with pytest.raises(UnsupportedTableError):
        LocalStore("/").get(name)
    assert read <= 65_536 + 1


def test_a_sparse_file_of_a_terabyte_takes_no_memory(store: LocalStore, root: Path) -> None:
    os.truncate(root / "p" / "real", 2**40)
    with pytest.raises(UnsupportedTableError, match=r"1\.1 TB is larger than.*p/real"):
        store.get("p/real")
    with pytest.raises(UnsupportedTableError, match="larger than"):
        store.put_if_match("p/real", b"1", version="1")
    assert store.get_range("p/real", offset=2**40 - 3, length=2**50) == b"\0" * 3


def test_a_range_takes_no_more_memory_than_the_file_has_bytes(store: LocalStore) -> None:
    assert store.get_range("p/real", offset=1, length=2**60) == b"wn"
    assert store.get_range("p/real", offset=2**60, length=2**60) == b""


@pytest.mark.parametrize("kind", ["fifo", "{0}/canary"])
def test_locks_are_files_of_the_table(store: LocalStore, root: Path, kind: str) -> None:
    (root / LOCAL_LOCK_PATH).parent.mkdir(parents=True)
    make(kind, root / LOCAL_LOCK_PATH)
    with pytest.raises(TidelineError, match=r"table\.lock"):
        in_time(lambda: open_table_lock(store, SystemClock()).acquire(timeout_s=0))
    make(kind, root / ".hoodie" / ".locks" / "writer-1.lock")
    assert in_time(lambda: WriterLock.hold(store, "1")) is None
    assert in_time(lambda: ask_kernel(store, "1")) is KernelWord.NOTHING
    assert (root.parent / "canary").read_bytes() == b"canary"


def test_a_folder_of_locks_is_the_tables(store: LocalStore, root: Path) -> None:
    (root / ".hoodie").mkdir()
    (root / ".hoodie" / ".locks").symlink_to(root.parent)
    refused: list[Callable[[], object]] = [
        lambda: open_table_lock(store, SystemClock()),
        lambda: WriterLock.hold(store, "1"),
        lambda: ask_kernel(store, "1"),
        lambda: list_writer_locks(store),
    ]
    for request in refused:
        with pytest.raises(UnsupportedTableError, match=r"leads out of the folder.*\.locks"):
            request()
    assert sorted(path.name for path in root.parent.iterdir()) == ["canary", "table"]


def test_an_unfinished_file_that_is_a_fifo_or_a_link_waits_for_nobody(
    store: LocalStore, root: Path
) -> None:
    make("fifo", root / "p" / ".tmp-1")
    make("{0}/canary", root / "p" / ".tmp-2")
    in_time(lambda: has_unfinished(store, "p"))
    in_time(lambda: remove_unfinished(store, "p"))
    assert (root.parent / "canary").read_bytes() == b"canary"
    assert [info.path for info in store.list()] == ["p/real"]


@pytest.mark.parametrize("path", ["../canary", "p/../../canary", "/etc/passwd", "a\0b", "p//real"])
def test_a_path_that_leads_up_is_refused(store: LocalStore, path: str) -> None:
    for name, read in reads(store, path).items():
        if name not in ("listing", "level", "after"):
            with pytest.raises(
                TidelineError, match=r"segment|control character|leads out of the folder"
            ):
                read()


def test_nobody_is_told_that_a_create_was_refused_by_a_fifo(store: LocalStore, root: Path) -> None:
    make("fifo", root / "p" / "bad")
    assert in_time(lambda: store.put_if_absent("p/bad", b"1")) == AlreadyExists()


def test_unfinished_files_behind_a_link_out_of_the_folder_stay(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / ".tmp-1").write_bytes(b"of another table")
    (tmp_path / "root" / "p").symlink_to(tmp_path / "outside")
    store = LocalStore(str(tmp_path / "root"))
    assert not has_unfinished(store, "p")
    remove_unfinished(store, "p")
    assert (tmp_path / "outside" / ".tmp-1").exists()
