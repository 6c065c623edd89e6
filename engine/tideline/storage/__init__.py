"""Object stores, the table lock and heartbeats: everything that touches bytes at rest.

- object store contract: `object_store`; what stores at a server share: `storage.remote`
- replacing what nobody has changed: `replacing`
- locations, kinds of stores and their options: `location`, `kinds`, `store_kind`,
  `storage.s3.kind`
- what may be deleted, tables below a table, links: `delete_scope`, `nested_tables`,
  `storage.local.real_path`
- table lock, Hudi's storage lock: `lock`, `storage_lock`, `lock_timing`
- heartbeats, how long one may be silent: `heartbeat`, `heartbeat_limits`
- copies from store to store: `copying`, `storage.local.linking`
"""

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
