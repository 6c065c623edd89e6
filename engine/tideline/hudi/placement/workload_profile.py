"""The workload profile: how many rows of a batch go where, known before a byte is written.

It sizes the buckets of the upsert partitioner, and it is saved in the inflight instant, where a
rollback of a dead writer reads which file groups the writer was about to touch.
Source: Hudi `WorkloadProfile`, `BaseCommitActionExecutor.saveWorkloadProfileMetadataToInflight`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tideline.hudi.file_group.lookup_candidate import LookupCandidate
from tideline.hudi.timeline.commit_metadata import NO_PREVIOUS_COMMIT, CommitMetadata, WriteStat
from tideline.hudi.timeline.instant_time import InstantTime


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


def inflight_metadata(profile: WorkloadProfile, operation_type: str) -> CommitMetadata:
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
        partition_to_write_stats=stats, operation_type=operation_type, extra_metadata={}
    )


def located_profile(
    rows: Mapping[str, int],
    located: Mapping[tuple[str, int], int],
    candidates: Sequence[LookupCandidate],
    *,
    distinct_located: Mapping[str, int],
    moves_rows: bool,
) -> WorkloadProfile:
    """The profile of a batch whose keys were looked up: of `rows` per incoming partition.

    `located` counts the keys found, by incoming partition and number of the candidate.
    `distinct_located` counts keys once for each incoming partition, where copies in several file
    groups would overlook inserts; empty elsewhere. `moves_rows`: a row found in another partition
    may leave it.
    """
    inserts = {
        partition: count - distinct_located.get(partition, 0) for partition, count in rows.items()
    }
    updates: dict[str, dict[str, UpdateCount]] = {partition: {} for partition in inserts}
    for (partition, number), keys in sorted(located.items()):
        file = candidates[number].file_slice
        if not distinct_located:
            inserts[partition] = max(0, inserts[partition] - keys)
        found = updates.setdefault(file.partition, {})
        known = found[file.file_id].records if file.file_id in found else 0
        found[file.file_id] = UpdateCount(file.base_instant, known + keys)
        if partition != file.partition and moves_rows:
            # The row may move: then it is a delete there and an insert here.
            inserts[partition] += keys
    return WorkloadProfile(
        {
            partition: PartitionWorkload(inserts.get(partition, 0), found)
            for partition, found in updates.items()
        }
    )
