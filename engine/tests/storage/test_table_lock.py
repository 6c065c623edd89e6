"""The table lock on every store: exclusion, and what happens when the holder dies."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tideline.clock import SystemClock
from tideline.errors import ConflictError
from tideline.lock_timing import LockTiming
from tideline.storage.local.fcntl_lock import FcntlLock
from tideline.storage.location import StoreLocation
from tideline.storage.lock import LOCAL_LOCK_PATH, open_table_lock
from tideline.storage.memory.store import MemoryStore
from tideline.storage.storage_lock import STORAGE_LOCK_PATH, StorageLock
from tideline.testing.fake_clock import FakeClock
from tideline.testing.store_contract import in_parallel

STRICT = LockTiming(outlasts_lease=False)
"""Waits for as long as it is asked to, and no longer."""


class LockContract:
    @pytest.fixture
    def location(self) -> StoreLocation:
        raise NotImplementedError

    def test_a_second_writer_conflicts_until_the_first_releases(
        self, location: StoreLocation
    ) -> None:
        first = open_table_lock(location.open(), SystemClock(), STRICT)
        second = open_table_lock(location.open(), SystemClock(), STRICT)
        lease = first.acquire(timeout_s=5)
        assert lease.is_held()
        assert lease.remaining_s() > 50
        with pytest.raises(ConflictError, match="lock"):
            second.acquire(timeout_s=0.2)
        with pytest.raises(ConflictError):
            first.acquire(timeout_s=0)
        lease.release()
        assert not lease.is_held()
        assert lease.remaining_s() == 0
        lease.release()
        with second.acquire(timeout_s=5) as again:
            assert again.is_held()
        assert not again.is_held()

    def test_a_waiting_writer_gets_the_lock_when_it_is_released(
        self, location: StoreLocation
    ) -> None:
        lease = open_table_lock(location.open(), SystemClock(), STRICT).acquire(timeout_s=5)
        timer = threading.Timer(0.3, lease.release)
        timer.start()
        with open_table_lock(location.open(), SystemClock(), STRICT).acquire(timeout_s=10):
            assert not lease.is_held()
        timer.join()

    def test_threads_exclude_each_other(self, location: StoreLocation) -> None:
        shared = open_table_lock(location.open(), SystemClock(), STRICT)
        inside: set[int] = set()
        most = 0

        def work(number: int) -> None:
            nonlocal most
            own = open_table_lock(location.open(), SystemClock(), STRICT)
            for lock in (shared, own):
                with lock.acquire(timeout_s=50):
                    inside.add(number)
                    most = max(most, len(inside))
                    time.sleep(0.005)
                    inside.discard(number)

        in_parallel(work, 4)
        assert most == 1

    def test_the_lock_is_released_when_the_block_fails(self, location: StoreLocation) -> None:
        lock = open_table_lock(location.open(), SystemClock(), STRICT)
        with pytest.raises(KeyError), lock.acquire(timeout_s=5):
            raise KeyError
        lock.acquire(timeout_s=5).release()


class TestLocalLock(LockContract):
    @pytest.fixture
    def location(self, tmp_path: Path) -> StoreLocation:
        return StoreLocation.of(str(tmp_path / "table"))


class TestMemoryLock(LockContract):
    @pytest.fixture
    def location(self, request: pytest.FixtureRequest) -> Iterator[StoreLocation]:
        name = f"lock-{id(request.node)}"
        yield StoreLocation.of(f"memory://{name}")
        MemoryStore.forget(name)


@pytest.mark.minio
class TestS3Lock(LockContract):
    @pytest.fixture
    def location(self, s3_location: StoreLocation) -> StoreLocation:
        return s3_location


def test_a_local_folder_uses_the_kernels_lock_and_others_the_storage_lock(tmp_path: Path) -> None:
    clock = SystemClock()
    local = open_table_lock(StoreLocation.of(str(tmp_path)).open(), clock)
    assert isinstance(local, FcntlLock)
    local.acquire(timeout_s=1).release()
    assert (tmp_path / LOCAL_LOCK_PATH).exists()
    assert isinstance(open_table_lock(MemoryStore("kind"), clock), StorageLock)


HOLDER = """if True:
    import sys, time
    from tideline.clock import SystemClock
    from tideline.storage.location import StoreLocation
    from tideline.storage.lock import open_table_lock
    location = StoreLocation.of(sys.argv[1], dict(zip(sys.argv[2::2], sys.argv[3::2])))
    lease = open_table_lock(location.open(), SystemClock()).acquire(timeout_s=10)
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def hold_in_another_process() -> Iterator[Callable[[StoreLocation], subprocess.Popen[bytes]]]:
    holders: list[subprocess.Popen[bytes]] = []

    def hold(location: StoreLocation) -> subprocess.Popen[bytes]:
        options = [text for option in location.options for text in option]
        command = [sys.executable, "-c", HOLDER, location.uri, *options]
        holder = subprocess.Popen(command, stdout=subprocess.PIPE)
        holders.append(holder)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        return holder

    yield hold
    for holder in holders:
        holder.kill()
        holder.communicate()


def test_a_killed_process_lets_go_of_a_local_lock_at_once(
    tmp_path: Path, hold_in_another_process: Callable[[StoreLocation], subprocess.Popen[bytes]]
) -> None:
    location = StoreLocation.of(str(tmp_path))
    holder = hold_in_another_process(location)
    lock = open_table_lock(location.open(), SystemClock(), STRICT)
    with pytest.raises(ConflictError):
        lock.acquire(timeout_s=0.1)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    lock.acquire(timeout_s=1).release()


@pytest.mark.minio
def test_a_killed_process_keeps_a_storage_lock_until_its_lease_ends(
    s3_location: StoreLocation,
    hold_in_another_process: Callable[[StoreLocation], subprocess.Popen[bytes]],
) -> None:
    holder = hold_in_another_process(s3_location)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    clock = FakeClock(now_ms=SystemClock().now_ms())
    with pytest.raises(ConflictError, match="is held by"):
        open_table_lock(s3_location.open(), clock, STRICT).acquire(timeout_s=20)
    with open_table_lock(s3_location.open(), clock).acquire(timeout_s=20) as lease:
        assert lease.is_held()


def test_a_child_forked_while_the_lock_is_held_does_not_hold_it(tmp_path: Path) -> None:
    lock = FcntlLock(tmp_path / "table.lock", SystemClock())
    lease = lock.acquire(timeout_s=1)
    asked, asking = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            lock.acquire(timeout_s=0)
        except ConflictError:
            os.write(asking, b"1")
            time.sleep(30)
        finally:
            os._exit(1)
    os.close(asking)
    assert os.read(asked, 1), "the child found the lock free"
    os.close(asked)
    lease.release()
    lock.acquire(timeout_s=5).release()
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_the_storage_lock_object_is_hudis(tmp_path: Path) -> None:
    """Compact JSON, fields as RFC-91 orders them; release keeps the object."""
    store = StoreLocation.of(str(tmp_path)).open()
    clock = FakeClock(now_ms=1_000_000)
    lease = StorageLock(store, clock).acquire(timeout_s=0)
    owner = lease.owner
    held = f'{{"expired":false,"validUntil":1060000,"owner":"{owner}"}}'
    assert store.get(STORAGE_LOCK_PATH) == held.encode()
    lease.release()
    assert store.get(STORAGE_LOCK_PATH) == held.replace("false", "true").encode()
