"""File groups that a pending service holds: a write keeps off them, or the service is withdrawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tideline.errors import ConflictError
from tideline.hudi.placement.file_choice import held_groups
from tideline.hudi.placement.upsert_partitioner import BucketPlan
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.write.config import ClusteringUpdates
from tideline.hudi.write.transaction import WriteTransaction


def settle_with_clustering(
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


def require_no_compaction(
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


def updated_groups(plan: BucketPlan) -> list[FileGroupId]:
    """The file groups that a plan updates."""
    return [FileGroupId(partition, file_id) for partition, file_id in plan.update_numbers()]


def groups_of(file_ids: Mapping[str, Sequence[str]]) -> list[FileGroupId]:
    """File ids by partition, one by one."""
    return [
        FileGroupId(partition, file_id) for partition, ids in file_ids.items() for file_id in ids
    ]
