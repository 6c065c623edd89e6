"""Replacing an object that nobody has changed since it was read."""

from __future__ import annotations

from tideline.storage.object_store import AlreadyExists, Changed, ObjectStore, Written


def replace_unchanged(
    store: ObjectStore, path: str, body: bytes, version: str | None
) -> str | None:
    """Write the object where it still has the version, None for one that is missing; its version
    then. None where another process came first.

    A write whose reply was lost is answered as if another had come first: what holds the same bytes
    counts as this write. Raises ObjectNotFoundError where the object is deleted meanwhile.
    """
    written: Written | AlreadyExists | Changed
    if version is None:
        written = store.put_if_absent(path, body)
    else:
        written = store.put_if_match(path, body, version=version)
    if isinstance(written, Written):
        return written.version
    there = store.get_versioned(path)
    return there.version if there.body == body else None
