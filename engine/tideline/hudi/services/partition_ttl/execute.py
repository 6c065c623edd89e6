"""Dropping what has expired of a table, as one commit.

1. What has expired is looked up; nothing expired, nothing is written.
2. A write of the operation delete_partition: one transaction, with a heartbeat, conflict detection
   and rollback like any other, which replaces the partitions' file groups by nothing. Inside it
   what has expired is looked up again, so that no partition is lost that was written to since.
3. Cleaning deletes the files later.

Dying before the commit leaves a failed write for the next writer to roll back, dying after it
nothing: it is done.
Source: Hudi's PartitionTTLActionExecutor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.hudi.capabilities.guard import require
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.services.audit import FileDone
from tideline.hudi.services.partition_ttl.config import PartitionTtlConfig, TtlStrategy
from tideline.hudi.services.partition_ttl.plan import (
    NO_PARTITIONS,
    PartitionAge,
    PartitionTtlPlan,
    plan_partition_ttl,
)
from tideline.hudi.services.slice_benefit import benefit_of_dropped, benefit_of_rewrite
from tideline.hudi.table.file_system_view import FileSystemView, parse_data_file
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.partition_metadata import read_creation_time
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.table_writer import TableWriter
from tideline.hudi.write.write_operation import WriteOperation
from tideline.hudi.write.write_request import WriteDone
from tideline.plain_json import members
from tideline.services.benefit import NO_BENEFIT, Benefit
from tideline.services.explanation import NotDue
from tideline.services.report import ServiceReport
from tideline.wording import counted

NAME = "partition_ttl"


@dataclass(frozen=True, slots=True)
class PartitionsExpired:
    """The partitions that one commit dropped, and their files, which cleaning deletes later.

    `benefit` is what readers no longer open, the newest version of each file group.
    """

    instant: InstantTime
    partitions: tuple[str, ...]
    files: tuple[FileDone, ...]
    file_groups: int
    benefit: Benefit = NO_BENEFIT

    def report(self) -> ServiceReport:
        """What was done, summed up."""
        groups = counted(self.file_groups, "file group")
        words = f"dropped partitions of {groups}"
        return ServiceReport(words, self.instant, benefit=self.benefit)

    def to_json_object(self) -> dict[str, Any]:
        """The audit of the run."""
        return {
            "service": NAME,
            **members(self, "instant", "file_groups", "partitions", "files", saved="benefit"),
        }


def expire_partitions(
    writer: TableWriter,
    given: Mapping[str, str],
    extra_metadata: Mapping[str, str] | None = None,
) -> WriteDone | NotDue:
    """Drop what has expired; `given` are settings over the table's own.

    Raises as `commit_write` does, and UnsupportedTableError for what the table is not for.
    """
    table = writer.table
    require(table, Permission.TTL)
    config = PartitionTtlConfig.from_settings(Settings({**table.config.properties, **given}))
    planned = plan_table_partition_ttl(table, config)
    if isinstance(planned, NotDue):
        return planned
    request = writer.request(
        WriteOperation.DELETE_PARTITION,
        writer.index.for_partitions(given),
        extra_metadata=extra_metadata,
    )
    return writer.delete_partitions(
        request, lambda timeline: _expired_partitions(table, config, timeline)
    )


def audit_partition_ttl(table: HoodieTable, time: InstantTime) -> PartitionsExpired:
    """What the commit at `time` dropped."""
    commit = Instant(time, Action.REPLACECOMMIT, State.COMPLETED)
    replaced = table.commits.read(commit).partition_to_replace_file_ids or {}
    listing = table.files.listing(set(replaced))
    parsed = [
        parse_data_file(partition, name, size_bytes)
        for partition, files in listing.items()
        for name, size_bytes in files
    ]
    found = [value for value in parsed if value and value.file_id in replaced[value.partition]]
    return PartitionsExpired(
        time,
        tuple(sorted(replaced)),
        tuple(FileDone(file.path, "replaced", file.size_bytes) for file in found),
        sum(len(ids) for ids in replaced.values()),
        benefit_of_dropped(found),
    )


def plan_table_partition_ttl(
    table: HoodieTable, config: PartitionTtlConfig, timeline: ActiveTimeline | None = None
) -> PartitionTtlPlan | NotDue:
    """The partitions to drop now; lists those concerned unless partitions are kept forever."""
    if config.days_retained is None or not table.config.partition_fields:
        outcome = plan_partition_ttl((), config, table.clock.now_ms())
        return NotDue(NO_PARTITIONS) if config.days_retained else outcome
    timeline = table.timeline() if timeline is None else timeline
    known = table.instants.known_zone(timeline)
    if not known.knows_age:
        return plan_partition_ttl((), config, table.clock.now_ms(), known)
    view = table.files.view(timeline, config.selected or None)
    return plan_partition_ttl(_ages(table, view, config), config, table.clock.now_ms(), known)


def _expired_partitions(
    table: HoodieTable, config: PartitionTtlConfig, timeline: ActiveTimeline
) -> tuple[str, ...]:
    """The partitions to drop as `timeline` shows the table; none when none has expired."""
    plan = plan_table_partition_ttl(table, config, timeline)
    return () if isinstance(plan, NotDue) else plan.partitions


def _ages(
    table: HoodieTable, view: FileSystemView, config: PartitionTtlConfig
) -> Iterator[PartitionAge]:
    busy = {group.partition for group in (*view.pending_compaction, *view.pending_clustering)}
    for partition in view.partitions:
        slices = view.latest_slices(partition)
        if not slices:
            continue
        since: InstantTime | None = max(file_slice.base_instant for file_slice in slices)
        if config.strategy is TtlStrategy.KEEP_BY_CREATION_TIME:
            since = _creation_time(table, partition)
        files = [file for file_slice in slices for file in file_slice.files]
        yield PartitionAge(
            partition,
            since,
            partition in busy,
            tuple(file.path for file in files),
            sum(file.size_bytes for file in files),
            benefit_of_rewrite(slices, files_after=0, bytes_after=0),
        )


def _creation_time(table: HoodieTable, partition: str) -> InstantTime | None:
    try:
        return read_creation_time(table.store, partition)
    except (ObjectNotFoundError, CorruptTableError):
        return None
