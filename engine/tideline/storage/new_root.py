"""The place of a new table: refused by name where there can be none, else left as it was found
when nothing comes of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tideline.errors import ConfigError
from tideline.storage.location import StoreLocation

_FOLDERS_INSIDE = (".hoodie/.locks", ".hoodie")


@contextmanager
def prepared_root(location: StoreLocation) -> Iterator[None]:
    """A place where a table may be created within; its bucket is there.

    Raises ConfigError for a place that can hold no table, and what `create_missing` raises.
    """
    _check_root(location)
    with _leaving_nothing_behind(location):
        location.create_missing()
        yield


def _check_root(location: StoreLocation) -> None:
    if location.uri == "file:///":
        raise ConfigError("a table cannot be at the root of the file system: name a folder")
    if any(not _is_ordinary(character) for character in location.uri):
        message = "a location with a control character, or one that is not valid Unicode"
        raise ConfigError(message, value=ascii(location.uri))


def _is_ordinary(character: str) -> bool:
    return not (character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff")


@contextmanager
def _leaving_nothing_behind(location: StoreLocation) -> Iterator[None]:
    """Within, a failure takes the folders with it that it made, as far as they are empty.

    A death leaves them, and they do no harm. On an object store there are no folders.
    """
    made = _missing_folders(location)
    try:
        yield
    except BaseException:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        raise


def _missing_folders(location: StoreLocation) -> list[Path]:
    """The folders that a table there needs and that do not exist, innermost first."""
    root = location.open().local_path("")
    if root is None:
        return []
    folder = Path(root)
    needed = [*(folder / inside for inside in _FOLDERS_INSIDE), folder, *folder.parents]
    missing = []
    for path in needed:
        try:
            if os.path.lexists(path):
                continue
        except OSError:
            continue
        missing.append(path)
    return missing
