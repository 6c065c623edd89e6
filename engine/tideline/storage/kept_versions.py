"""Buckets that keep versions: what is deleted or replaced there stays, and is paid for.

Known from the answers to writes, which need no right of their own.
"""

from __future__ import annotations

from tideline.storage.object_store import ObjectStore

VERSIONS_STAY = (
    "the bucket keeps versions: what is deleted or replaced stays, and is paid for, until a rule "
    "of its lifecycle removes noncurrent versions"
)


def notes_on_versions(store: ObjectStore) -> tuple[str, ...]:
    """What to say of deletes in a store, by what it has answered so far."""
    return (VERSIONS_STAY,) if getattr(store, "keeps_versions", False) else ()
