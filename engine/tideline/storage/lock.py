"""The table lock: at most one holder per table, across threads, processes and machines.

Local folders use an flock, which the kernel releases when the holder dies; every other store uses
Hudi's storage lock, a lease that has to be renewed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, Self

from tideline.clock import Clock
from tideline.lock_timing import DEFAULT_TIMING, LockTiming
from tideline.storage.local.fcntl_lock import FcntlLock
from tideline.storage.local.real_path import real_path_in
from tideline.storage.object_store import ObjectStore
from tideline.storage.storage_lock import StorageLock

LOCAL_LOCK_PATH = ".hoodie/.locks/table.lock"


Guard = Callable[[], None]
"""Raises ConflictError when the lock was lost, or its holder taken for dead: a holder that wakes
up after that must not touch what others hold."""


def unguarded() -> None:
    """For a caller that cannot lose the lock, or writes what others would write as well."""


class Lease(Protocol):
    """A lock that is held. Leaving its `with` block releases it."""

    def remaining_s(self) -> float:
        """Seconds until others may take the lock: infinite on a local folder, 0 when lost."""

    def is_held(self) -> bool: ...

    def release(self) -> None:
        """Give the lock up; releasing twice is fine. Never raises because the store is away."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class TableLock(Protocol):
    """Not reentrant: a second acquire waits for the first lease, in the same thread too."""

    def acquire(self, *, timeout_s: float | None = None) -> Lease:
        """Wait for the lock as long as its timing says, or else up to `timeout_s`.

        What it waits for is logged. Raises ConflictError naming the holder when another process
        kept it, StorageUnavailableError when the store stayed away.
        """


def open_table_lock(
    store: ObjectStore, clock: Clock, timing: LockTiming = DEFAULT_TIMING
) -> TableLock:
    """The lock of the table whose base is the store's root.

    On a local folder nothing of the timing matters but how long others wait. Raises
    UnsupportedTableError when a link takes the folder of the lock out of the table's.
    """
    path = store.local_path(LOCAL_LOCK_PATH)
    if path is not None:
        real_path_in(store, LOCAL_LOCK_PATH)
        return FcntlLock(Path(path), clock, timing.wait_s)
    return StorageLock(store, clock, timing)
