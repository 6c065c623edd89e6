"""Folders of a local store: made so that they last, and removed with all that is in them."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path


def flush_folder(folder: Path) -> None:
    """Make a new name survive a power cut, where the file system can flush a folder."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_folder(folder: Path, *, flush: bool) -> None:
    """Make it with all above it; `flush` the names of those that are new.

    One that others remove at that moment is there, and then is not, for `mkdir`, which takes it for
    a file.
    """
    missing = [folder, *folder.parents] if flush and not folder.exists() else []
    missing = [above for above in missing if not above.exists()]
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            break
        except FileExistsError:
            if folder.is_file() or folder.is_symlink():
                raise
    for made in reversed(missing):
        flush_folder(made.parent)


def remove_tree(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
        return
    for _ in range(3):
        # A writer may add a file while the tree is being removed.
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            try:
                shutil.rmtree(folder)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
                continue
        return
