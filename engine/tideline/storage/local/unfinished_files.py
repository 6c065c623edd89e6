"""What processes that died were writing into a local folder: temporary files that none holds.

`LocalStore` holds an `flock` on a temporary file while it writes it; no listing shows these files.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tideline.errors import UnsupportedTableError
from tideline.storage.local.real_path import real_directory
from tideline.storage.local.regular_file import OPENING
from tideline.storage.object_store import TEMPORARY_PREFIX, ObjectStore


def remove_unfinished(store: ObjectStore, directory: str) -> None:
    """Remove what dead processes were writing into a directory of a local folder, one level.

    Nothing where a link takes the directory out of the folder.
    """
    for file in _unfinished(store, directory):
        with suppress(OSError), _unless_held(file):
            file.unlink(missing_ok=True)


def remove_unfinished_below(store: ObjectStore, directory: str, before_ms: int) -> None:
    """Remove what dead processes were writing, until so long ago, at any depth below a directory of
    a local folder. Links are not followed."""
    folder = _real_folder(store, directory)
    for current, _, names in () if folder is None else os.walk(folder):
        for name in names:
            if name.startswith(TEMPORARY_PREFIX):
                _remove_if_old(Path(current, name), before_ms)


def has_unfinished(store: ObjectStore, directory: str) -> bool:
    """Whether there is anything for `remove_unfinished` to remove."""
    for file in _unfinished(store, directory):
        with suppress(OSError), _unless_held(file):
            return True
    return False


def _unfinished(store: ObjectStore, directory: str) -> list[Path]:
    folder = _real_folder(store, directory)
    with suppress(OSError):
        return [] if folder is None else sorted(folder.glob(f"{TEMPORARY_PREFIX}*"))
    return []


def _real_folder(store: ObjectStore, directory: str) -> Path | None:
    """The directory; None in other stores, and where a link takes it out of the folder."""
    root, folder = store.local_path(""), store.local_path(directory)
    if root is None or folder is None:
        return None
    with suppress(OSError, UnsupportedTableError):
        real_directory(root, directory)
        return Path(folder)
    return None


def _remove_if_old(file: Path, before_ms: int) -> None:
    with suppress(OSError), _unless_held(file):
        if file.stat(follow_symlinks=False).st_mtime_ns < before_ms * 1_000_000:
            file.unlink()


@contextmanager
def _unless_held(file: Path) -> Iterator[None]:
    """Hold the file exclusively. Raises OSError when a process is still writing it."""
    descriptor = os.open(file, os.O_RDONLY | OPENING | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
