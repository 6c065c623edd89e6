"""Object stores, the table lock and heartbeats: everything that touches bytes at rest."""

from tideline.storage.heartbeat import Heartbeat, heartbeat_age_ms, is_heartbeat_dead
from tideline.storage.location import StoreLocation
from tideline.storage.lock import Lease, TableLock, open_table_lock
from tideline.storage.object_store import (
    AlreadyExists,
    Changed,
    Listing,
    ObjectInfo,
    ObjectStore,
    VersionedBody,
    Written,
)
from tideline.storage.probe.run import probe_conditional_writes

__all__ = [
    "AlreadyExists",
    "Changed",
    "Heartbeat",
    "Lease",
    "Listing",
    "ObjectInfo",
    "ObjectStore",
    "StoreLocation",
    "TableLock",
    "VersionedBody",
    "Written",
    "heartbeat_age_ms",
    "is_heartbeat_dead",
    "open_table_lock",
    "probe_conditional_writes",
]
