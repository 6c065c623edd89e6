"""Clustering from plan to commit.

`schedule_clustering` writes the plan as one requested replacecommit: died before, nothing happened;
died after, the plan shields its file groups until it is run. `execute_clustering` runs a plan
inside a service transaction, whose module says what a death leaves. A write that has changed a
planned file group since then wins: the clustering and its plan are given up.
Source: Hudi's ClusteringPlanActionExecutor, RunClusteringTable, SparkRDDTableServiceClient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tideline.errors import ConflictError, ObjectNotFoundError, UnsupportedTableError
from tideline.formats.avro import encode_container
from tideline.hudi.capabilities.guard import refused_by_properties, require_by_properties
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.index.bucket_layout import HAS_BUCKETS
from tideline.hudi.services.audit import FileDone, ServiceDone
from tideline.hudi.services.clustering.config import ClusteringConfig
from tideline.hudi.services.clustering.conflict import find_update
from tideline.hudi.services.clustering.plan import (
    ClusteringPlan,
    clustering_due,
    partitions_to_cluster,
    plan_clustering,
)
from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.services.due_facts import completion_times
from tideline.hudi.services.engine import ServiceEngine, ServiceWork
from tideline.hudi.services.planned_files import files_read, with_sizes
from tideline.hudi.services.planned_run import MovedRows, PlannedRun, execute_planned_run
from tideline.hudi.services.slice_benefit import saved_by_rewrite
from tideline.hudi.services.stored_facts import StoredFacts
from tideline.hudi.services.table_history import (
    CLUSTER,
    partitions_left_over,
    stored_plan,
    written_partitions,
)
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.config import WriteConfig
from tideline.services.explanation import NotDue
from tideline.wording import counted

NAME = "clustering"
CLOCK_MARGIN_MS = 10 * 60 * 1000
"""How far the store's clock, which stamps completed instants, may be from the writers'."""


class UpdatedMeanwhileError(ConflictError):
    """A write changed a file group of the plan; the plan is worth nothing any more."""


def plan_due_clustering(
    table: HoodieTable,
    timeline: ActiveTimeline,
    config: ClusteringConfig,
    now: InstantTime,
    *,
    commits_max: int | None = None,
) -> ClusteringPlan | NotDue:
    """The plan of a clustering scheduled at `now`, read from the store; changes nothing.

    `commits_max`: commits that make it due, else those of an inline clustering.
    """
    facts = StoredFacts(table, timeline)
    reason = clustering_due(facts, config, commits_max)
    if isinstance(reason, NotDue):
        return reason
    changed = _changed_partitions(table, timeline, config, facts.clusterings)
    wanted = partitions_to_cluster(changed, config, now)
    if not wanted:
        return NotDue("the filters leave no partition to cluster")
    view = table.files.view(timeline, wanted)
    return plan_clustering(
        view,
        config,
        reason=reason,
        pending_log_compaction=table.commits.planned_groups(timeline, Action.LOGCOMPACTION),
        looked_over=tuple(sorted(set(changed) - set(wanted))),
        merges_logs=refused_by_properties(table, Permission.MERGE_LOGS) is None,
    )


def schedule_clustering(
    table: HoodieTable,
    config: ClusteringConfig,
    *,
    commits_max: int | None = None,
    timeline: ActiveTimeline | None = None,
) -> Instant | NotDue:
    """Write a clustering plan if one is due, of the timeline as it is under the table lock."""
    timeline = table.timeline() if timeline is None else timeline
    now = table.instants.next_time(timeline)
    plan = plan_due_clustering(table, timeline, config, now, commits_max=commits_max)
    if isinstance(plan, NotDue):
        return plan
    # Hudi names local files of a clustering plan without a scheme.
    record = plan.to_avro(table.hadoop_uri.removeprefix("file:"))
    body = encode_container("HoodieRequestedReplaceMetadata", record)
    action = table.layout.timeline.clustering
    return table.timelines.create_requested(table.instants.reserve_time(timeline), action, body)


def execute_clustering(
    table: HoodieTable,
    instant: Instant,
    engine: ServiceEngine,
    *,
    config: ServiceConfig,
    write_config: WriteConfig,
) -> ServiceDone:
    """Run a pending clustering to its commit.

    A failure undoes the attempt and keeps the plan. Raises ConflictError when another process runs
    it, UpdatedMeanwhileError (a ConflictError) when a write won and the plan was given up,
    CorruptTableError when plan or files are broken, UnsupportedTableError for a table with a bucket
    index.
    """
    if write_config.index.type.places_by_hash:
        raise UnsupportedTableError(HAS_BUCKETS, table=table.location.uri, instant=instant)
    plan = stored_plan(table, instant, ClusteringPlan)
    if any(file_slice.log_files for file_slice in plan.slices):
        require_by_properties(table, Permission.MERGE_LOGS)

    def move(work: ServiceWork) -> MovedRows:
        sized = _with_sizes(table, plan, instant.time)
        stats = tuple(engine.cluster(work, sized))
        used = files_read(sized.slices, "replaced")
        bytes_read = sum(file_slice.size_bytes for file_slice in sized.slices)
        saving = saved_by_rewrite(sized.slices, stats)
        return MovedRows(stats, used, bytes_read, saving, sized.replaced())

    run = PlannedRun(
        NAME,
        Permission.CLUSTERING,
        CLUSTER,
        move,
        _describe,
        check=lambda now: _refuse_updated(table, plan, instant, now),
        gives_up=lambda error: isinstance(error, UpdatedMeanwhileError),
    )
    return execute_planned_run(table, instant, run, config=config, write_config=write_config)


def _changed_partitions(
    table: HoodieTable,
    timeline: ActiveTimeline,
    config: ClusteringConfig,
    known: frozenset[InstantTime],
) -> tuple[str, ...]:
    """Selected partitions, or those written to since the last clustering, or all."""
    if config.selected_partitions:
        return config.selected_partitions
    completed = timeline.of(Action.REPLACECOMMIT).completed()
    last = next(
        (instant for instant in reversed(completed.instants) if instant.time in known), None
    )
    left_over = None
    if config.is_incremental and last is not None:
        left_over = partitions_left_over(table, last, table.layout.timeline.clustering)
    if last is None or left_over is None:
        return table.files.partitions()
    writes = _completed_since(table, timeline, last.time)
    return tuple(sorted({*left_over, *written_partitions(table, writes)}))


def _completed_since(
    table: HoodieTable, timeline: ActiveTimeline, since: InstantTime
) -> Iterator[Instant]:
    """Commits that may have completed after `since`, the store's clock being what it is."""
    zone = table.instants.zone
    times = completion_times(timeline, zone)
    for instant in timeline.of(*COMMIT_ACTIONS).completed():
        done_ms = zone.epoch_ms(times.get(instant.time, instant.time))
        is_later = done_ms + CLOCK_MARGIN_MS >= zone.earliest_ms(since)
        if instant.time != since and (instant.time > since or is_later):
            yield instant


def _with_sizes(table: HoodieTable, plan: ClusteringPlan, instant: InstantTime) -> ClusteringPlan:
    sized = {file_slice.group: file_slice for file_slice in with_sizes(table, plan.slices, instant)}
    groups = (
        replace(group, slices=tuple(sized[file_slice.group] for file_slice in group.slices))
        for group in plan.groups
    )
    return replace(plan, groups=tuple(groups))


def _refuse_updated(
    table: HoodieTable, plan: ClusteringPlan, instant: Instant, now: ActiveTimeline
) -> None:
    def metadata(write: Instant) -> CommitMetadata:
        try:
            return table.commits.read(write)
        except ObjectNotFoundError:
            return CommitMetadata()

    writes = (
        (candidate, metadata(candidate)) for candidate in _completed_since(table, now, instant.time)
    )
    found = find_update(plan.slices, writes, instant.time)
    if found is not None:
        write, group = found
        raise UpdatedMeanwhileError(
            f"{write.time} changed a file group after it was planned, so the plan is given up",
            table=table.location.uri,
            instant=instant.in_state(State.REQUESTED),
            value=group,
        )


def _describe(used: Sequence[FileDone], written: Sequence[FileDone]) -> str:
    return f"rewrote {counted(len(used), 'file')} as {len(written)}"
