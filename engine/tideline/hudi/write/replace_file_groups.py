"""Operations that replace file groups: insert_overwrite, its table-wide form, delete_partition.

Source: Hudi's SparkInsertOverwriteCommitActionExecutor, SparkDeletePartitionCommitActionExecutor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tideline.errors import InvalidDataError, UnsupportedTableError
from tideline.hudi.index.bucket import BucketHash
from tideline.hudi.index.bucket_layout import BucketEngine
from tideline.hudi.keys.partition_path import check_new_partition
from tideline.hudi.placement.file_choice import choose_targets, live_file_ids
from tideline.hudi.placement.hash_plan import plan_by_hash
from tideline.hudi.placement.upsert_partitioner import plan_buckets
from tideline.hudi.placement.workload_profile import inflight_metadata
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action
from tideline.hudi.write.engine import WriteEngine
from tideline.hudi.write.held_file_groups import (
    groups_of,
    require_no_compaction,
    settle_with_clustering,
)
from tideline.hudi.write.new_file_id import new_file_id
from tideline.hudi.write.transaction import WriteTransaction
from tideline.hudi.write.write_operation import WriteOperation
from tideline.hudi.write.write_request import WrittenFiles
from tideline.hudi.write.write_step import combines, handle_context, record_bytes
from tideline.wording import counted

PartitionChoice = Callable[[ActiveTimeline], Sequence[str]]
"""Which partitions go; called inside the transaction with the timeline as it is then."""


def execute_delete_partition(
    transaction: WriteTransaction, chosen: Sequence[str] | PartitionChoice
) -> WrittenFiles:
    """Replace the partitions' file groups by nothing. Raises InvalidDataError for unknown ones."""
    table = transaction.table
    partitions = chosen(transaction.timeline) if callable(chosen) else chosen
    known = set(table.files.partitions())
    unknown = sorted(set(partitions) - known)
    if unknown:
        raise InvalidDataError(
            f"{counted(len(unknown), 'partition')} to delete not found",
            table=table.location.uri,
            value=unknown[0],
        )
    view = table.files.view(transaction.timeline, partitions)
    replaced = live_file_ids(view, partitions)
    require_no_compaction(transaction, view, replaced)
    settle_with_clustering(transaction, view, groups_of(replaced))
    transaction.to_inflight(CommitMetadata({}, transaction.operation.json_name))
    return WrittenFiles((), replaced)


def overwrite(transaction: WriteTransaction, engine: WriteEngine) -> WrittenFiles:
    """Insert overwrite: all rows to new file groups; the old ones of the partitions are replaced.

    Partitions that receive no row keep their files, except with insert_overwrite_table.
    """
    operation, config, table = transaction.operation, transaction.config, transaction.table
    empty = table.files.view(transaction.timeline, ())
    hashed = _buckets(transaction)
    profile = engine.profile((), transaction.timeline)
    for partition in engine.partitions:
        check_new_partition(table.store, partition)
    if transaction.timeline.pending().of(Action.REPLACECOMMIT, Action.CLUSTERING):
        overwrites_table = operation is WriteOperation.INSERT_OVERWRITE_TABLE
        touched = table.files.partitions() if overwrites_table else engine.partitions
        held = table.files.view(transaction.timeline, touched)
        settle_with_clustering(transaction, held, groups_of(live_file_ids(held, touched)))
    transaction.to_inflight(inflight_metadata(profile, operation.json_name))
    sizing = replace(config.sizing, small_file_limit_bytes=0)
    size_bytes = record_bytes(table, transaction.timeline, config)
    placement = None
    if hashed is not None:
        counts = engine.profile_by_hash(hashed)
        plan, placement, _ = plan_by_hash(empty, counts, hashed, makes_groups=True)
    else:
        plan = plan_buckets(profile, {}, sizing, new_file_id, average_record_bytes=size_bytes)
    stats = engine.write(
        plan,
        choose_targets(plan, empty, table.config.table_type),
        replace(handle_context(transaction, engine), rolls=placement is None),
        drops_duplicates=combines(operation, config),
        placement=placement,
    )
    if operation is WriteOperation.INSERT_OVERWRITE_TABLE:
        partitions: Sequence[str] = table.files.partitions()
    else:
        partitions = sorted({stat.partition_path or "" for stat in stats})
    view = table.files.view(transaction.timeline, partitions)
    return WrittenFiles(stats, live_file_ids(view, partitions))


def _buckets(transaction: WriteTransaction) -> BucketHash | None:
    """How a bucket index places the rows; None with another index."""
    index = transaction.config.index
    if not index.type.places_by_hash:
        return None
    if index.engine is BucketEngine.CONSISTENT_HASHING:
        raise UnsupportedTableError(
            "file groups of CONSISTENT_HASHING buckets are not replaced: Hudi continues writing to "
            "those that its hashing metadata names",
            table=transaction.table.location.uri,
            value=transaction.operation,
        )
    return index.buckets
