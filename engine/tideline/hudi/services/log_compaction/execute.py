"""Log compaction from plan to commit.

`schedule_log_compaction` writes the plan as one requested object. `execute_log_compaction` runs it
inside a service transaction, whose module says what a death leaves; but other than a compaction's,
a dead attempt is given up with its plan, because its blocks stay in the log files.
Source: Hudi's RunCompactionActionExecutor, LogCompactionExecutionHelper.
"""

from __future__ import annotations

from collections.abc import Sequence

from tideline.errors import ConflictError
from tideline.formats.avro import encode_container
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.log.log_files import LogFiles
from tideline.hudi.services.audit import FileDone, ServiceDone
from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.services.engine import ServiceEngine, ServiceWork
from tideline.hudi.services.log_compaction.config import LogCompactionConfig
from tideline.hudi.services.log_compaction.plan import (
    LogCompactionPlan,
    log_compaction_due,
    plan_log_compaction,
)
from tideline.hudi.services.planned_files import files_read, with_sizes
from tideline.hudi.services.planned_run import MovedRows, PlannedRun, execute_planned_run
from tideline.hudi.services.slice_benefit import benefit_of_merged_logs
from tideline.hudi.services.stored_facts import StoredFacts
from tideline.hudi.services.table_history import LOG_COMPACT, stored_plan
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.committed import CommittedInstants
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.write.config import WriteConfig
from tideline.services.explanation import NotDue
from tideline.wording import counted

NAME = "log_compaction"


def plan_due_log_compaction(
    table: HoodieTable, timeline: ActiveTimeline, config: LogCompactionConfig
) -> LogCompactionPlan | NotDue:
    """The plan of a log compaction now, read from the store; changes nothing."""
    reason = log_compaction_due(StoredFacts(table, timeline), config)
    if isinstance(reason, NotDue):
        return reason
    view = table.files.view(timeline)
    return plan_log_compaction(
        view,
        config,
        reason=reason,
        pending_log_compaction=table.commits.planned_groups(timeline, Action.LOGCOMPACTION),
        valid_blocks=_count_blocks(table, timeline, view, config),
    )


def schedule_log_compaction(
    table: HoodieTable, config: LogCompactionConfig, timeline: ActiveTimeline | None = None
) -> Instant | NotDue:
    """Write a log compaction plan if one is due, of the timeline as it is under the table lock."""
    timeline = table.timeline() if timeline is None else timeline
    plan = plan_due_log_compaction(table, timeline, config)
    if isinstance(plan, NotDue):
        return plan
    now = table.instants.reserve_time(timeline)
    body = encode_container("HoodieCompactionPlan", plan.to_avro())
    return table.timelines.create_requested(now, Action.LOGCOMPACTION, body)


def execute_log_compaction(
    table: HoodieTable,
    instant: Instant,
    engine: ServiceEngine,
    *,
    config: ServiceConfig,
    write_config: WriteConfig,
) -> ServiceDone:
    """Run a pending log compaction to its commit; any failure gives the attempt and plan up.

    Raises ConflictError when another process runs it, or a compaction began after it,
    CorruptTableError when plan or files are broken.
    """
    plan = stored_plan(table, instant, LogCompactionPlan)

    def move(work: ServiceWork) -> MovedRows:
        slices = with_sizes(table, (item.slice for item in plan.operations), instant.time)
        stats = tuple(engine.compact_logs(work, slices))
        bytes_read = sum(log.size_bytes for file_slice in slices for log in file_slice.log_files)
        benefit = benefit_of_merged_logs(
            slices,
            files_after=len(stats),
            bytes_after=sum(stat.file_size_in_bytes for stat in stats),
        )
        return MovedRows(stats, files_read(slices), bytes_read, benefit)

    run = PlannedRun(
        NAME,
        Permission.LOG_COMPACTION,
        LOG_COMPACT,
        move,
        _describe,
        keeps_plan=False,
        check=lambda now: _refuse_compacted(table, instant, now),
        gives_up=lambda _: True,
    )
    return execute_planned_run(table, instant, run, config=config, write_config=write_config)


def _count_blocks(
    table: HoodieTable, timeline: ActiveTimeline, view: FileSystemView, config: LogCompactionConfig
) -> dict[FileGroupId, int]:
    """Valid blocks of the slices with logs, but too few of them to be taken for these alone.

    Reads the blocks' headers; several writers, and Hudi itself, put many blocks into one file.
    """
    committed = CommittedInstants.of(timeline)
    return {
        file_slice.group: len(LogFiles(table.store, file_slice.log_files).select(committed).blocks)
        for partition in view.partitions
        for file_slice in view.latest_slices(partition)
        if 0 < len(file_slice.log_files) < config.blocks_min
    }


def _refuse_compacted(table: HoodieTable, instant: Instant, now: ActiveTimeline) -> None:
    """The compaction may have read the log files without what we are about to append."""
    later = now.of(Action.COMMIT, Action.COMPACTION).after(instant.time).first()
    if later is not None:
        raise ConflictError(
            f"compaction {later.time} was scheduled after this log compaction",
            table=table.location.uri,
            instant=instant.in_state(State.REQUESTED),
        )


def _describe(used: Sequence[FileDone], written: Sequence[FileDone]) -> str:
    return f"merged {counted(sum(file.is_log for file in used), 'log file')} into {len(written)}"
