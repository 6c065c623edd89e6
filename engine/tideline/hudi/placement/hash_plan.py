"""Planning a write of a bucket index: the key's hash names the file group, stored or to be made.

SIMPLE buckets: file groups by the number their ids begin with. CONSISTENT_HASHING: file groups by
the ids that the ring of the partition names; of a new partition the first ring is stored before any
data. Buckets under a pending resize are left to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from tideline.errors import ConfigError, ConflictError, UnsupportedTableError
from tideline.hudi.index.bucket import BucketHash, new_file_id_prefix
from tideline.hudi.index.bucket_layout import BucketEngine
from tideline.hudi.index.bucket_recognition import written_partitions
from tideline.hudi.index.hash_ring import HashRing, RingHash
from tideline.hudi.index.hashing_metadata import create_ring, first_count, load_ring
from tideline.hudi.index.index_settings import IndexSettings
from tideline.hudi.index.partition_rules import EXPRESSIONS
from tideline.hudi.placement.file_choice import live_buckets
from tideline.hudi.placement.targets import BucketPlacement, KeyHash
from tideline.hudi.placement.upsert_partitioner import (
    Bucket,
    BucketPlan,
    InsertBucket,
    UpdateBucket,
)
from tideline.hudi.placement.workload_profile import PartitionWorkload, UpdateCount, WorkloadProfile
from tideline.hudi.table.file_group import FileGroupId, FileSlice
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline


def key_hash_of(
    table: HoodieTable, timeline: ActiveTimeline, index: IndexSettings, view: FileSystemView
) -> KeyHash:
    """How the partitions of `view` place keys.

    Raises ConfigError where a partition has a bucket beyond the number it is said to have,
    ConflictError where a resize of buckets is pending.
    """
    if index.engine is BucketEngine.CONSISTENT_HASHING:
        return _rings(table, timeline, index, view)
    buckets = index.buckets
    for partition in view.partitions:
        highest = max(live_buckets(view, partition), default=0)
        if highest >= buckets.count_in(partition):
            raise ConfigError(
                f"the partition has bucket {highest}, so its number of buckets is not "
                f"{buckets.count_in(partition)}; declare {EXPRESSIONS}",
                table=table.location.uri,
                path=partition or ".",
            )
    return buckets


def plan_by_hash(
    view: FileSystemView,
    counts: Mapping[tuple[str, int], int],
    hashed: KeyHash,
    *,
    makes_groups: bool,
) -> tuple[BucketPlan, BucketPlacement, WorkloadProfile]:
    """Buckets for rows counted by (partition, hash bucket); without `makes_groups`, as for deletes,
    rows of a bucket that has no file group yet are left out."""
    buckets: list[Bucket] = []
    numbers: dict[tuple[str, int], int] = {}
    inserts: dict[str, int] = {}
    updates: dict[str, dict[str, UpdateCount]] = {}
    partitions = {partition for partition, _ in counts}
    live = {partition: _live(view, partition, hashed) for partition in partitions}
    for (partition, bucket), rows in sorted(counts.items()):
        number = len(buckets)
        existing = live[partition].get(bucket)
        updates.setdefault(partition, {})
        if existing is not None:
            buckets.append(
                UpdateBucket(number, partition, existing.file_id, existing.base_instant, rows)
            )
            updates[partition][existing.file_id] = UpdateCount(existing.base_instant, rows)
        elif makes_groups:
            prefix = _new_prefix(view, partition, bucket, hashed)
            buckets.append(InsertBucket(number, partition, prefix, rows))
            inserts[partition] = inserts.get(partition, 0) + rows
        else:
            continue
        numbers[partition, bucket] = number
    profile = WorkloadProfile(
        {p: PartitionWorkload(inserts.get(p, 0), found) for p, found in updates.items()}
    )
    return BucketPlan(tuple(buckets)), BucketPlacement(hashed, numbers), profile


def _live(view: FileSystemView, partition: str, hashed: KeyHash) -> dict[int, FileSlice]:
    if isinstance(hashed, BucketHash):
        return live_buckets(view, partition)
    ring = hashed.rings[partition]
    slices = {file_slice.file_id: file_slice for file_slice in view.latest_slices(partition)}
    found = {bucket: slices.get(ring.file_id(bucket)) for bucket in ring.values}
    return {bucket: file_slice for bucket, file_slice in found.items() if file_slice is not None}


def _new_prefix(view: FileSystemView, partition: str, bucket: int, hashed: KeyHash) -> str:
    if isinstance(hashed, BucketHash):
        return new_file_id_prefix(bucket, str(uuid4()))
    ring = hashed.rings[partition]
    group = FileGroupId(partition, ring.file_id(bucket))
    if group in view.replaced:
        raise UnsupportedTableError(
            "the hashing metadata names a file group that was replaced, so that rows written to it "
            "are not seen: its partition was dropped or overwritten",
            path=group,
            instant=view.replaced[group],
        )
    return ring.prefix(bucket)


def _rings(
    table: HoodieTable, timeline: ActiveTimeline, index: IndexSettings, view: FileSystemView
) -> RingHash:
    uri = table.location.uri
    for group, instant in view.pending_clustering.items():
        if group.partition in view.groups:
            raise ConflictError(
                "a pending resize of buckets holds file groups of this partition; let Hudi run it",
                table=uri,
                instant=instant,
                path=group,
            )
    rings: dict[str, HashRing] = {}
    for partition in view.partitions:
        ring = load_ring(table.store, partition, timeline, view)
        if ring is None:
            count = index.num_buckets or first_count(
                table.store, written_partitions(table, timeline)
            )
            ring = create_ring(table.store, partition, count)
        rings[partition] = ring
    hashed = RingHash(rings, index.bucket_hash_fields)
    if len(table.config.record_key_fields) > 1:
        # Reading keys needs Arrow; services that move no rows come without.
        from tideline.hudi.placement.hashed_fields import require_hashed_fields

        require_hashed_fields(table, timeline, view, hashed)
    return hashed
