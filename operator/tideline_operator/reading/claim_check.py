"""What a store says about a claimant's credentials at a place: may they write, may they list."""

from __future__ import annotations

from tideline.storage.object_store import ObjectStore
from tideline.storage.refusals import AccessDeniedError, MissingBucketError

_OBJECT = ".tideline-claim-"


def check_write(store: ObjectStore, uid: str) -> bool:
    """Whether the store lets an object be created and deleted. `uid` is that of the resource.

    Died in between: the next check deletes the object. Raises TidelineError when the store does
    not say.
    """
    if store.local_path("") is not None:
        # Only in tests: every table of this machine has the rights of the process.
        return True
    path = f"{_OBJECT}{uid}"
    try:
        store.put(path, b"Tideline checks whether it may write here.\n")
        store.delete(path)
    except (AccessDeniedError, MissingBucketError):
        return False
    return True


def check_list(store: ObjectStore) -> None:
    """Raises TidelineError where the credentials may not even list the place."""
    next(iter(store.list()), None)
