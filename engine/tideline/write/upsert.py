"""The steps of one write inside its transaction, the same for every engine.

1. Tag: find which incoming keys are stored, and where.
2. Profile: count rows per partition and file group; save that in the inflight instant.
3. Partition: assign updates to their file groups, inserts to small files and new ones.
4. Write: every bucket through its handle.
5. Say which file groups the commit replaces, for the operations that replace some.

Source: Hudi's BaseCommitActionExecutor and its subclasses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from tideline.errors import Conflict, InvalidData
from tideline.index.bucket import file_ids_by_bucket, new_file_id_prefix
from tideline.table.file_group import BaseFile
from tideline.table.file_system_view import FileSystemView
from tideline.table.hoodie_table import HoodieTable
from tideline.table.properties import KeyGeneratorKind, MergeMode
from tideline.timeline.active import ActiveTimeline
from tideline.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.timeline.instant import Action
from tideline.write.config import WriteConfig
from tideline.write.engine import (
    BucketPlacement,
    CreateTarget,
    MergeTarget,
    Target,
    WriteEngine,
)
from tideline.write.handle_context import HandleContext
from tideline.write.operation import WriteOperation
from tideline.write.partition_path import check_new_partition
from tideline.write.schema_meanwhile import is_current
from tideline.write.transaction import WriteTransaction
from tideline.write.upsert_partitioner import (
    Bucket,
    BucketPlan,
    InsertBucket,
    SmallFile,
    UpdateBucket,
    average_record_size,
    plan_buckets,
)
from tideline.write.workload_profile import (
    PartitionWorkload,
    UpdateCount,
    WorkloadProfile,
    inflight_metadata,
)


@dataclass(frozen=True, slots=True)
class Written:
    """What the data part of a write produced; the transaction still has to commit it."""

    stats: Sequence[WriteStat]
    replaced: Mapping[str, Sequence[str]] | None = None


def execute_write(transaction: WriteTransaction, engine: WriteEngine) -> Written:
    """Write the engine's batch as the transaction's operation.

    Raises Conflict when the table's schema is not the one the batch was prepared for.
    """
    operation = transaction.operation
    _require_current_schema(transaction, engine)
    if operation.replaces_file_groups:
        return _overwrite(transaction, engine)
    if transaction.config.index.type.places_by_hash:
        return _write_by_hash(transaction, engine)
    if operation is WriteOperation.BULK_INSERT:
        transaction.to_inflight()
        context = _context(transaction, engine)
        return Written(engine.bulk_insert(context, transaction.config.bulk_insert_sort_mode))
    return _write_by_location(transaction, engine)


def execute_delete_partition(transaction: WriteTransaction, partitions: Sequence[str]) -> Written:
    """Replace the partitions' file groups by nothing. Raises InvalidData for unknown ones."""
    table = transaction.table
    known = set(table.partitions())
    unknown = sorted(set(partitions) - known)
    if unknown:
        raise InvalidData(
            f"{len(unknown)} of the partitions to delete do not exist",
            table=table.location.uri,
            value=unknown[0],
        )
    transaction.to_inflight(CommitMetadata({}, transaction.operation.json_name))
    view = table.file_system_view(transaction.timeline, partitions)
    return Written((), _file_ids(view, partitions))


def _write_by_location(transaction: WriteTransaction, engine: WriteEngine) -> Written:
    """Upsert, insert and delete through an index that reads base files."""
    operation, config, table = transaction.operation, transaction.config, transaction.table
    scope = None if config.index.type.is_global else engine.partitions
    view = table.file_system_view(transaction.timeline, scope)
    latest = _latest_files(view)
    profile = engine.profile(latest if operation.tags_keys else ())
    if operation.writes_rows:
        _check_new_partitions(table, view, engine.partitions)
    else:
        profile = _without_inserts(profile)
    transaction.to_inflight(inflight_metadata(profile, operation))
    plan = plan_buckets(
        profile,
        _small_files(view, profile, config),
        config.sizing,
        lambda: str(uuid4()),
        average_record_bytes=_record_bytes(table, transaction.timeline, config),
    )
    stats = engine.write(
        plan,
        _targets(plan, latest),
        _context(transaction, engine),
        drops_duplicates=_combines(operation, config),
    )
    return Written(stats)


def _write_by_hash(transaction: WriteTransaction, engine: WriteEngine) -> Written:
    """Every operation but overwrites with a bucket index: the key's hash names the file group."""
    operation, config = transaction.operation, transaction.config
    index = config.index
    view = transaction.table.file_system_view(transaction.timeline, engine.partitions)
    counts = engine.profile_by_hash(index.num_buckets, index.bucket_hash_fields)
    plan, placement, profile = _plan_by_hash(view, counts, operation, config)
    if operation.writes_rows:
        _check_new_partitions(transaction.table, view, engine.partitions)
    transaction.to_inflight(inflight_metadata(profile, operation))
    stats = engine.write(
        plan,
        _targets(plan, _latest_files(view)),
        replace(_context(transaction, engine), rolls=False, merges_inserts=True),
        drops_duplicates=_combines(operation, config),
        placement=placement,
    )
    return Written(stats)


def _overwrite(transaction: WriteTransaction, engine: WriteEngine) -> Written:
    """Insert overwrite: all rows to new file groups; the old ones of the partitions are replaced.

    Partitions that receive no row keep their files, except with insert_overwrite_table.
    """
    operation, config, table = transaction.operation, transaction.config, transaction.table
    profile = engine.profile(())
    for partition in engine.partitions:
        check_new_partition(table.store, partition)
    transaction.to_inflight(inflight_metadata(profile, operation))
    sizing = replace(config.sizing, small_file_limit_bytes=0)
    size_bytes = _record_bytes(table, transaction.timeline, config)
    placement = None
    if config.index.type.places_by_hash:
        index = config.index
        counts = engine.profile_by_hash(index.num_buckets, index.bucket_hash_fields)
        empty = table.file_system_view(transaction.timeline, ())
        plan, placement, _ = _plan_by_hash(empty, counts, operation, config)
    else:
        plan = plan_buckets(
            profile, {}, sizing, lambda: str(uuid4()), average_record_bytes=size_bytes
        )
    stats = engine.write(
        plan,
        _targets(plan, ()),
        replace(_context(transaction, engine), rolls=placement is None),
        drops_duplicates=_combines(operation, config),
        placement=placement,
    )
    if operation is WriteOperation.INSERT_OVERWRITE_TABLE:
        partitions: Sequence[str] = table.partitions()
    else:
        partitions = sorted({stat.partition_path or "" for stat in stats})
    view = table.file_system_view(transaction.timeline, partitions)
    return Written(stats, _file_ids(view, partitions))


def _check_new_partitions(
    table: HoodieTable, view: FileSystemView, partitions: Iterable[str]
) -> None:
    for partition in partitions:
        if not view.latest_base_files(partition):
            check_new_partition(table.store, partition)


def _require_current_schema(transaction: WriteTransaction, engine: WriteEngine) -> None:
    table = transaction.table
    if not is_current(table.table_schema(transaction.timeline), engine.schema):
        raise Conflict(
            "the table's schema changed since the batch was prepared; write again",
            table=table.location.uri,
            instant=transaction.instant,
        )


def _context(transaction: WriteTransaction, engine: WriteEngine) -> HandleContext:
    table, config, operation = transaction.table, transaction.config, transaction.operation
    # An explicit delete carries no ordering value: it wins over whatever is stored.
    event_time = operation is not WriteOperation.DELETE
    return HandleContext(
        table=table.location.uri,
        instant=transaction.instant,
        schema=engine.schema,
        merge_mode=table.config.merge_mode if event_time else MergeMode.COMMIT_TIME_ORDERING,
        ordering_fields=table.config.ordering_fields if event_time else (),
        parquet=config.parquet,
        bloom=config.bloom,
        populate_meta_fields=table.config.populate_meta_fields,
        record_size_estimate_bytes=config.sizing.record_size_estimate_bytes,
        merges_inserts=operation is not WriteOperation.INSERT
        or not config.allows_duplicate_inserts,
        partial_update_columns=config.partial_update_columns,
        virtual_key_fields=()
        if table.config.populate_meta_fields
        else table.config.record_key_fields,
        virtual_keys_qualified=len(table.config.record_key_fields) > 1
        or table.config.key_generator is KeyGeneratorKind.COMPLEX,
    )


def _combines(operation: WriteOperation, config: WriteConfig) -> bool:
    if operation is WriteOperation.UPSERT:
        return config.combine_before_upsert
    if operation is WriteOperation.DELETE:
        return True
    return config.combine_before_insert


def _latest_files(view: FileSystemView) -> tuple[BaseFile, ...]:
    return tuple(
        file for partition in view.partitions for file in view.latest_base_files(partition)
    )


def _small_files(
    view: FileSystemView, profile: WorkloadProfile, config: WriteConfig
) -> dict[str, tuple[SmallFile, ...]]:
    """Files inserts may go to: the view leaves out what pending services hold."""
    limit = config.sizing.small_file_limit_bytes
    return {
        partition: tuple(
            SmallFile(file.file_id, file.instant, file.size_bytes)
            for file in view.small_files(partition, limit)
        )
        for partition, workload in profile.partitions.items()
        if workload.inserts
    }


def _record_bytes(table: HoodieTable, timeline: ActiveTimeline, config: WriteConfig) -> int:
    def newest_first() -> Iterator[tuple[int, int]]:
        for instant in reversed(timeline.completed().of(Action.COMMIT).instants):
            stats = [
                stat
                for found in table.timelines.read_commit(instant).partition_to_write_stats.values()
                for stat in found
            ]
            yield (
                sum(stat.total_write_bytes for stat in stats),
                sum(stat.num_writes for stat in stats),
            )

    return average_record_size(newest_first(), config.sizing)


def _targets(plan: BucketPlan, latest: Iterable[BaseFile]) -> dict[int, Target]:
    files = {file.file_id: file for file in latest}
    targets: dict[int, Target] = {}
    for bucket in plan.buckets:
        if isinstance(bucket, UpdateBucket):
            targets[bucket.number] = MergeTarget(files[bucket.file_id])
        else:
            targets[bucket.number] = CreateTarget(bucket.partition, bucket.file_id_prefix)
    return targets


def _plan_by_hash(
    view: FileSystemView,
    counts: Mapping[tuple[str, int], int],
    operation: WriteOperation,
    config: WriteConfig,
) -> tuple[BucketPlan, BucketPlacement, WorkloadProfile]:
    buckets: list[Bucket] = []
    numbers: dict[tuple[str, int], int] = {}
    inserts: dict[str, int] = {}
    updates: dict[str, dict[str, UpdateCount]] = {}
    live = {partition: _live_buckets(view, partition) for partition, _ in counts}
    for (partition, hashed), rows in sorted(counts.items()):
        number = len(buckets)
        existing = live[partition].get(hashed)
        updates.setdefault(partition, {})
        if existing is not None:
            buckets.append(
                UpdateBucket(number, partition, existing.file_id, existing.instant, rows)
            )
            updates[partition][existing.file_id] = UpdateCount(existing.instant, rows)
        elif operation.writes_rows:
            prefix = new_file_id_prefix(hashed, str(uuid4()))
            buckets.append(InsertBucket(number, partition, prefix, rows))
            inserts[partition] = inserts.get(partition, 0) + rows
        else:
            continue
        numbers[partition, hashed] = number
    profile = WorkloadProfile(
        {p: PartitionWorkload(inserts.get(p, 0), found) for p, found in updates.items()}
    )
    index = config.index
    placement = BucketPlacement(index.num_buckets, index.bucket_hash_fields, numbers)
    return BucketPlan(tuple(buckets)), placement, profile


def _live_buckets(view: FileSystemView, partition: str) -> dict[int, BaseFile]:
    files = {file.file_id: file for file in view.latest_base_files(partition)}
    return {
        bucket: files[file_id] for bucket, file_id in file_ids_by_bucket(partition, files).items()
    }


def _without_inserts(profile: WorkloadProfile) -> WorkloadProfile:
    return WorkloadProfile(
        {
            partition: PartitionWorkload(0, workload.updates)
            for partition, workload in profile.partitions.items()
            if workload.updates
        }
    )


def _file_ids(view: FileSystemView, partitions: Iterable[str]) -> dict[str, tuple[str, ...]]:
    found = {
        partition: tuple(sorted(file.file_id for file in view.latest_base_files(partition)))
        for partition in partitions
    }
    return {partition: ids for partition, ids in found.items() if ids}
