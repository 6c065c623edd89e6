"""Which files a rewrite takes, and in what groups (Iceberg's bin-pack planner).

1. Candidates are files of the wrong size, and files with too many deletes. Those that cannot be
   read are left by name (left_files.py), and those in partitions whose rows others changed in place
   lately are left to them.
2. They are grouped by partition; those of another spec than the current one belong to one group,
   because their rows may lie in any partition.
3. Each partition's candidates are packed, in order, into groups of bounded size.
4. A group is kept when it has enough files, or enough bytes for a whole file, or more than one
   file may have, or a file with too many deletes.
5. Where enough files are planned, the others are left; without an order asked for, the groups that
   save most for the bytes they move are the first. Groups are put in the order asked for.

With `rewrite-all` the first and the fourth step are left out. Pure.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tideline.errors import ConfigError
from tideline.iceberg.bin_pack import pack
from tideline.iceberg.commit.file_identity import ChangedPartitions, partition_key
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.iceberg.metadata.stored_columns import unstorable_columns
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.delete_index import referenced_data_file
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.services.rewrite_data_files.benefit import benefit_of_rewrite
from tideline.iceberg.services.rewrite_data_files.left_files import (
    Ledger,
    Reason,
    Skipped,
    unreadable,
)
from tideline.iceberg.services.rewrite_data_files.options import JobOrder, RewriteOptions
from tideline.services.benefit import NO_BENEFIT, Benefit
from tideline.services.ranking import benefit_per_core_second, default_core_seconds


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files that are rewritten together, and what is to come of them.

    `partition` is the empty tuple for files of another spec than the current one; `spec_id` is then
    that of the first. Deletes are gone from the output, so `rows_deleted` of `rows` are expected to
    be missing there, as far as the metadata shows.
    """

    index: int
    spec_id: int
    partition: tuple[Any, ...]
    output_spec_id: int
    tasks: tuple[FileScanTask, ...]
    input_bytes: int
    outputs_expected: int
    split_size_bytes: int
    write_size_bytes_max: int
    reason: Reason
    rows: int
    rows_deleted: int

    @property
    def needs_partitioning(self) -> bool:
        """Whether the output's partitions must be computed row by row; else all of it belongs to
        `partition`."""
        return any(task.spec_id != self.output_spec_id for task in self.tasks)

    @property
    def output_bytes_expected(self) -> int:
        """The input's bytes without the share of its deleted rows."""
        kept = self.rows - self.rows_deleted
        return self.input_bytes if not self.rows else self.input_bytes * kept // self.rows

    @property
    def benefit(self) -> Benefit:
        """What readers are expected to save."""
        return benefit_of_rewrite(
            self.tasks,
            files_after=self.outputs_expected,
            bytes_after=self.output_bytes_expected,
        )


@dataclass(frozen=True, slots=True)
class RewritePlan:
    """What a rewrite of a snapshot does; `starting_snapshot_id` is None for an empty table."""

    starting_snapshot_id: int | None
    groups: tuple[FileGroup, ...]
    skipped: tuple[Skipped, ...]

    @property
    def files_before(self) -> int:
        """Data files that are rewritten."""
        return sum(len(group.tasks) for group in self.groups)

    @property
    def files_after(self) -> int:
        """Data files expected in their place."""
        return sum(group.outputs_expected for group in self.groups)

    @property
    def bytes_before(self) -> int:
        """Bytes that are read, deletes left out."""
        return sum(group.input_bytes for group in self.groups)

    @property
    def bytes_after(self) -> int:
        """Bytes expected to be written."""
        return sum(group.output_bytes_expected for group in self.groups)

    @property
    def benefit(self) -> Benefit:
        """What readers are expected to save."""
        return sum((group.benefit for group in self.groups), NO_BENEFIT)

    @property
    def core_seconds(self) -> float:
        """What it is expected to take of processors, by its bytes and files."""
        bytes_moved = self.bytes_before + self.bytes_after
        return default_core_seconds(bytes_moved, self.files_before + self.files_after)

    @property
    def benefit_per_core_second(self) -> float:
        """What it saves for that, in bytes that a scan no longer reads."""
        return benefit_per_core_second(self.benefit.benefit_bytes, self.core_seconds)


def plan_rewrite(
    tasks: Iterable[FileScanTask],
    metadata: TableMetadata,
    options: RewriteOptions,
    *,
    starting_snapshot_id: int | None,
    changed: ChangedPartitions | None = None,
) -> RewritePlan:
    """Plan over the files of one snapshot, which are looked at one by one. `changed` are partitions
    to be left alone.

    Raises ConfigError when `output-spec-id` is no spec of the table.
    """
    current = metadata.spec()
    output_spec = _output_spec(metadata, options)
    columns = unstorable_columns(metadata.schema().fields)
    ledger = Ledger()
    candidates: dict[Any, list[FileScanTask]] = defaultdict(list)
    for task in tasks:
        if not options.rewrite_all and not _is_candidate(task, options):
            ledger.skip(Reason.RIGHT_SIZE, [task])
        elif columns:
            ledger.skip(Reason.COLUMN_TYPE, [task], columns)
        elif (reason := unreadable(task)) is not None:
            ledger.skip(reason, [task])
        elif changed and partition_key(task.data_file) in changed:
            ledger.skip(Reason.BUSY, [task])
        else:
            candidates[_partition_of(task, current)].append(task)
    found: list[FileGroup] = []
    for partition_tasks in candidates.values():
        for packed in _pack(partition_tasks, options):
            reason = _reason(packed, options)
            if reason is None:
                ledger.skip(Reason.TOO_LITTLE, packed)
            else:
                found.append(_group(packed, reason, current, output_spec, options))
    groups: list[FileGroup] = []
    for group in _most_urgent_first(found, options):
        kept, left = _within_limit(group.tasks, ledger.planned, options)
        ledger.skip(Reason.BEYOND_LIMIT, left)
        if kept:
            ledger.planned += len(kept)
            if left:
                group = _group(kept, group.reason, current, output_spec, options)
            groups.append(group)
    ordered = _ordered(groups, options.job_order)
    return RewritePlan(
        starting_snapshot_id,
        tuple(replace(group, index=index) for index, group in enumerate(ordered)),
        ledger.skipped(),
    )


def _output_spec(metadata: TableMetadata, options: RewriteOptions) -> PartitionSpec:
    if options.output_spec_id is None:
        return metadata.spec()
    for spec in metadata.partition_specs:
        if spec.spec_id == options.output_spec_id:
            return spec
    known = ", ".join(str(spec.spec_id) for spec in metadata.partition_specs)
    raise ConfigError(
        f"output-spec-id names no partition spec of the table; there are {known}",
        table=metadata.location,
        value=options.output_spec_id,
    )


def _is_candidate(task: FileScanTask, options: RewriteOptions) -> bool:
    size_bytes = task.data_file.file_size_bytes
    return (
        not options.size_bytes_min <= size_bytes <= options.size_bytes_max
        or _has_many_delete_files(task, options)
        or _has_many_deleted_rows(task, options)
    )


def _has_many_delete_files(task: FileScanTask, options: RewriteOptions) -> bool:
    threshold = options.delete_files_threshold
    return threshold is not None and len(task.deletes) >= threshold


def _has_many_deleted_rows(task: FileScanTask, options: RewriteOptions) -> bool:
    if not task.deletes:
        return False
    rows = task.data_file.record_count
    return rows > 0 and _rows_deleted(task) / rows >= options.delete_ratio_threshold


def _rows_deleted(task: FileScanTask) -> int:
    """By the deletes that concern no other file: of others it is unknown how many are of this."""
    known = sum(
        delete_file.record_count
        for delete_file in task.deletes
        if referenced_data_file(delete_file)
    )
    return min(known, task.data_file.record_count)


def _partition_of(task: FileScanTask, current: PartitionSpec) -> tuple[Any, ...] | None:
    if task.spec_id != current.spec_id:
        return None if current.fields else ()
    partition = task.data_file.partition
    if any(type(value) is float for value in partition):
        # NaN is a partition like any other, and -0.0 is not 0.0.
        return tuple(struct.pack(">d", v) if type(v) is float else v for v in partition)
    return partition


def _pack(tasks: Sequence[FileScanTask], options: RewriteOptions) -> list[list[FileScanTask]]:
    return pack(
        tasks,
        lambda task: task.data_file.file_size_bytes,
        options.group_size_bytes_max,
        items_max=options.group_files_max,
    )


def _reason(tasks: Sequence[FileScanTask], options: RewriteOptions) -> Reason | None:
    size_bytes = _size_bytes(tasks)
    if options.rewrite_all:
        return Reason.REWRITE_ALL
    if len(tasks) > 1 and len(tasks) >= options.input_files_min:
        return Reason.ENOUGH_FILES
    if len(tasks) > 1 and size_bytes > options.target_size_bytes:
        return Reason.ENOUGH_BYTES
    if size_bytes > options.size_bytes_max:
        return Reason.TOO_LARGE
    if any(_has_many_delete_files(task, options) for task in tasks):
        return Reason.DELETE_FILES
    if any(_has_many_deleted_rows(task, options) for task in tasks):
        return Reason.DELETE_RATIO
    return None


def _most_urgent_first(groups: list[FileGroup], options: RewriteOptions) -> list[FileGroup]:
    """Where the number of files is limited and no order asked for: what saves most for the bytes
    it moves."""
    if options.files_max is None or options.job_order is not JobOrder.NONE:
        return groups
    return sorted(groups, key=_benefit_per_byte, reverse=True)


def _benefit_per_byte(group: FileGroup) -> float:
    return group.benefit.benefit_per_byte(group.input_bytes + group.output_bytes_expected)


def _within_limit(
    tasks: Sequence[FileScanTask], planned: int, options: RewriteOptions
) -> tuple[Sequence[FileScanTask], Sequence[FileScanTask]]:
    if options.files_max is None:
        return tasks, ()
    room = max(0, options.files_max - planned)
    return tasks[:room], tasks[room:]


def _group(
    tasks: Sequence[FileScanTask],
    reason: Reason,
    current: PartitionSpec,
    output_spec: PartitionSpec,
    options: RewriteOptions,
) -> FileGroup:
    input_bytes = _size_bytes(tasks)
    first = tasks[0].data_file
    return FileGroup(
        index=0,
        spec_id=first.spec_id,
        partition=first.partition if first.spec_id == current.spec_id else (),
        output_spec_id=output_spec.spec_id,
        tasks=tuple(tasks),
        input_bytes=input_bytes,
        outputs_expected=options.outputs_expected(input_bytes),
        split_size_bytes=options.split_size_bytes(input_bytes),
        write_size_bytes_max=options.write_size_bytes_max,
        reason=reason,
        rows=sum(task.data_file.record_count for task in tasks),
        rows_deleted=sum(_rows_deleted(task) for task in tasks),
    )


def _ordered(groups: Sequence[FileGroup], order: JobOrder) -> list[FileGroup]:
    if order in (JobOrder.BYTES_ASC, JobOrder.BYTES_DESC):
        return sorted(groups, key=_group_bytes, reverse=order is JobOrder.BYTES_DESC)
    if order in (JobOrder.FILES_ASC, JobOrder.FILES_DESC):
        return sorted(groups, key=_group_files, reverse=order is JobOrder.FILES_DESC)
    return list(groups)


def _group_bytes(group: FileGroup) -> int:
    return group.input_bytes


def _group_files(group: FileGroup) -> int:
    return len(group.tasks)


def _size_bytes(tasks: Sequence[FileScanTask]) -> int:
    return sum(task.data_file.file_size_bytes for task in tasks)
