"""Listings of a local folder: one level of it, or all files whose paths sort after another.

Links to folders are not followed: what they lead to is listed under its own name, or is not in the
folder, which is refused. So are fifos, sockets, devices and links to files outside: passing over
them could hide rows, and nobody can read them. Links to nothing, and files that are still being
written (`.tmp-`), are left out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tideline.storage.object_store import TEMPORARY_PREFIX, Listing, ObjectInfo
from tideline.storage.real_path import real_directory
from tideline.storage.regular_file import irregular, stat_regular


def list_level(root: Path, directory: str) -> Listing:
    """One level of `directory`, sorted. Raises OSError where there is none."""
    objects: list[ObjectInfo] = []
    directories: list[str] = []
    for path, entry, is_directory in _level(root, directory):
        if is_directory:
            directories.append(path)
        else:
            objects += _looked_up(root, path, entry)
    return Listing(tuple(objects), tuple(directories))


def list_files_after(root: Path, after: str) -> Iterator[ObjectInfo]:
    """Every file whose path sorts after `after`; only these are looked up, and only folders that
    may hold one are read."""
    waiting = [""]
    while waiting:
        # A folder may go between two levels.
        with suppress(FileNotFoundError, NotADirectoryError):
            for path, entry, is_directory in _level(root, waiting.pop()):
                if is_directory and (f"{path}/" > after or after.startswith(f"{path}/")):
                    waiting.append(path)
                elif not is_directory and path > after:
                    yield from _looked_up(root, path, entry)


def info_of(path: str, status: os.stat_result) -> ObjectInfo:
    """A file as a listing shows it."""
    return ObjectInfo(path, status.st_size, status.st_mtime_ns // 1_000_000, None)


def _level(root: Path, directory: str) -> Iterator[tuple[str, os.DirEntry[str], bool]]:
    real_directory(root, directory)
    with os.scandir(root / directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = f"{directory}/{entry.name}" if directory else entry.name
            if _is_directory(entry):
                if entry.is_symlink():
                    real_directory(root, path)
                else:
                    yield path, entry, True
            elif not entry.name.startswith(TEMPORARY_PREFIX):
                yield path, entry, False


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
