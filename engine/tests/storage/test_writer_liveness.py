"""On a local folder the kernel distinguishes live writers from dead ones."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path

import pytest

from tideline.clock import SystemClock
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.storage.heartbeat import (
    Heartbeat,
    delete_heartbeat,
    is_heartbeat_dead,
    list_heartbeats,
)
from tideline.storage.local.store import LocalStore
from tideline.storage.location import StoreLocation
from tideline.testing.fake_clock import FakeClock
from tideline.testing.faulty_store import FaultPlan
from tideline.testing.patience import PATIENCE_S
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.writer_process import WriterTask, hold_a_write_open, join, start

INSTANT = "20250101120000000"
LOCK = f".hoodie/.locks/writer-{INSTANT}.lock"
HEARTBEAT = f".hoodie/.heartbeat/{INSTANT}"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


def is_dead(store: LocalStore) -> bool:
    return is_heartbeat_dead(store, INSTANT, SystemClock(), DEFAULT_LIMITS)


def leave_a_dead_writers_lock(tmp_path: Path, store: LocalStore) -> Path:
    """A heartbeat as young as can be, and a lock file that no process holds."""
    heartbeat = Heartbeat(store, INSTANT, SystemClock())
    heartbeat.start()
    body = (tmp_path / LOCK).read_bytes()
    heartbeat.stop()
    store.put(HEARTBEAT, b"")
    (tmp_path / LOCK).write_bytes(body)
    return tmp_path / LOCK


def test_a_writer_of_this_process_is_alive(store: LocalStore) -> None:
    with Heartbeat(store, INSTANT, SystemClock()):
        assert not is_dead(store)
        assert not is_dead(LocalStore(store.uri.removeprefix("file://")))


def test_a_writer_that_stopped_leaves_nothing(tmp_path: Path, store: LocalStore) -> None:
    with Heartbeat(store, INSTANT, SystemClock()):
        assert (tmp_path / LOCK).exists()
        assert store.get(HEARTBEAT) == b"", "Hudi's heartbeats are empty"
    assert not (tmp_path / LOCK).exists()
    assert list_heartbeats(store) == frozenset()


def test_a_lock_that_no_process_holds_is_a_dead_writers(tmp_path: Path, store: LocalStore) -> None:
    leave_a_dead_writers_lock(tmp_path, store)
    assert is_dead(store)
    assert list_heartbeats(store) == {INSTANT}
    delete_heartbeat(store, INSTANT)
    assert list_heartbeats(store) == frozenset()


def test_a_lock_of_another_machine_says_nothing(tmp_path: Path, store: LocalStore) -> None:
    leave_a_dead_writers_lock(tmp_path, store).write_bytes(b"another kernel")
    assert not is_dead(store)


def test_a_lock_file_whose_writer_died_before_it_locked_says_nothing(
    tmp_path: Path, store: LocalStore
) -> None:
    leave_a_dead_writers_lock(tmp_path, store).write_bytes(b"")
    assert not is_dead(store)


def test_a_held_lock_goes_before_any_age(tmp_path: Path, store: LocalStore) -> None:
    """An old time stamp, or a clock that runs ahead, says nothing against the kernel."""
    with Heartbeat(store, INSTANT, SystemClock()):
        old_s = time.time() - 1000
        os.utime(tmp_path / HEARTBEAT, (old_s, old_s))
        assert not is_dead(store)
        ahead = FakeClock(SystemClock().now_ms() + 3_600_000)
        assert not is_heartbeat_dead(store, INSTANT, ahead, DEFAULT_LIMITS)


def test_a_writer_in_another_process_is_not_overruled_by_our_clock(tmp_path: Path) -> None:
    """Its write is neither rolled back nor swept up by one whose clock is an hour ahead."""
    location = StoreLocation.of(str(tmp_path / "table"))
    SmallTable.create(location).write("insert", batch(range(2), 1))
    ready = tmp_path / "ready"
    task = WriterTask(location, "upsert", batch([0], 2), FaultPlan())
    process = start(hold_a_write_open, task, str(ready))
    deadline_s = time.monotonic() + PATIENCE_S
    while not ready.exists() and time.monotonic() < deadline_s:
        time.sleep(0.02)
    ahead = SmallTable(location, FakeClock(SystemClock().now_ms() + 3_600_000))
    assert ahead.lake().recover() == ()
    assert ahead.write("insert", batch([7], 3)).rolled_back == ()
    ready.unlink()
    assert join(process) == 0
    assert SmallTable(location).values() == [("k000", 2), ("k001", 1), ("k007", 3)]


def test_a_heartbeat_that_lapsed_is_checked_by_its_age(tmp_path: Path, store: LocalStore) -> None:
    heartbeat = Heartbeat(store, INSTANT, SystemClock())
    heartbeat.start()
    heartbeat.lapse()
    assert not is_dead(store)
    assert not (tmp_path / LOCK).exists()
    old_s = time.time() - 1000
    os.utime(tmp_path / HEARTBEAT, (old_s, old_s))
    assert is_dead(store)


def test_a_file_system_without_locks_falls_back_to_age(
    tmp_path: Path, store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    leave_a_dead_writers_lock(tmp_path, store)
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        assert not is_dead(store)


def test_a_file_system_that_locks_per_process_finds_its_own_writers_alive(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where flock is a record lock underneath, a process is never refused its own lock."""
    with Heartbeat(store, INSTANT, SystemClock()), monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", lambda _descriptor, _operation: None)
        assert not is_dead(store)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_does_not_keep_its_parents_writer_alive(tmp_path: Path, store: LocalStore) -> None:
    heartbeat = Heartbeat(store, INSTANT, SystemClock())
    heartbeat.start()
    body = (tmp_path / LOCK).read_bytes()
    kept = tmp_path / "kept"
    os.link(tmp_path / LOCK, kept)
    release, hold = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(hold)
        os.read(release, 1)
        os._exit(0)
    try:
        heartbeat.stop()
        # The very file the parent held, under its name again: only the child could still hold it.
        kept.rename(tmp_path / LOCK)
        assert (tmp_path / LOCK).read_bytes() == body
        store.put(HEARTBEAT, b"")
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_dead(store):
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
    finally:
        os.close(hold)
        os.close(release)
        os.waitpid(child, 0)
