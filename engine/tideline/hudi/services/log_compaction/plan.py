"""Log compaction planning: which file slices have so many small log blocks that merging pays. Pure.

1. Due when enough delta commits completed since the last compaction and since the last log
   compaction; never while one is pending.
2. A slice is taken when it has that many log files, or that many valid blocks.

Off unless `hoodie.log.compaction.inline` is set.
Source: Hudi's ScheduleCompactionActionExecutor and HoodieLogCompactionPlanGenerator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tideline.bounded.parsing import parser
from tideline.hudi.services.compaction.operation import CompactionOperation
from tideline.hudi.services.due_facts import DueFacts
from tideline.hudi.services.log_compaction.config import LogCompactionConfig
from tideline.hudi.services.slice_benefit import benefit_of_merged_logs
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.explanation import Explanation, NotDue
from tideline.wording import counted

PLAN_VERSION = 2
_EXECUTION_CLASS = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"


@dataclass(frozen=True, slots=True)
class LogCompactionPlan:
    """The slices whose log blocks are merged into one. `reason` is not stored."""

    operations: tuple[CompactionOperation, ...]
    reason: str = ""

    @property
    def partitions(self) -> tuple[str, ...]:
        return tuple(sorted({item.group.partition for item in self.operations}))

    def explain(self) -> Explanation:
        """What it touches, saves and costs; merging is expected to keep the bytes."""
        logs = [log for item in self.operations for log in item.slice.log_files]
        log_bytes = sum(log.size_bytes for log in logs)
        slices = [item.slice for item in self.operations]
        return Explanation(
            self.reason,
            tuple(log.path for log in logs),
            bytes_read=log_bytes,
            bytes_written=log_bytes,
            benefit=benefit_of_merged_logs(slices, files_after=len(slices), bytes_after=log_bytes),
            details={"file groups": str(len(self.operations)), "log files": str(len(logs))},
        )

    def to_avro(self) -> dict[str, Any]:
        """The HoodieCompactionPlan record of a log compaction."""
        return {
            "operations": [item.to_avro() for item in self.operations],
            "extraMetadata": {},
            "version": PLAN_VERSION,
            "strategy": {
                "compactorClassName": _EXECUTION_CLASS,
                "strategyParams": {},
                "version": 1,
            },
            "preserveHoodieMetadata": True,
            "missingSchedulePartitions": None,
        }

    @classmethod
    @parser("a log compaction plan lacks a field, or one is wrong")
    def from_avro(cls, record: Mapping[str, Any], *, path: str) -> LogCompactionPlan:
        """Read a plan of ours or of Hudi's. Raises CorruptTableError naming `path`."""
        operations = record.get("operations") or ()
        return cls(tuple(CompactionOperation.from_avro(item, path=path) for item in operations))


def log_compaction_due(facts: DueFacts, config: LogCompactionConfig) -> str | NotDue:
    """Why a log compaction is due, or why not, by the facts of the table."""
    if not facts.is_merge_on_read:
        return NotDue("only merge-on-read tables have log files to merge")
    return find_due(facts.timeline, config, done=facts.log_compactions)


def find_due(
    timeline: ActiveTimeline, config: LogCompactionConfig, *, done: frozenset[InstantTime]
) -> str | NotDue:
    """Why a log compaction is due, or why not. `done` are the completed log compactions."""
    pending = timeline.pending().of(Action.LOGCOMPACTION).first()
    if pending is not None:
        return NotDue(f"log compaction {pending.time} is pending")
    writes = timeline.of(Action.DELTACOMMIT).completed()
    last = timeline.of(Action.COMMIT).completed().last()
    since_compaction = writes.after(last.time) if last else writes
    since_logs = writes.after(max(done)) if done else writes
    counted = min(
        sum(1 for item in commits if item.time not in done)
        for commits in (since_compaction, since_logs)
    )
    reason = f"{counted} of {config.blocks_min} delta commits since the last compaction of any kind"
    return reason if counted >= config.blocks_min else NotDue(reason)


def plan_log_compaction(
    view: FileSystemView,
    config: LogCompactionConfig,
    *,
    reason: str,
    pending_log_compaction: Mapping[FileGroupId, InstantTime],
    valid_blocks: Mapping[FileGroupId, int],
) -> LogCompactionPlan | NotDue:
    """Pick the slices from a view. `valid_blocks` counts the log blocks of those with few files."""
    busy = {**view.pending_compaction, **view.pending_clustering, **pending_log_compaction}
    operations = tuple(
        CompactionOperation.of(file_slice, config.file_size_bytes_max)
        for partition in view.partitions
        for file_slice in view.latest_slices(partition)
        if file_slice.group not in busy
        and max(len(file_slice.log_files), valid_blocks.get(file_slice.group, 0))
        >= config.blocks_min
    )
    if not operations:
        return NotDue(f"no file group has {counted(config.blocks_min, 'log block')}")
    return LogCompactionPlan(operations, reason)
