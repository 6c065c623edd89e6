"""The workload profile: how many rows of a batch go where, known before a byte is written.

It sizes the buckets of the upsert partitioner, and it is saved in the inflight instant, where a
rollback of a dead writer reads which file groups the writer was about to touch.
Source: Hudi `WorkloadProfile`, `BaseCommitActionExecutor.saveWorkloadProfileMetadataToInflight`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tideline.hudi.timeline.commit_metadata import NO_PREVIOUS_COMMIT, CommitMetadata, WriteStat
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.write_operation import WriteOperation


@dataclass(frozen=True, slots=True)
class UpdateCount:
    """Rows located in one file group, whose newest base file was written at `base_instant`."""

    base_instant: InstantTime
    records: int


@dataclass(frozen=True, slots=True)
class PartitionWorkload:
    """What one partition receives: rows without a location, and rows per located file group."""

    inserts: int = 0
    updates: Mapping[str, UpdateCount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkloadProfile:
    """The workload of every touched partition, by partition path (`""` when unpartitioned)."""

    partitions: Mapping[str, PartitionWorkload] = field(default_factory=dict)

    @property
    def total_inserts(self) -> int:
        return sum(workload.inserts for workload in self.partitions.values())

    @property
    def total_updates(self) -> int:
        return sum(
            update.records
            for workload in self.partitions.values()
            for update in workload.updates.values()
        )


def inflight_metadata(profile: WorkloadProfile, operation: WriteOperation) -> CommitMetadata:
    """Content of the inflight instant: counts only, no paths.

    Per partition first one stat with the number of inserts and an empty file id, then one per
    located file group with the instant its rows were found at.
    """
    stats: dict[str, tuple[WriteStat, ...]] = {}
    for partition, workload in sorted(profile.partitions.items()):
        inserts = WriteStat(
            file_id="", prev_commit=NO_PREVIOUS_COMMIT, num_inserts=workload.inserts
        )
        updates = (
            WriteStat(
                file_id=file_id,
                prev_commit=str(update.base_instant),
                num_update_writes=update.records,
            )
            for file_id, update in sorted(workload.updates.items())
        )
        stats[partition] = (inserts, *updates)
    return CommitMetadata(
        partition_to_write_stats=stats, operation_type=operation.json_name, extra_metadata={}
    )
