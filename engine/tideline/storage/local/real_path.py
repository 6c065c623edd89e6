"""Paths of a local folder as its directories are really called, symbolic links resolved.

A directory link that stays inside the folder is another name for what it leads to: a listing shows
only the real name, and a path through the link means the same object. A directory link that leads
out of the folder is refused by name, in listings too: passing over it would hide rows, following it
would write and delete what is not the table's. A link to a file is an object like any other;
deleting it removes the link alone.
"""

from __future__ import annotations

import os
from pathlib import Path

from tideline.errors import UnsupportedTableError
from tideline.storage.object_store import ObjectStore


def real_path(root: str | Path, path: str) -> str:
    """The object `path` below the folder `root` with its directories' real names.

    Raises UnsupportedTableError for one that a directory link takes out of `root`.
    """
    directory, slash, name = path.rpartition("/")
    if not slash:
        return path
    real = real_directory(root, directory)
    return f"{real}/{name}" if real else name


def real_directory(root: str | Path, directory: str) -> str:
    """The same for a directory; "" is the root itself."""
    base = os.path.realpath(root)
    real = os.path.realpath(f"{base}/{directory}")
    if real == base:
        return ""
    if not real.startswith(f"{base.rstrip('/')}/"):
        raise UnsupportedTableError(
            "a directory link leads out of the folder: put the files where the link is, "
            "or remove the link",
            path=Path(root) / directory,
            value=real,
        )
    return real[len(base.rstrip("/")) + 1 :]


def real_path_in(store: ObjectStore, path: str) -> str:
    """`real_path` in the folder of a local store; where there are no links the path itself."""
    root = store.local_path("")
    return path if root is None else real_path(root, path)
