"""Buckets of a write by hash: updates of what a partition has, new file groups for the rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tideline.hudi.index.bucket import BucketHash, new_file_id_prefix
from tideline.hudi.placement.hash_plan import plan_by_hash
from tideline.hudi.placement.upsert_partitioner import InsertBucket, UpdateBucket
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "8"}


@dataclass(frozen=True)
class CountedView(FileSystemView):
    """Counts how often the slices of each partition are gathered."""

    asked: Counter[str] = field(default_factory=Counter)

    def latest_slices(
        self, partition: str, as_of: InstantTime | None = None
    ) -> tuple[FileSlice, ...]:
        self.asked[partition] += 1
        return super().latest_slices(partition, as_of)


def test_each_partition_is_looked_at_once_however_many_buckets_are_touched() -> None:
    small = SmallTable.in_memory(BUCKETS)
    small.write("insert", batch(range(60), 1, partitions=2))
    table = open_fresh(small.location, clock=small.clock)
    found = table.files.view(table.timeline())
    view = CountedView(found.groups)
    counts = {(partition, bucket): 1 for partition in ("p0", "p1") for bucket in range(8)}
    plan, placement, profile = plan_by_hash(view, counts, BucketHash(8), makes_groups=True)
    assert view.asked == {"p0": 1, "p1": 1}
    stored = {
        file_slice.file_id for name in ("p0", "p1") for file_slice in found.latest_slices(name)
    }
    updated = {
        update_bucket.file_id
        for update_bucket in plan.buckets
        if isinstance(update_bucket, UpdateBucket)
    }
    assert updated == stored
    assert len(plan.buckets) == len(counts) == len(placement.numbers)
    assert sum(workload.inserts for workload in profile.partitions.values()) == len(counts) - len(
        stored
    )


def test_keys_of_a_bucket_without_a_file_group_begin_one_and_deletes_do_not() -> None:
    view = FileSystemView({"p": ()})
    counts = {("p", 3): 5}
    plan, _, _ = plan_by_hash(view, counts, BucketHash(8), makes_groups=True)
    (bucket,) = plan.buckets
    assert isinstance(bucket, InsertBucket)
    assert bucket.file_id_prefix[:8] == new_file_id_prefix(3, "0" * 36)[:8]
    plan, _, _ = plan_by_hash(view, counts, BucketHash(8), makes_groups=False)
    assert plan.buckets == ()
