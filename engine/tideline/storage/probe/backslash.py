"""Does a store keep a backslash in a name? Some take it for a slash, in reads too, so that it is
only missed where files are listed."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from tideline.storage.object_store import ObjectStore
from tideline.storage.probe.left_behind import check_folder


def lists_backslashes(store: ObjectStore, write: Callable[[str], object]) -> bool:
    """Whether a listing shows an object that `write` makes at a path with one as it was written.

    A process that dies meanwhile leaves it to the next check of the store.
    """
    folder = check_folder("", uuid.uuid4().hex)
    path = f"{folder}/a\\b"
    write(path)
    listed = [info.path for info in store.list(folder)]
    store.delete_many({path, *listed})
    return listed == [path]
