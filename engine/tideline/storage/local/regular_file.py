"""Opening the files of a local folder that others write to: regular files, inside of the folder.

A name in such a folder may be a fifo, whose reader waits for ever, a device without an end, or a
link to any file of this machine. So a name is opened in three steps:

1. It is resolved once, without opening what it leads to (`O_PATH`): a fifo blocks nobody, a device
   notices nothing.
2. What was found, and where it really is, are asked of that descriptor, so that neither can be
   exchanged in between.
3. The very same file is opened for reading, through the descriptor.

Without such descriptors, or without /proc, the file is opened without waiting, and its real name is
compared with it afterwards.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from tideline.bounded.read_limits import admit, read_limits
from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.storage.local.real_path import real_path
from tideline.storage.object_store import ObjectStore, checked_path

OPENING: Final = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
"""Flags for a file that may be anything: nothing waits, and no terminal is taken over."""

_DESCRIPTORS: Final = "/proc/self/fd"
_HOLDING: Final = getattr(os, "O_PATH", 0) | os.O_CLOEXEC
_CHUNK_BYTES: Final = 4096
_KINDS: Final = (
    (stat.S_ISFIFO, "a fifo"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(root: str | Path, path: str) -> int:
    """A descriptor to read the file `path` below the folder `root`.

    Raises UnsupportedTableError for a link that leads out of `root` or to itself, CorruptTableError
    for what is no regular file, and OSError: FileNotFoundError and its like where there is none,
    IsADirectoryError for a directory.
    """
    with _held(root, path) as (held, _):
        return (
            os.open(f"{_DESCRIPTORS}/{held}", os.O_RDONLY | OPENING) if _holds() else os.dup(held)
        )


def stat_regular(root: str | Path, path: str) -> os.stat_result:
    """The status of what `open_regular` opens. Raises what that raises."""
    with _held(root, path) as (_, status):
        return status


def read_whole(descriptor: int, *, path: object) -> bytes:
    """All bytes of an open file, whatever size it has said it has.

    Raises UnsupportedTableError naming `path` above the limit on metadata; at most one byte more
    is read.
    """
    size_bytes = os.fstat(descriptor).st_size
    admit(size_bytes, path=path)
    limit_bytes = read_limits().object_bytes_max
    parts: list[bytes] = []
    total = 0
    while total <= limit_bytes:
        wanted = max(size_bytes + 1 - total, total, _CHUNK_BYTES)
        chunk = os.read(descriptor, min(wanted, limit_bytes + 1 - total))
        if not chunk:
            break
        parts.append(chunk)
        total += len(chunk)
    if total > size_bytes:
        admit(total, path=path)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_range(descriptor: int, *, offset: int, length: int) -> bytes:
    """Up to `length` bytes of an open file from `offset`, fewer past its end.

    No more memory is taken than the file has bytes.
    """
    end = min(offset + length, os.fstat(descriptor).st_size)
    parts: list[bytes] = []
    while offset < end:
        chunk = os.pread(descriptor, end - offset, offset)
        if not chunk:
            break
        parts.append(chunk)
        offset += len(chunk)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def open_to_write(file: Path) -> int:
    """A descriptor of a new or emptied file. Raises UnsupportedTableError where a link is,
    CorruptTableError for what is no regular file, and OSError."""
    descriptor = open_lock_file(file, os.O_WRONLY | os.O_CREAT)
    try:
        os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_lock_file(file: Path, flags: int) -> int:
    """A descriptor of a file that is no link, such as one to lock. Raises as `open_to_write`."""
    try:
        descriptor = os.open(file, flags | OPENING | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            message = "a link is where a file of the table belongs: remove it"
            raise UnsupportedTableError(message, path=file) from None
        if error.errno == errno.ENXIO:
            # A fifo that nobody reads, or a socket.
            raise irregular(file, os.lstat(file)) from None
        raise
    try:
        check_regular(file, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_regular(file: str | Path, status: os.stat_result) -> None:
    """Raise CorruptTableError for what is no regular file, IsADirectoryError for a directory."""
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    raise irregular(file, status)


def irregular(file: str | Path, status: os.stat_result) -> CorruptTableError:
    """The error for a file that is none: only regular files are read."""
    kind = next((name for matches, name in _KINDS if matches(status.st_mode)), "no regular file")
    return CorruptTableError(f"this is {kind}, which no table holds: remove it", path=file)


def native_file(store: ObjectStore, path: str) -> str | None:
    """The path of a regular file in a local folder for a library that opens it.

    None where the store is no local folder. Raises ObjectNotFoundError, and UnsupportedTableError
    and CorruptTableError as `open_regular`.
    """
    root, native = store.local_path(""), store.local_path(path)
    if root is None or native is None:
        return None
    try:
        stat_regular(root, checked_path(path))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise ObjectNotFoundError("no such object", path=native) from None
    return native


@contextmanager
def _held(root: str | Path, path: str) -> Iterator[tuple[int, os.stat_result]]:
    file = f"{root}/{path}"
    try:
        held = os.open(file, _HOLDING if _holds() else os.O_RDONLY | OPENING)
    except (FileNotFoundError, NotADirectoryError):
        real_path(root, path)  # a link that leads out is refused, whether there is such a file
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnsupportedTableError("a link leads to itself: remove it", path=file) from None
        if error.errno == errno.ENXIO:
            raise irregular(file, os.lstat(file)) from None
        raise
    try:
        status = os.fstat(held)
        _check_inside(root, path, _real_name(file, held))
        check_regular(file, status)
        yield held, status
    finally:
        os.close(held)


@cache
def _holds() -> bool:
    """Whether files can be held without being opened."""
    return bool(_HOLDING & ~os.O_CLOEXEC) and Path(_DESCRIPTORS).is_dir()


def _real_name(file: str, held: int) -> str:
    """Where a file that is open is, all links resolved."""
    if _holds():
        return os.readlink(f"{_DESCRIPTORS}/{held}")  # noqa: PTH115 (every read goes through here)
    real = os.path.realpath(file)
    if not os.path.samestat(os.lstat(real), os.fstat(held)):
        raise FileNotFoundError(errno.ENOENT, "exchanged while it was opened", file)
    return real


def _check_inside(root: str | Path, path: str, real: str) -> None:
    # A real name that begins with the root's shows that the root's name is real, too.
    if real.startswith(_below(str(root))):
        return
    if real.startswith(_below(os.path.realpath(root))):
        return
    real_path(root, path)  # names the directory where it is that which leads out
    raise UnsupportedTableError(
        "a link leads out of the folder: put the file where the link is, or remove the link",
        path=f"{root}/{path}",
        value=real,
    )


def _below(folder: str) -> str:
    return f"{folder.rstrip('/')}/"
