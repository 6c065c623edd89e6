"""The memory of this process as a kind of store."""

from __future__ import annotations

from typing import Any

from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import ObjectStore
from tideline.storage.store_kind import Options, StoreKind, bucket_and_prefix, bucket_uri


def _opened(uri: str, _: Options, __: Any) -> ObjectStore:
    return MemoryStore(*bucket_and_prefix(uri))


MEMORY = StoreKind("memory", lambda _, rest, __: bucket_uri("memory", rest), _opened)
