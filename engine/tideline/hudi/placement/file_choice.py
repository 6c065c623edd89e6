"""Which of a table's files a write looks into, adds to, rewrites or replaces.

Copy-on-write: keys are in base files; an update rewrites its base file; inserts fill any small one.

Merge-on-read: an update is appended to the logs of its slice, without a look at what it updates.
New keys go where an index that reads base files finds them again: to new base files, or to a small
file group that has no logs yet, whose base file is rewritten for it. So only base files need to be
looked up, with two exceptions: a file group that has nothing but logs, and a global index, which
has to know that a key left a file group by a delete in its log. Logs also say which keys of a base
file they delete: where such a key is stored in another file group, that is its place.

Pure functions of a file-system view. Source: Hudi's UpsertPartitioner, HoodieIndexUtils,
SparkUpsertDeltaCommitPartitioner, BaseSparkDeltaCommitActionExecutor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tideline.hudi.file_group.lookup_candidate import LookupCandidate
from tideline.hudi.index.bucket import file_ids_by_bucket
from tideline.hudi.placement.targets import AppendTarget, CreateTarget, MergeTarget, Target
from tideline.hudi.placement.upsert_partitioner import BucketPlan, Sizing, SmallFile, UpdateBucket
from tideline.hudi.placement.workload_profile import WorkloadProfile
from tideline.hudi.table.file_group import FileGroupId, FileSlice, LogFile
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant_time import InstantTime

if TYPE_CHECKING:
    from tideline.hudi.file_group.file_slice_merge import SliceContext


def lookup_candidates(
    view: FileSystemView,
    table_type: TableType,
    *,
    is_global: bool,
    separates_deleted: bool = False,
    has_rows_in_logs: Callable[[FileSlice], bool] = lambda _: False,
) -> tuple[LookupCandidate, ...]:
    """The file slices an index that reads files looks into; without logs where the base is enough.

    A base file that a pending compaction or a writer has not committed is not among them. Of a
    group under pending compaction it is the slice that is compacted, with its logs: a key deleted
    there is not in the base file to come, so a row of that key, appended on top, would be found by
    no index that reads base files, and the next one inserted next to it. Hudi looks into the base
    file alone; what it appended on top is found there.

    Which keys later logs delete matters where a key may be in two file groups, or to a caller that
    `separates_deleted` keys from others. `has_rows_in_logs` is called for slices with later logs;
    see tideline.hudi.placement.rows_in_logs.
    """
    slices = {partition: view.latest_slices(partition) for partition in view.partitions}
    everything = [file_slice for in_partition in slices.values() for file_slice in in_partition]
    if table_type is TableType.COPY_ON_WRITE:
        return tuple(
            LookupCandidate(file_slice)
            for file_slice in everything
            if file_slice.base_file is not None
        )
    if is_global:
        return tuple(LookupCandidate(file_slice) for file_slice in everything)
    candidates = []
    for in_partition in slices.values():
        for file_slice in in_partition:
            found = _looked_up(file_slice, view.pending_compaction.get(file_slice.group))
            is_compacted = file_slice.group in view.pending_compaction
            if found.later_logs and (is_compacted or has_rows_in_logs(found.file_slice)):
                found = replace(found, has_rows_in_logs=True)
            elif not separates_deleted and len(in_partition) == 1:
                found = replace(found, later_logs=())
            candidates.append(found)
    return tuple(candidates)


def small_files(
    view: FileSystemView, profile: WorkloadProfile, sizing: Sizing, table_type: TableType
) -> dict[str, tuple[SmallFile, ...]]:
    """Per partition with inserts the files they may go to, in the order they are to be filled.

    Never one that a pending compaction or clustering holds.
    """
    limit = sizing.small_file_limit_bytes
    partitions = [name for name, workload in profile.partitions.items() if workload.inserts]
    if table_type is TableType.COPY_ON_WRITE:
        return {
            partition: tuple(
                SmallFile(file.file_id, file.instant, file.size_bytes)
                for file in view.small_files(partition, limit)
            )
            for partition in partitions
        }
    most = sizing.small_files_without_logs_max
    return {
        partition: _small_without_logs(view, partition, limit)[:most] for partition in partitions
    }


def choose_targets(
    plan: BucketPlan,
    view: FileSystemView,
    table_type: TableType,
    reading: SliceContext | None = None,
) -> dict[int, Target]:
    """What every bucket of a plan does. `reading` goes along with appends, see AppendTarget."""
    slices = {
        file_slice.group: file_slice
        for partition in view.partitions
        for file_slice in view.latest_slices(partition)
    }
    targets: dict[int, Target] = {}
    for bucket in plan.buckets:
        if not isinstance(bucket, UpdateBucket):
            targets[bucket.number] = CreateTarget(bucket.partition, bucket.file_id_prefix)
            continue
        file_slice = slices[FileGroupId(bucket.partition, bucket.file_id)]
        takes_inserts = bool(bucket.inserts) and not file_slice.log_files
        is_rewritten = table_type is TableType.COPY_ON_WRITE or takes_inserts
        if is_rewritten and file_slice.base_file is not None:
            targets[bucket.number] = MergeTarget(file_slice.base_file)
        else:
            targets[bucket.number] = AppendTarget(
                file_slice, _slice_instant(view, file_slice), reading
            )
    return targets


def live_buckets(view: FileSystemView, partition: str) -> dict[int, FileSlice]:
    """The file slice of every bucket of a bucket index. Raises as `file_ids_by_bucket`."""
    slices = {file_slice.file_id: file_slice for file_slice in view.latest_slices(partition)}
    return {
        bucket: slices[file_id] for bucket, file_id in file_ids_by_bucket(partition, slices).items()
    }


def live_file_ids(view: FileSystemView, partitions: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The file groups of each partition that has any."""
    found = {
        partition: tuple(sorted(file_slice.file_id for file_slice in view.latest_slices(partition)))
        for partition in partitions
    }
    return {partition: ids for partition, ids in found.items() if ids}


def held_groups(
    held: Mapping[FileGroupId, InstantTime], wanted: Iterable[FileGroupId]
) -> dict[InstantTime, FileGroupId]:
    """The pending plans that hold any of the `wanted` groups, each with one of these."""
    found: dict[InstantTime, FileGroupId] = {}
    for group in wanted:
        if group in held:
            found.setdefault(held[group], group)
    return found


def _looked_up(file_slice: FileSlice, compaction: InstantTime | None) -> LookupCandidate:
    holding: tuple[LogFile, ...] = ()
    if compaction is not None:
        holding = tuple(log for log in file_slice.log_files if log.instant < compaction)
    elif file_slice.base_file is None:
        holding = file_slice.log_files
    later = tuple(log for log in file_slice.log_files if log not in holding)
    return LookupCandidate(replace(file_slice, log_files=holding), later)


def _small_without_logs(
    view: FileSystemView, partition: str, limit_bytes: int
) -> tuple[SmallFile, ...]:
    plain = {
        file_slice.file_id
        for file_slice in view.latest_slices(partition)
        if not file_slice.log_files
    }
    found = (file for file in view.small_files(partition, limit_bytes) if file.file_id in plain)
    return tuple(
        SmallFile(file.file_id, file.instant, file.size_bytes)
        for file in sorted(found, key=lambda file: (file.size_bytes, file.file_id))
    )


def _slice_instant(view: FileSystemView, file_slice: FileSlice) -> InstantTime:
    return view.pending_compaction.get(file_slice.group, file_slice.base_instant)
