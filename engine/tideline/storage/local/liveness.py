"""Which writers on a local folder are alive, as the kernel knows it.

A live writer holds an `flock` on `.hoodie/.locks/writer-<instant>.lock`. The kernel releases it
when the process dies, so a dead writer is recognised at once instead of after its heartbeat's age.
The file names the running kernel (its boot id), because a lock says nothing to another machine:

- held, and made under this kernel: the writer is alive, regardless of any clock. If it has slept,
  it notices on its own that its heartbeat expired, and undoes its write;
- free, and made under this kernel: the writer is dead;
- unknown (no such file, a link or a fifo, another kernel, a file system without locks): the age of
  the heartbeat decides.

In addition to the kernel's answer there is a list of the files that this very process holds: where
`flock` is mapped to record locks (NFS) a process never meets its own.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import suppress
from enum import Enum
from functools import cache
from pathlib import Path

from tideline.errors import TidelineError
from tideline.storage.local.real_path import real_directory, real_path_in
from tideline.storage.local.regular_file import open_lock_file
from tideline.storage.object_store import ObjectStore

_DIRECTORY = ".hoodie/.locks"
_PREFIX = "writer-"
_SUFFIX = ".lock"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class WriterLock:
    """The lock of one live writer, from `hold` until `release` or the end of the process."""

    def __init__(self, file: Path, descriptor: int) -> None:
        self._file = file
        self._descriptor = descriptor

    @classmethod
    def hold(cls, store: ObjectStore, name: str) -> WriterLock | None:
        """Hold the lock of the writer `name`; None where no lock would mean anything."""
        file = _lock_file(store, name)
        kernel = _running_kernel()
        if file is None or not kernel:
            return None
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = open_lock_file(file, os.O_RDWR | os.O_CREAT)
        except (OSError, TidelineError):
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, kernel)
        except OSError:
            os.close(descriptor)
            return None
        with _held_guard:
            _held[descriptor] = os.fstat(descriptor)
        return cls(file, descriptor)

    def release(self) -> None:
        """Give the lock up and remove its file; releasing twice is fine."""
        with _held_guard:
            if _held.pop(self._descriptor, None) is None:
                return
            _unlink(self._file)
            os.close(self._descriptor)


class KernelWord(Enum):
    """What the kernel knows of a writer."""

    ALIVE = "alive"
    DEAD = "dead"
    NOTHING = "nothing"


def ask_kernel(store: ObjectStore, name: str) -> KernelWord:
    """Whether the writer `name` holds its lock, as far as this kernel knows."""
    file = _lock_file(store, name)
    if file is None:
        return KernelWord.NOTHING
    try:
        descriptor = open_lock_file(file, os.O_RDONLY)
    except (OSError, TidelineError):
        return KernelWord.NOTHING
    try:
        status = os.fstat(descriptor)
        with _held_guard:
            if any(os.path.samestat(status, ours) for ours in _held.values()):
                return KernelWord.ALIVE
        if not _running_kernel() or os.read(descriptor, 100) != _running_kernel():
            return KernelWord.NOTHING
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return KernelWord.ALIVE
    except OSError:
        return KernelWord.NOTHING
    finally:
        os.close(descriptor)
    return KernelWord.DEAD


def discard_writer_lock(store: ObjectStore, name: str) -> None:
    """Remove what a dead writer left of its lock; fine if there is nothing."""
    file = _lock_file(store, name)
    if file is not None:
        _unlink(file)


def list_writer_locks(store: ObjectStore) -> tuple[str, ...]:
    """The names of all writers that hold a lock or left one."""
    directory = store.local_path(_DIRECTORY)
    if directory is None:
        return ()
    real_directory(str(store.local_path("")), _DIRECTORY)
    try:
        names = sorted(file.name for file in Path(directory).iterdir())
    except OSError:
        return ()
    return tuple(
        name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
        for name in names
        if name.startswith(_PREFIX) and name.endswith(_SUFFIX)
    )


def _lock_file(store: ObjectStore, name: str) -> Path | None:
    path = f"{_DIRECTORY}/{_PREFIX}{name}{_SUFFIX}"
    native = store.local_path(path)
    if native is None:
        return None
    real_path_in(store, path)
    return Path(native)


def _unlink(file: Path) -> None:
    with suppress(OSError):
        file.unlink()


@cache
def _running_kernel() -> bytes:
    """What distinguishes this run of this machine's kernel from any other; empty when unknown."""
    try:
        return _BOOT_ID.read_bytes().strip()
    except OSError:
        return b""


_held: dict[int, os.stat_result] = {}
_held_guard = threading.Lock()


def _forget_after_fork() -> None:
    """A child holds nothing, and must not keep its parent's locks alive either."""
    global _held_guard
    _held_guard = threading.Lock()
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
