"""Copying one object to another store, without reading it here where that can be spared.

On a local disk the copy is another name of the same file; within a bucket the server copies. All
else is streamed through this process.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tideline.storage.local.regular_file import native_file
from tideline.storage.local.store import LocalStore
from tideline.storage.object_store import ObjectStore
from tideline.storage.remote.store import RemoteStore

SERVER_COPY_BYTES_MAX = 5 * 1024**3
"""The largest object that every server copies in one request."""


def copy_object(
    source: ObjectStore, path: str, target: ObjectStore, target_path: str, *, size_bytes: int
) -> None:
    """Create or replace `target_path` as a copy of `path`.

    Raises ObjectNotFoundError where it is not there, StorageUnavailableError.
    """
    file = native_file(source, path)
    if file is not None and isinstance(target, LocalStore):
        # The file itself: a copy of a link would lead elsewhere from there.
        target.take_copy(target_path, Path(file).resolve())
        return
    if size_bytes <= SERVER_COPY_BYTES_MAX and _is_served(source, path, target, target_path):
        return
    with source.open_reader(path) as reader, target.open_writer(target_path) as writer:
        shutil.copyfileobj(reader, writer, 8 * 1024 * 1024)


def _is_served(source: ObjectStore, path: str, target: ObjectStore, target_path: str) -> bool:
    """Whether the server has copied it."""
    if not isinstance(source, RemoteStore) or not isinstance(target, RemoteStore):
        return False
    return source.copy_within(path, target, target_path)
