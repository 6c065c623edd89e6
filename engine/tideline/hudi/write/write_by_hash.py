"""Every operation but overwrites with a bucket index: the key's hash names the file group.

Source: Hudi's HoodieBucketIndex and BucketIndexPartitioner.
"""

from __future__ import annotations

from dataclasses import replace

from tideline.hudi.placement.file_choice import choose_targets
from tideline.hudi.placement.hash_plan import key_hash_of, plan_by_hash
from tideline.hudi.placement.workload_profile import inflight_metadata
from tideline.hudi.write.engine import WriteEngine
from tideline.hudi.write.held_file_groups import settle_with_clustering, updated_groups
from tideline.hudi.write.transaction import WriteTransaction
from tideline.hudi.write.write_request import WrittenFiles
from tideline.hudi.write.write_step import (
    check_new_partitions,
    combines,
    handle_context,
    slice_context,
)


def write_by_hash(transaction: WriteTransaction, engine: WriteEngine) -> WrittenFiles:
    """Every operation but overwrites with a bucket index: the key's hash names the file group."""
    table, timeline = transaction.table, transaction.timeline
    operation, config = transaction.operation, transaction.config
    view = table.files.view(timeline, engine.partitions)
    hashed = key_hash_of(table, timeline, config.index, view)
    counts = engine.profile_by_hash(hashed)
    plan, placement, profile = plan_by_hash(
        view, counts, hashed, makes_groups=operation.writes_rows
    )
    if operation.writes_rows:
        check_new_partitions(table, view, engine.partitions)
    settle_with_clustering(transaction, view, updated_groups(plan))
    transaction.to_inflight(inflight_metadata(profile, operation.json_name))
    stats = engine.write(
        plan,
        choose_targets(
            plan,
            view,
            table.config.table_type,
            slice_context(transaction, engine),
        ),
        replace(handle_context(transaction, engine), rolls=False, merges_inserts=True),
        drops_duplicates=combines(operation, config),
        placement=placement,
    )
    return WrittenFiles(stats)
