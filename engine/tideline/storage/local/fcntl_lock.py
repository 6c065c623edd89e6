"""The table lock of a local folder: an flock on a file of its own.

The kernel releases it when the holder dies. On most file systems it separates threads as well as
processes; where it is mapped to record locks (NFS) it belongs to the whole process, so a lock per
file within the process stands in front of it.
"""

from __future__ import annotations

import fcntl
import logging
import math
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

from tideline.clock import Clock
from tideline.errors import ConflictError, StorageUnavailableError, TidelineError
from tideline.lock_timing import DEFAULT_TIMING
from tideline.storage.local.regular_file import open_lock_file

_log = logging.getLogger(__name__)
_POLL_S = 0.02
_LOGGED_EVERY_S = 5.0
_NAME_BYTES_MAX = 200


class FcntlLock:
    """Not reentrant; see `TableLock`."""

    def __init__(self, file: Path, clock: Clock, wait_s: float = DEFAULT_TIMING.wait_s) -> None:
        self._file = file
        self._clock = clock
        self._wait_s = wait_s

    def acquire(self, *, timeout_s: float | None = None) -> FcntlLease:
        timeout_s = self._wait_s if timeout_s is None else timeout_s
        begun_s = logged_s = self._clock.monotonic_s()
        while True:
            lease = self._try_acquire()
            if lease is not None:
                return lease
            now_s = self._clock.monotonic_s()
            remaining_s = begun_s + timeout_s - now_s
            if remaining_s <= 0:
                message = f"the table lock is held by {self._holder()}; waited {timeout_s:g} s"
                raise ConflictError(message, path=self._file)
            if now_s - logged_s >= _LOGGED_EVERY_S:
                logged_s = now_s
                _log.warning(
                    "waiting for the table lock %s, held by %s", self._file, self._holder()
                )
            self._clock.sleep(min(_POLL_S, remaining_s))

    def _holder(self) -> str:
        """The process that says it holds the lock."""
        try:
            descriptor = open_lock_file(self._file, os.O_RDONLY)
            try:
                name = os.read(descriptor, _NAME_BYTES_MAX)
            finally:
                os.close(descriptor)
        except (OSError, TidelineError):
            name = b""
        return name.decode("utf-8", "replace").strip() or "another process"

    def _try_acquire(self) -> FcntlLease | None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            within_process = _process_lock(self._file)
            if not within_process.acquire(blocking=False):
                return None
            descriptor = None
            try:
                descriptor = _try_flock(self._file)
            finally:
                if descriptor is None:
                    within_process.release()
            return None if descriptor is None else FcntlLease(descriptor, within_process)
        except OSError as error:
            raise StorageUnavailableError(
                f"cannot lock local file: {error.strerror}", path=self._file
            ) from error


class FcntlLease:
    """Held until released or the process ends."""

    def __init__(self, descriptor: int, within_process: threading.Lock) -> None:
        self._descriptor: int | None = descriptor
        self._within_process = within_process
        self._changing = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def remaining_s(self) -> float:
        return math.inf if self.is_held() else 0.0

    def is_held(self) -> bool:
        return self._descriptor is not None

    def release(self) -> None:
        with self._changing:
            if self._descriptor is None:
                return
            descriptor, self._descriptor = self._descriptor, None
            # Explicitly: a forked child may still have the descriptor open.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)
            self._within_process.release()


def _try_flock(file: Path) -> int | None:
    """A descriptor that holds the lock on `file`, or None when another process does.

    Raises UnsupportedTableError for a link and CorruptTableError for a fifo: what is behind them
    would be locked, and written to.
    """
    descriptor = open_lock_file(file, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The table, and this file with it, may have been removed since it was opened.
        if os.path.samestat(os.fstat(descriptor), file.stat()):
            _sign(descriptor)
            return os.dup(descriptor)
    except (BlockingIOError, FileNotFoundError):
        pass
    finally:
        os.close(descriptor)
    return None


def _sign(descriptor: int) -> None:
    """Name this process in the file, for those who wait; a full disk is no reason to fail."""
    name = f"process {os.getpid()} on {socket.gethostname()}".encode()
    with suppress(OSError):
        os.pwrite(descriptor, name.ljust(os.fstat(descriptor).st_size), 0)


_process_locks: dict[str, threading.Lock] = {}
_process_locks_guard = threading.Lock()


def _process_lock(file: Path) -> threading.Lock:
    with _process_locks_guard:
        return _process_locks.setdefault(str(file.resolve()), threading.Lock())


# A lock that the parent holds is not held by any thread of the child.
os.register_at_fork(after_in_child=_process_locks.clear)
