"""Does this store really honour conditional writes?

Some S3 servers accept the headers and ignore them; two writers on such a store would each believe
that they won. The probe writes one small object, and removes it again:

1. create it; 2. create it again with another body, which must be refused; 3. replace it with the
right version, which must work; 4. replace it with the old version, which must be refused.
"""

from __future__ import annotations

import uuid

from tideline.errors import ConfigError
from tideline.storage.object_store import AlreadyExists, Changed, ObjectStore, Written

_PROBE_DIRECTORY = ".hoodie/.locks"


def probe_conditional_writes(store: ObjectStore) -> None:
    """Return when both conditions are honoured.

    Raises ConfigError naming the endpoint when one is ignored, StorageUnavailable when the store
    cannot be reached.
    """
    token = str(uuid.uuid4())
    path = f"{_PROBE_DIRECTORY}/.probe-{token}"
    try:
        created = store.put_if_absent(path, f"1 {token}".encode(), token=token)
        if not isinstance(created, Written):
            raise _refusal(store, "says that a new object already exists (If-None-Match)")
        if not isinstance(store.put_if_absent(path, b"2"), AlreadyExists):
            raise _refusal(store, "overwrites an object that must be absent (If-None-Match)")
        replaced = store.put_if_match(path, b"3", version=created.version)
        # A lost reply may have hidden our own success.
        if not isinstance(replaced, Written) and store.get(path) != b"3":
            raise _refusal(store, "does not recognise its own version (If-Match)")
        if not isinstance(store.put_if_match(path, b"4", version=created.version), Changed):
            raise _refusal(store, "overwrites an object that has changed (If-Match)")
        if store.get(path) != b"3":
            raise _refusal(store, "does not read back what was written")
    finally:
        store.delete(path)


def _refusal(store: ObjectStore, what: str) -> ConfigError:
    place = getattr(store, "endpoint_url", store.uri)
    return ConfigError(
        f"The store at {place} {what}: concurrent writers would lose commits, so Tideline refuses "
        "to write to it",
        path=store.uri,
    )
