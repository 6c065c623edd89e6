"""Compaction from plan to commit.

`schedule_compaction` writes the plan as one requested object: died before, nothing happened; died
after, the plan waits for the process that runs compactions. `execute_compaction` runs a plan inside
a service transaction, whose module says what a death leaves.
Source: Hudi's RunCompactionActionExecutor, HoodieCompactor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tideline.errors import CorruptTableError
from tideline.formats.avro import encode_container
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.services.audit import FileDone, ServiceDone
from tideline.hudi.services.compaction.config import CompactionConfig
from tideline.hudi.services.compaction.plan import (
    CompactionDue,
    CompactionPlan,
    compaction_due,
    instants_to_look_at,
    plan_compaction,
)
from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.services.due_facts import completion_times
from tideline.hudi.services.engine import ServiceEngine, ServiceWork
from tideline.hudi.services.planned_files import files_read, with_sizes
from tideline.hudi.services.planned_run import MovedRows, PlannedRun, execute_planned_run
from tideline.hudi.services.slice_benefit import saved_by_rewrite
from tideline.hudi.services.stored_facts import StoredFacts
from tideline.hudi.services.table_history import (
    partitions_left_over,
    stored_plan,
    written_partitions,
)
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.config import WriteConfig
from tideline.services.explanation import NotDue
from tideline.wording import counted

NAME = "compaction"
OPERATION_TYPE = "COMPACT"


def plan_due_compaction(
    table: HoodieTable, timeline: ActiveTimeline, config: CompactionConfig, now: InstantTime
) -> CompactionPlan | NotDue:
    """The plan of a compaction scheduled at `now`, read from the store; changes nothing."""
    facts = StoredFacts(table, timeline)
    due = compaction_due(facts, config, now)
    if isinstance(due, NotDue):
        return due
    times = completion_times(timeline, facts.zone.zone)
    partitions = _partitions(table, timeline, config, due, times)
    if partitions is not None and not partitions:
        return NotDue(f"nothing was written {due.reason}")
    view = table.files.view(timeline, partitions)
    return plan_compaction(
        view,
        config,
        now,
        reason=due.reason,
        pending_log_compaction=table.commits.planned_groups(timeline, Action.LOGCOMPACTION),
    )


def schedule_compaction(
    table: HoodieTable, config: CompactionConfig, timeline: ActiveTimeline | None = None
) -> Instant | NotDue:
    """Write a compaction plan if one is due, of the timeline as it is under the table lock."""
    timeline = table.timeline() if timeline is None else timeline
    now = table.instants.next_time(timeline)
    plan = plan_due_compaction(table, timeline, config, now)
    if isinstance(plan, NotDue):
        return plan
    body = encode_container("HoodieCompactionPlan", plan.to_avro())
    return table.timelines.create_requested(
        table.instants.reserve_time(timeline), Action.COMPACTION, body
    )


def execute_compaction(
    table: HoodieTable,
    instant: Instant,
    engine: ServiceEngine,
    *,
    config: ServiceConfig,
    write_config: WriteConfig,
) -> ServiceDone:
    """Run a pending compaction to its commit; any failure undoes the attempt and keeps the plan.

    Raises ConflictError when another process runs it, CorruptTableError when plan or files are
    broken.
    """
    plan = stored_plan(table, instant, CompactionPlan)
    # Before anything is begun: a plan that cannot be run leaves no trace each time it is tried.
    slices = with_sizes(table, (item.slice for item in plan.operations), instant.time)

    def move(work: ServiceWork) -> MovedRows:
        stats = tuple(engine.compact(work, slices))
        _check_complete(table, instant, slices, {stat.file_id for stat in stats})
        bytes_read = sum(file_slice.size_bytes for file_slice in slices)
        return MovedRows(stats, files_read(slices), bytes_read, saved_by_rewrite(slices, stats))

    run = PlannedRun(NAME, Permission.COMPACTION, OPERATION_TYPE, move, _describe)
    return execute_planned_run(table, instant, run, config=config, write_config=write_config)


def _partitions(
    table: HoodieTable,
    timeline: ActiveTimeline,
    config: CompactionConfig,
    due: CompactionDue,
    times: Mapping[InstantTime, InstantTime],
) -> tuple[str, ...] | None:
    """The partitions to look at; None for all of them."""
    if not config.is_incremental or due.since is None:
        return None
    left_over = partitions_left_over(table, due.since, Action.COMPACTION)
    if left_over is None:
        return None
    instants = instants_to_look_at(timeline, due.since, times, table.instants.zone)
    return tuple(sorted({*left_over, *written_partitions(table, instants)}))


def _check_complete(
    table: HoodieTable,
    instant: Instant,
    slices: tuple[FileSlice, ...],
    written: set[str | None],
) -> None:
    """A file group without its new base file would lose its rows once the commit is visible."""
    for file_slice in slices:
        if file_slice.group.file_id not in written:
            raise CorruptTableError(
                "the compaction wrote no base file for a file group of its plan",
                table=table.location.uri,
                instant=instant,
                value=file_slice.group,
            )


def _describe(used: Sequence[FileDone], written: Sequence[FileDone]) -> str:
    logs = sum(file.is_log for file in used)
    return f"merged {counted(logs, 'log file')} into {counted(len(written), 'base file')}"
