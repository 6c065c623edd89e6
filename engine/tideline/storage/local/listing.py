"""Listings of a local folder: one level of it, or all files whose paths sort after another.

Links to folders are not followed: what they lead to is listed under its own name, or is not in the
folder, which is refused. So are fifos, sockets, devices and links to files outside: passing over
them could hide rows, and nobody can read them. Links to nothing, and files that are still being
written (`.tmp-`), are left out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from tideline.errors import (
    CorruptTableError,
    InvalidDataError,
    StorageUnavailableError,
    UnsupportedTableError,
)
from tideline.storage.local.real_path import real_directory
from tideline.storage.local.regular_file import irregular, stat_regular
from tideline.storage.object_store import TEMPORARY_PREFIX, Listing, ObjectInfo, ObjectStore

Refused = Callable[[str], None]
"""Gets a path that is passed over."""
_T = TypeVar("_T")
_LOOKS_MAX = 10


def list_level(root: Path, directory: str, refused: Refused | None = None) -> Listing:
    """One level of `directory`, sorted, as it was at one moment. Raises OSError without one.
    What would be refused goes to `refused`, where that is given."""
    before: list[str] = []
    for _ in range(_LOOKS_MAX):
        objects: list[ObjectInfo] = []
        directories: list[str] = []
        gone: list[str] = []
        for path, entry, is_directory in _level(root, directory, refused):
            if is_directory:
                directories.append(path)
                continue
            with _refusing(path, refused):
                found = _looked_up(root, path, entry)
                objects += found
                gone += () if found else (path,)
        # Others may have gone with it. A link to nothing is the same in each look.
        if not gone or gone == before:
            break
        before = gone
    return Listing(tuple(objects), tuple(directories))


def list_files_after(
    root: Path, after: str, refused: Refused | None = None
) -> Iterator[ObjectInfo]:
    """Every file whose path sorts after `after`; only these are looked up, and only folders that
    may hold one are read. What would be refused goes to `refused`, where that is given."""
    waiting = [""]
    while waiting:
        # A folder may go between two levels.
        with suppress(FileNotFoundError, NotADirectoryError):
            for path, entry, is_directory in _level(root, waiting.pop(), refused):
                if is_directory and (f"{path}/" > after or after.startswith(f"{path}/")):
                    waiting.append(path)
                elif not is_directory and path > after:
                    with _refusing(path, refused):
                        yield from _looked_up(root, path, entry)


def list_folders(store: ObjectStore, folder: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The directories in `folder` of a store, and the paths of what is neither directory nor file
    of its folder, such as links that lead out. Raises StorageUnavailableError."""
    found, passed_over = _passing_over(
        store,
        lambda: store.list_directory(folder),
        lambda root, refused: list_level(root, folder, refused),
    )
    return found.directories, passed_over


def list_regular(store: ObjectStore, after: str = "") -> tuple[list[ObjectInfo], tuple[str, ...]]:
    """What a store lists after the path `after`, and the paths of what is no file of its folder:
    links that lead out, fifos, sockets, devices. Among the former may be paths that name no object,
    such as those with a control character. Raises StorageUnavailableError."""
    return _passing_over(
        store,
        lambda: list(store.list_after(after) if after else store.list()),
        lambda root, refused: list(list_files_after(root, after, refused)),
    )


def info_of(path: str, status: os.stat_result) -> ObjectInfo:
    """A file as a listing shows it."""
    return ObjectInfo(path, status.st_size, status.st_mtime_ns // 1_000_000, None)


def _passing_over(
    store: ObjectStore, as_it_lists: Callable[[], _T], below: Callable[[Path, Refused], _T]
) -> tuple[_T, tuple[str, ...]]:
    """A listing, and what is passed over: where the store refuses to list, its local folder is read
    by `below`, which is given where to put what it refuses."""
    try:
        return as_it_lists(), ()
    except (UnsupportedTableError, CorruptTableError, InvalidDataError):
        root = store.local_path("")
        if root is None:
            raise
    passed_over: list[str] = []
    try:
        found = below(Path(root), passed_over.append)
    except OSError as error:
        raise StorageUnavailableError(f"cannot read: {error.strerror}", path=root) from error
    return found, tuple(sorted(passed_over))


def _level(
    root: Path, directory: str, refused: Refused | None = None
) -> Iterator[tuple[str, os.DirEntry[str], bool]]:
    real_directory(root, directory)
    with os.scandir(root / directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = f"{directory}/{entry.name}" if directory else entry.name
            if _is_directory(entry):
                if entry.is_symlink():
                    with _refusing(path, refused):
                        real_directory(root, path)
                else:
                    yield path, entry, True
            elif not entry.name.startswith(TEMPORARY_PREFIX):
                yield path, entry, False


@contextmanager
def _refusing(path: str, refused: Refused | None) -> Iterator[None]:
    """Raise what is refused about the path, or pass it over and say so."""
    try:
        yield
    except (UnsupportedTableError, CorruptTableError):
        if refused is None:
            raise
        refused(path)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link that leads to itself, or where nobody may look: what it is shows when it is read.
        return False


def _looked_up(root: Path, path: str, entry: os.DirEntry[str]) -> list[ObjectInfo]:
    """Nothing where the file has gone since the folder was read."""
    with suppress(FileNotFoundError):
        if entry.is_symlink():
            return [info_of(path, stat_regular(root, path))]
        status = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            raise irregular(root / path, status)
        return [info_of(path, status)]
    return []
