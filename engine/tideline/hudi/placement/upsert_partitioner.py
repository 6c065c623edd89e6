"""Which rows are written by which task: the upsert partitioner.

1. One update bucket per file group that a row was located in.
2. The average record size comes from the newest commit that is large enough.
3. Inserts of a partition first fill its small files, re-using a file group's update bucket.
4. The rest is split into insert buckets, each a new file group.
5. Every bucket that takes inserts has a cumulative share of its partition's inserts; a key's hash
   chooses among them, so a retried task finds the same answer.

Everything here is a pure function of its arguments. Buckets are numbered densely from 0, in the
order of `BucketPlan.buckets`.
Source: Hudi `UpsertPartitioner`, `AverageRecordSizeUtils`.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tideline.hudi.placement.workload_profile import WorkloadProfile
from tideline.hudi.table.settings import declared
from tideline.hudi.timeline.instant_time import InstantTime

_SMALL_COMMITS_MAX = 5


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A file group whose newest base file has room for inserts."""

    file_id: str
    base_instant: InstantTime
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Sizing:
    """File sizing settings, with the names that Hudi has for them."""

    small_file_limit_bytes: int = declared("hoodie.parquet.small.file.limit")
    file_size_bytes_max: int = declared("hoodie.parquet.max.file.size")
    insert_split_records: int = declared("hoodie.copyonwrite.insert.split.size")
    insert_auto_split: bool = declared("hoodie.copyonwrite.insert.auto.split")
    record_size_estimate_bytes: int = declared("hoodie.copyonwrite.record.size.estimate")
    record_size_estimation_threshold: float = declared("hoodie.record.size.estimation.threshold")
    small_files_without_logs_max: int = declared("hoodie.merge.small.file.group.candidates.limit")
    """How many file groups of a partition of a merge-on-read table inserts are added to."""


@dataclass(frozen=True, slots=True)
class UpdateBucket:
    """Rewrites one existing file group.

    `updates` and `inserts` are the numbers of rows planned; inserts are a statistical share.
    """

    number: int
    partition: str
    file_id: str
    base_instant: InstantTime
    updates: int = 0
    inserts: int = 0


@dataclass(frozen=True, slots=True)
class InsertBucket:
    """Creates new file groups named `<file_id_prefix>-<k>`; `inserts` is a statistical share."""

    number: int
    partition: str
    file_id_prefix: str
    inserts: int = 0


Bucket = UpdateBucket | InsertBucket


@dataclass(frozen=True, slots=True)
class BucketPlan:
    """Every bucket of one write, and how the inserts of each partition choose among them.

    `insert_weights` holds, per partition, (cumulative share, bucket number) in ascending order;
    the last share is exactly 1. `total_inserts` is the number of inserts of each partition.
    """

    buckets: tuple[Bucket, ...] = ()
    insert_weights: Mapping[str, tuple[tuple[float, int], ...]] = field(default_factory=dict)
    total_inserts: Mapping[str, int] = field(default_factory=dict)

    def update_numbers(self) -> dict[tuple[str, str], int]:
        """Bucket number by (partition, file id), for rows with a location."""
        return {
            (bucket.partition, bucket.file_id): bucket.number
            for bucket in self.buckets
            if isinstance(bucket, UpdateBucket)
        }

    def insert_routes(self, *, inserts_rows: bool) -> dict[str, tuple[tuple[float, int], ...]]:
        """Per partition how inserts choose their bucket, as in `insert_weights`.

        A profile counts distinct keys, so it can be off by the duplicates in batch and table; a
        partition that seems to have no inserts sends what there is to a bucket that merges. Deletes
        insert nothing (`inserts_rows` false): a key that is not stored gets no place.
        """
        routes = dict(self.insert_weights)
        if inserts_rows:
            for (partition, _), number in self.update_numbers().items():
                routes.setdefault(partition, ((1.0, number),))
        return routes


def plan_buckets(
    profile: WorkloadProfile,
    small_files: Mapping[str, Sequence[SmallFile]],
    sizing: Sizing,
    new_file_id_prefix: Callable[[], str],
    *,
    average_record_bytes: int,
) -> BucketPlan:
    """Assign every row of `profile` to buckets.

    `small_files` lists, per partition and in the order they are to be filled, the file groups
    that may take inserts: not those under pending compaction or clustering. `new_file_id_prefix`
    gives a fresh UUID each time; it is called in a fixed order.
    """
    building = _PlanInProgress()
    partitions = sorted(profile.partitions.items())
    for partition, workload in partitions:
        for file_id, update in sorted(workload.updates.items()):
            building.add_update(partition, file_id, update.base_instant, update.records)
    for partition, workload in partitions:
        if workload.inserts > 0:
            shares = building.assign_inserts(
                partition,
                workload.inserts,
                small_files.get(partition, ()) if sizing.small_file_limit_bytes > 0 else (),
                sizing,
                new_file_id_prefix,
                average_record_bytes,
            )
            building.weights[partition] = _cumulative(shares, workload.inserts)
            building.totals[partition] = workload.inserts
    return building.finish()


def with_room_for_inserts(
    plan: BucketPlan, partitions: Iterable[str], new_file_id_prefix: Callable[[], str]
) -> BucketPlan:
    """`plan` with an insert bucket in every one of `partitions` that has no place for inserts.

    A profile that overlooked a new key would send it to no bucket, or to the log of a file group,
    where no index finds it again. A bucket that receives no row writes no file.
    """
    buckets = list(plan.buckets)
    weights, totals = dict(plan.insert_weights), dict(plan.total_inserts)
    for partition in sorted(set(partitions) - set(weights)):
        weights[partition] = ((1.0, len(buckets)),)
        totals[partition] = 0
        buckets.append(InsertBucket(len(buckets), partition, new_file_id_prefix()))
    return BucketPlan(tuple(buckets), weights, totals)


def average_record_size(newest_first: Iterable[tuple[int, int]], sizing: Sizing) -> int:
    """Bytes per record on disk, from (bytes written, records written) of completed `commit`s.

    The first commit, newest first, that wrote more than the threshold's share of the small file
    limit decides; without one among the `_SMALL_COMMITS_MAX` newest that wrote base files the
    configured estimate holds. The iterable is read no further than that, so it may load commits
    lazily. Source: Hudi's AverageRecordSizeEstimator.
    """
    decisive_bytes = sizing.record_size_estimation_threshold * sizing.small_file_limit_bytes
    small = 0
    for total_bytes, total_records in newest_first:
        if total_bytes > decisive_bytes and total_records > 0:
            return -(-total_bytes // total_records)
        small += total_bytes > 0
        if small == _SMALL_COMMITS_MAX:
            break
    return sizing.record_size_estimate_bytes


def key_hash(record_key: str) -> int:
    """First 8 bytes of the MD5 of the key's UTF-8, little endian, as a signed 64-bit integer."""
    digest = hashlib.md5(record_key.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


def bucket_of(plan: BucketPlan, partition: str, record_key: str) -> int:
    """Number of the bucket that takes the insert of `record_key` into `partition`.

    The first bucket whose cumulative share is at least `floorMod(hash, n) / n`. Raises KeyError
    when the plan has no inserts for the partition. This is the reference for what the Spark
    engine computes in columns.
    """
    total = max(1, plan.total_inserts[partition])
    point = (key_hash(record_key) % total) / total
    weights = plan.insert_weights[partition]
    return weights[bisect_left(weights, point, key=lambda weight: weight[0])][1]


@dataclass(slots=True)
class _PlanInProgress:
    """Buckets under construction; only `plan_buckets` holds one."""

    buckets: list[Bucket] = field(default_factory=list)
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    weights: dict[str, tuple[tuple[float, int], ...]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)

    def add_update(
        self, partition: str, file_id: str, base_instant: InstantTime, updates: int
    ) -> int:
        number = len(self.buckets)
        self.buckets.append(UpdateBucket(number, partition, file_id, base_instant, updates))
        self.numbers[partition, file_id] = number
        return number

    def assign_inserts(
        self,
        partition: str,
        inserts: int,
        small_files: Sequence[SmallFile],
        sizing: Sizing,
        new_file_id_prefix: Callable[[], str],
        average_record_bytes: int,
    ) -> list[tuple[int, int]]:
        """(bucket number, inserts) in assignment order; the inserts add up."""
        shares: list[tuple[int, int]] = []
        left = inserts
        for small in small_files:
            if left == 0:
                break
            room_bytes = sizing.file_size_bytes_max - small.size_bytes
            taken = min(max(room_bytes, 0) // average_record_bytes, left)
            if taken > 0:
                shares.append((self._fill(partition, small, taken), taken))
                left -= taken
        per_bucket = _records_per_bucket(sizing, average_record_bytes)
        while left > 0:
            taken = min(per_bucket, left)
            number = len(self.buckets)
            self.buckets.append(InsertBucket(number, partition, new_file_id_prefix(), taken))
            shares.append((number, taken))
            left -= taken
        return shares

    def finish(self) -> BucketPlan:
        return BucketPlan(tuple(self.buckets), self.weights, self.totals)

    def _fill(self, partition: str, small: SmallFile, inserts: int) -> int:
        number = self.numbers.get((partition, small.file_id))
        if number is None:
            number = self.add_update(partition, small.file_id, small.base_instant, 0)
        bucket = self.buckets[number]
        assert isinstance(bucket, UpdateBucket)
        self.buckets[number] = UpdateBucket(
            number,
            partition,
            bucket.file_id,
            bucket.base_instant,
            bucket.updates,
            bucket.inserts + inserts,
        )
        return number


def _records_per_bucket(sizing: Sizing, average_record_bytes: int) -> int:
    if sizing.insert_auto_split:
        return max(1, -(-sizing.file_size_bytes_max // average_record_bytes))
    return max(1, sizing.insert_split_records)


def _cumulative(shares: list[tuple[int, int]], total: int) -> tuple[tuple[float, int], ...]:
    """Shares as cumulative fractions of exact counts, so that rounding never misses 1."""
    weights: list[tuple[float, int]] = []
    assigned = 0
    for number, records in shares:
        assigned += records
        weights.append((assigned / total, number))
    return tuple(weights)
