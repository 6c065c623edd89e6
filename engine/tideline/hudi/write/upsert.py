"""The steps of one write inside its transaction, the same for every engine.

1. Tag: find which incoming keys are stored, and where.
2. Profile: count rows per partition and file group; save that in the inflight instant.
3. Partition: assign updates to their file groups, inserts to small files and new ones. File groups
   that a pending clustering is going to replace are left to it, or it is withdrawn, by policy.
4. Write: every bucket through its handle.
5. Say which file groups the commit replaces, for the operations that replace some.

Source: Hudi's BaseCommitActionExecutor and its subclasses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from tideline.errors import ConflictError, InvalidDataError
from tideline.hudi.table.file_group import BaseFile, FileGroupId, split_path
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.properties import MergeMode, TableType
from tideline.hudi.table.schema_history_reader import schema_history
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import Action
from tideline.hudi.write.config import ClusteringUpdates, InsertDuplicates, WriteConfig
from tideline.hudi.write.engine import WriteEngine
from tideline.hudi.write.file_choice import (
    choose_targets,
    held_groups,
    live_file_ids,
    lookup_candidates,
    small_files,
)
from tideline.hudi.write.handle_context import HandleContext
from tideline.hudi.write.hash_plan import key_hash_of, plan_by_hash
from tideline.hudi.write.lookup_candidate import LookupCandidate
from tideline.hudi.write.operation import WriteOperation
from tideline.hudi.write.partition_path import check_new_partition
from tideline.hudi.write.rows_in_logs import may_have_rows_in_logs
from tideline.hudi.write.schema_meanwhile import is_current
from tideline.hudi.write.table_context import table_context
from tideline.hudi.write.transaction import WriteTransaction
from tideline.hudi.write.upsert_partitioner import (
    BucketPlan,
    average_record_size,
    plan_buckets,
    with_room_for_inserts,
)
from tideline.hudi.write.workload_profile import (
    PartitionWorkload,
    WorkloadProfile,
    inflight_metadata,
)
from tideline.wording import counted

if TYPE_CHECKING:
    from tideline.hudi.write.file_slice_merge import SliceContext


@dataclass(frozen=True, slots=True)
class Written:
    """What the data part of a write produced; the transaction still has to commit it."""

    stats: Sequence[WriteStat]
    replaced: Mapping[str, Sequence[str]] | None = None


def execute_write(transaction: WriteTransaction, engine: WriteEngine) -> Written:
    """Write the engine's batch as the transaction's operation.

    Raises ConflictError when the table's schema is not the one the batch was prepared for.
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
    """Replace the partitions' file groups by nothing. Raises InvalidDataError for unknown ones."""
    table = transaction.table
    known = set(table.partitions())
    unknown = sorted(set(partitions) - known)
    if unknown:
        raise InvalidDataError(
            f"{len(unknown)} of the partitions to delete do not exist",
            table=table.location.uri,
            value=unknown[0],
        )
    view = table.file_system_view(transaction.timeline, partitions)
    replaced = live_file_ids(view, partitions)
    _require_no_compaction(transaction, view, replaced)
    _settle_with_clustering(transaction, view, _groups(replaced))
    transaction.to_inflight(CommitMetadata({}, transaction.operation.json_name))
    return Written((), replaced)


def _write_by_location(transaction: WriteTransaction, engine: WriteEngine) -> Written:
    """Upsert, insert and delete through an index that reads base files."""
    operation, config, table = transaction.operation, transaction.config, transaction.table
    scope = None if config.index.type.is_global else engine.partitions
    view = table.file_system_view(transaction.timeline, scope)
    table_type, index = table.config.table_type, config.index
    candidates = lookup_candidates(
        view,
        table_type,
        is_global=index.type.is_global,
        tells_deleted=operation is WriteOperation.INSERT,
        has_rows_in_logs=may_have_rows_in_logs(table, transaction.timeline),
    )
    if operation is WriteOperation.INSERT:
        _settle_duplicates(transaction, engine, candidates)
    profile = engine.profile(candidates if operation.tags_keys else (), transaction.timeline)
    if operation.writes_rows:
        _check_new_partitions(table, view, engine.partitions)
    else:
        profile = _without_inserts(profile)
    plan = plan_buckets(
        profile,
        small_files(view, profile, config, table_type),
        config.sizing,
        lambda: str(uuid4()),
        average_record_bytes=_record_bytes(table, transaction.timeline, config),
    )
    if operation.writes_rows and table_type is TableType.MERGE_ON_READ:
        plan = with_room_for_inserts(plan, profile.partitions, lambda: str(uuid4()))
    _settle_with_clustering(transaction, view, _updated_groups(plan))
    transaction.to_inflight(inflight_metadata(profile, operation))
    stats = engine.write(
        plan,
        choose_targets(plan, view, table_type, _reading(transaction, engine)),
        _context(transaction, engine),
        drops_duplicates=_combines(operation, config),
    )
    return Written(stats)


def _settle_duplicates(
    transaction: WriteTransaction, engine: WriteEngine, candidates: Sequence[LookupCandidate]
) -> None:
    """Leave rows out of an insert whose keys are stored, or refuse it, as settings say.

    Raises InvalidDataError with the number of such rows.
    """
    policy = transaction.config.insert_duplicates
    if policy is InsertDuplicates.NONE:
        return
    stored = engine.leave_out_stored(candidates, transaction.timeline)
    if stored and policy is InsertDuplicates.FAIL:
        raise InvalidDataError(
            f"this insert has {counted(stored, 'row')} whose key is stored already; nothing was "
            "written (hoodie.datasource.insert.dup.policy=fail)",
            table=transaction.table.location.uri,
        )


def _write_by_hash(transaction: WriteTransaction, engine: WriteEngine) -> Written:
    """Every operation but overwrites with a bucket index: the key's hash names the file group."""
    operation, config = transaction.operation, transaction.config
    view = transaction.table.file_system_view(transaction.timeline, engine.partitions)
    hashed = key_hash_of(transaction, view)
    counts = engine.profile_by_hash(hashed)
    plan, placement, profile = plan_by_hash(view, counts, operation, hashed)
    if operation.writes_rows:
        _check_new_partitions(transaction.table, view, engine.partitions)
    _settle_with_clustering(transaction, view, _updated_groups(plan))
    transaction.to_inflight(inflight_metadata(profile, operation))
    stats = engine.write(
        plan,
        choose_targets(
            plan,
            view,
            transaction.table.config.table_type,
            _reading(transaction, engine),
        ),
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
    empty = table.file_system_view(transaction.timeline, ())
    hashed = key_hash_of(transaction, empty) if config.index.type.places_by_hash else None
    profile = engine.profile((), transaction.timeline)
    for partition in engine.partitions:
        check_new_partition(table.store, partition)
    if transaction.timeline.pending().of(Action.REPLACECOMMIT, Action.CLUSTERING):
        overwrites_table = operation is WriteOperation.INSERT_OVERWRITE_TABLE
        touched = table.partitions() if overwrites_table else engine.partitions
        held = table.file_system_view(transaction.timeline, touched)
        _settle_with_clustering(transaction, held, _groups(live_file_ids(held, touched)))
    transaction.to_inflight(inflight_metadata(profile, operation))
    sizing = replace(config.sizing, small_file_limit_bytes=0)
    size_bytes = _record_bytes(table, transaction.timeline, config)
    placement = None
    if hashed is not None:
        counts = engine.profile_by_hash(hashed)
        plan, placement, _ = plan_by_hash(empty, counts, operation, hashed)
    else:
        plan = plan_buckets(
            profile, {}, sizing, lambda: str(uuid4()), average_record_bytes=size_bytes
        )
    stats = engine.write(
        plan,
        choose_targets(plan, empty, table.config.table_type),
        replace(_context(transaction, engine), rolls=placement is None),
        drops_duplicates=_combines(operation, config),
        placement=placement,
    )
    if operation is WriteOperation.INSERT_OVERWRITE_TABLE:
        partitions: Sequence[str] = table.partitions()
    else:
        partitions = sorted({stat.partition_path or "" for stat in stats})
    view = table.file_system_view(transaction.timeline, partitions)
    return Written(stats, live_file_ids(view, partitions))


def _check_new_partitions(
    table: HoodieTable, view: FileSystemView, partitions: Iterable[str]
) -> None:
    for partition in partitions:
        if not view.latest_slices(partition):
            check_new_partition(table.store, partition)


def _require_no_compaction(
    transaction: WriteTransaction, view: FileSystemView, partitions: Iterable[str]
) -> None:
    """Raise ConflictError when a pending compaction is going to write to one of the partitions."""
    held = {group.partition: time for group, time in view.pending_compaction.items()}
    for partition in partitions:
        if partition in held:
            raise ConflictError(
                "a pending compaction holds file groups of this partition; run it first",
                table=transaction.table.location.uri,
                instant=held[partition],
                value=partition,
            )


def _settle_with_clustering(
    transaction: WriteTransaction, view: FileSystemView, groups: Iterable[FileGroupId]
) -> None:
    """Refuse to touch `groups` that a pending clustering holds, or withdraw it, by policy.

    Raises ConflictError naming the clustering.
    """
    config = transaction.config
    holders = held_groups(view.pending_clustering, groups)
    if config.clustering_updates is ClusteringUpdates.REJECT:
        for time, group in holders.items():
            raise ConflictError(
                "a pending clustering is going to replace a file group that this write touches; "
                "run it first, or allow it by hoodie.clustering.updates.strategy",
                table=transaction.table.location.uri,
                instant=time,
                value=group,
            )
    elif config.withdraws_clustering and holders:
        transaction.withdraw(tuple(holders))


def _updated_groups(plan: BucketPlan) -> list[FileGroupId]:
    return [FileGroupId(partition, file_id) for partition, file_id in plan.update_numbers()]


def _groups(file_ids: Mapping[str, Sequence[str]]) -> list[FileGroupId]:
    return [
        FileGroupId(partition, file_id) for partition, ids in file_ids.items() for file_id in ids
    ]


def _require_current_schema(transaction: WriteTransaction, engine: WriteEngine) -> None:
    table = transaction.table
    if not is_current(table.table_schema(transaction.timeline), engine.schema):
        raise ConflictError(
            "the table's schema changed since the batch was prepared; write again",
            table=table.location.uri,
            instant=transaction.instant,
        )


def _context(transaction: WriteTransaction, engine: WriteEngine) -> HandleContext:
    config, operation = transaction.config, transaction.operation
    known = schema_history(transaction.table, transaction.timeline)
    history = known and known.reading(engine.schema, transaction.instant)
    context = table_context(transaction.table, transaction.instant, engine.schema, config, history)
    if operation is WriteOperation.DELETE:
        # An explicit delete carries no ordering value: it wins over whatever is stored.
        merge_mode = MergeMode.COMMIT_TIME_ORDERING
        context = replace(context, merge_mode=merge_mode, ordering_fields=())
    return replace(
        context,
        merges_inserts=operation is not WriteOperation.INSERT
        or not config.allows_duplicate_inserts,
        partial_update_columns=config.partial_update_columns,
    )


def _reading(transaction: WriteTransaction, engine: WriteEngine) -> SliceContext | None:
    """How to read what is stored, for a write that appends and has to know it."""
    table = transaction.table
    if (
        transaction.config.partial_update_columns is None
        or table.config.table_type is TableType.COPY_ON_WRITE
    ):
        return None
    from tideline.hudi.table.schema import stored_schema
    from tideline.hudi.write.file_slice_merge import SliceContext

    return SliceContext.of(table, transaction.timeline, stored_schema(engine.schema))


def _combines(operation: WriteOperation, config: WriteConfig) -> bool:
    if operation is WriteOperation.UPSERT:
        return config.combine_before_upsert
    if operation is WriteOperation.DELETE:
        return True
    return config.combine_before_insert


def _record_bytes(table: HoodieTable, timeline: ActiveTimeline, config: WriteConfig) -> int:
    """Bytes per record in base files, as the newest large commit tells; see average_record_size."""
    is_merged = table.config.table_type is TableType.MERGE_ON_READ
    actions = (Action.COMMIT, Action.DELTACOMMIT) if is_merged else (Action.COMMIT,)

    def newest_first() -> Iterator[tuple[int, int]]:
        for instant in reversed(timeline.completed().of(*actions).instants):
            stats = [
                stat
                for stat in table.read_commit(instant).write_stats
                if stat.path and BaseFile.parse(*split_path(stat.path)) is not None
            ]
            yield (
                sum(stat.total_write_bytes for stat in stats),
                sum(stat.num_writes for stat in stats),
            )

    return average_record_size(newest_first(), config.sizing)


def _without_inserts(profile: WorkloadProfile) -> WorkloadProfile:
    return WorkloadProfile(
        {
            partition: PartitionWorkload(0, workload.updates)
            for partition, workload in profile.partitions.items()
            if workload.updates
        }
    )
