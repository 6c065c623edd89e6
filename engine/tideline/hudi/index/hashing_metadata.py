"""The hashing metadata of CONSISTENT_HASHING buckets on disk: which ring of a partition counts.

`.hoodie/.bucket_index/consistent_hashing_metadata/<partition>/` has one `<instant>.hashing_meta`
per resize, and `<instant>.commit` once a writer saw that resize complete. Of a partition without
any the first writer creates the first ring: it is the same for all.
Source: Hudi `ConsistentBucketIndexUtils`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from tideline.errors import ConfigError
from tideline.hudi.index.bucket_layout import HASHING_METADATA_FOLDER
from tideline.hudi.index.hash_ring import FIRST_INSTANT, HashRing
from tideline.hudi.table.file_group import join_path, split_path
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.table_config import BUCKET_COUNT
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.storage.object_store import ObjectStore

_PARTITIONS_MAX = 32
_METADATA_SUFFIX = ".hashing_meta"
_COMMIT_SUFFIX = ".commit"


def load_ring(
    store: ObjectStore, partition: str, timeline: ActiveTimeline, view: FileSystemView
) -> HashRing | None:
    """The ring of a partition as `timeline` shows it; None when it has none yet.

    A resize without its marker counts when its replacecommit is completed, or archived and files
    of its buckets are there. Raises CorruptTableError for metadata that cannot be read.
    """
    folder = _folder(partition)
    names = [split_path(info.path)[1] for info in store.list_directory(folder).objects]
    seen = {name.removesuffix(_COMMIT_SUFFIX) for name in names if name.endswith(_COMMIT_SUFFIX)}
    stored = [
        name.removesuffix(_METADATA_SUFFIX) for name in names if name.endswith(_METADATA_SUFFIX)
    ]
    committed = {str(candidate.time) for candidate in timeline.of(*COMMIT_ACTIONS).completed()}
    pending = {str(candidate.time) for candidate in timeline.pending()}
    for instant in sorted(stored, reverse=True):
        if instant in pending:
            continue
        path = f"{folder}/{instant}{_METADATA_SUFFIX}"
        ring = HashRing.parse(store.get(path), path=path)
        counts = instant == FIRST_INSTANT or instant in seen or instant in committed
        if counts or _has_files(ring, view):
            return ring
    return None


def create_ring(store: ObjectStore, partition: str, num_buckets: int) -> HashRing:
    """The first ring of a partition, stored; fine if another writer has just done the same.

    Dying afterwards leaves metadata of a partition without files, which is what Hudi leaves.
    """
    ring = HashRing.first(partition, num_buckets)
    path = f"{_folder(partition)}/{FIRST_INSTANT}{_METADATA_SUFFIX}"
    store.put_if_absent(path, ring.encode())
    return HashRing.parse(store.get(path), path=path)


def first_count(store: ObjectStore, partitions: Iterable[str]) -> int:
    """The number of buckets that other partitions began with.

    Raises ConfigError when none of them says it.
    """
    for partition in islice(partitions, _PARTITIONS_MAX):
        path = f"{_folder(partition)}/{FIRST_INSTANT}{_METADATA_SUFFIX}"
        if store.head(path) is not None:
            return HashRing.parse(store.get(path), path=path).num_buckets
    raise ConfigError(
        f"no partition says how many buckets a new one begins with: declare {BUCKET_COUNT}"
    )


def _folder(partition: str) -> str:
    return join_path(HASHING_METADATA_FOLDER, partition) if partition else HASHING_METADATA_FOLDER


def _has_files(ring: HashRing, view: FileSystemView) -> bool:
    prefixes = set(ring.prefixes)
    return any(
        file.file_id.rpartition("-")[0] in prefixes
        for file in view.latest_base_files(ring.partition)
    )
