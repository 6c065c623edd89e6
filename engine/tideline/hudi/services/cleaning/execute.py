"""Cleaning a table, so that a crash at any step leaves something the next clean finishes.

1. Under the lock: a completed clean without a body is reopened; a new plan is made when one is due
   and written as `T.clean.requested`. Died before: nothing happened. Died after: the plan is
   executed by the next clean.
2. Not under the lock, but with a heartbeat: the layer above that publishes the table elsewhere lets
   go of the planned files; `T.clean.inflight`; then they are deleted in batches. A missing file
   counts as deleted, so this repeats safely.
3. Under the lock again: partitions where nothing remains lose their metadata file, unless a
   write is pending; a metadata table is switched off; `T.clean` completes with what was deleted.
   Died before: the clean is pending and repeated. Died after: all is done.

A pending clean, of ours or of Hudi's, is resumed unless its heartbeat shows that another process is
running it. If two processes execute the same one, both delete the same files and one of them
completes it.
Source: Hudi's CleanPlanActionExecutor, CleanActionExecutor.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import partial

from tideline.errors import ConflictError, ObjectNotFoundError
from tideline.formats.avro import encode_container
from tideline.hudi.commit.completion import require_lease
from tideline.hudi.metadata_table.config import MetadataTableConfig
from tideline.hudi.metadata_table.keep import record_clean
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.deletion_guard import DeletionGuard
from tideline.hudi.services.cleaning.done import CleanedFile, CleaningDone, clean_metadata
from tideline.hudi.services.cleaning.plan import (
    CleaningPlan,
    PartitionListing,
    TableFacts,
    plan_cleaning,
)
from tideline.hudi.services.cleaning.retention import (
    Retention,
    is_empty_clean_due,
    plan_retention,
)
from tideline.hudi.services.cleaning.stored_plan import read_cleaning_plan
from tideline.hudi.services.past_cleans import read_last_clean
from tideline.hudi.services.savepoint.record import savepointed_files
from tideline.hudi.table.file_group import FileGroupId, join_path
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.partition_metadata import METADATA_NAMES
from tideline.hudi.table.pending_plan import planned_slices
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import NO_PREVIOUS_COMMIT, CommitMetadata
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.resource_usage import ResourceUsage
from tideline.services.explanation import NotDue
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.heartbeat import Heartbeat, is_heartbeat_dead
from tideline.storage.lock import Guard
from tideline.storage.refusals import ObjectKeptError
from tideline.wording import counted

_REARRANGING = (Action.COMPACTION, Action.LOGCOMPACTION, Action.REPLACECOMMIT, Action.CLUSTERING)
# Operations where only updated file groups can have an older version.
_UPDATING = frozenset({"UPSERT", "INSERT", "UPSERT_PREPPED", "INSERT_PREPPED"})

_log = logging.getLogger(__name__)


def clean_table(table: HoodieTable, config: CleaningConfig) -> tuple[CleaningDone, ...] | NotDue:
    """Resume what is pending, then plan and execute what is due. Takes the lock itself.

    NotDue when there was neither. Raises CorruptTableError for a plan that cannot be read.
    """
    with table.lock(config.lock_timing).acquire():
        timeline = table.timeline()
        if reopen_empty_clean(table, timeline):
            timeline = table.timeline()
        instants = list(find_abandoned_cleans(table, timeline, config))
        scheduled = schedule_cleaning(table, config, timeline)
        if isinstance(scheduled, Instant):
            instants.append(scheduled)
    if not instants and isinstance(scheduled, NotDue):
        return scheduled
    done = [execute_cleaning(table, instant, config) for instant in instants]
    if isinstance(scheduled, NotDue):
        # What was pending kept a new plan from being made.
        with table.lock(config.lock_timing).acquire():
            scheduled = schedule_cleaning(table, config)
        if isinstance(scheduled, Instant):
            done.append(execute_cleaning(table, scheduled, config))
    return tuple(done)


def plan_table_cleaning(
    table: HoodieTable, config: CleaningConfig, timeline: ActiveTimeline | None = None
) -> CleaningPlan | NotDue:
    """What a clean would do now; reads the timeline and lists the partitions it concerns."""
    timeline = table.timeline() if timeline is None else timeline
    last = read_last_clean(table, timeline)
    known = table.instants.known_zone(timeline)
    retention = plan_retention(timeline, last, config, table.clock.now_ms(), known)
    if isinstance(retention, NotDue):
        return retention
    partitions = _partitions(table, retention)
    facts = _facts(table, timeline, retention, has_work=partitions != ())
    plan = plan_cleaning(_listings(table, partitions), facts, retention, config)
    now_ms = table.clock.now_ms()
    if plan.is_empty and not is_empty_clean_due(timeline, last, config, now_ms, known):
        if not plan.partitions_examined:
            return NotDue("no partition was written to since the last clean")
        where = counted(plan.partitions_examined, "partition")
        return NotDue(f"nothing to delete in the {where} written to since the last clean")
    return plan


def schedule_cleaning(
    table: HoodieTable, config: CleaningConfig, timeline: ActiveTimeline | None = None
) -> Instant | NotDue:
    """Write the requested instant of a clean that is due, of the timeline as it is under the
    table lock."""
    timeline = table.timeline() if timeline is None else timeline
    plan = plan_table_cleaning(table, config, timeline)
    if isinstance(plan, NotDue):
        return plan
    time = table.instants.reserve_time(timeline)
    body = encode_container("HoodieCleanerPlan", plan.to_avro(table.hadoop_uri))
    return table.timelines.create_requested(time, Action.CLEAN, body)


def find_abandoned_cleans(
    table: HoodieTable, timeline: ActiveTimeline, config: CleaningConfig
) -> tuple[Instant, ...]:
    """Pending cleans that no live process runs, by their heartbeat, oldest first."""
    return tuple(
        instant
        for instant in timeline.of(Action.CLEAN).pending()
        if is_heartbeat_dead(table.store, str(instant.time), table.clock, config.heartbeat)
    )


def reopen_empty_clean(table: HoodieTable, timeline: ActiveTimeline) -> bool:
    """Make the last clean pending again when it is completed without a body. Under the lock.

    Died after: it is a pending clean like any other. Without its plan it is left as it is.
    """
    last = timeline.of(Action.CLEAN).completed().last()
    if last is None or table.timelines.read(last):
        return False
    requested = last.in_state(State.REQUESTED)
    if table.store.head(table.timelines.path(requested)) is None:
        return False
    table.timelines.remove(last)
    return True


def execute_cleaning(table: HoodieTable, instant: Instant, config: CleaningConfig) -> CleaningDone:
    """Execute a pending clean, regardless of who planned it. Takes the lock to complete it.

    Raises CorruptTableError when its plan cannot be read or names a file that must stay (nothing
    was deleted then), StorageUnavailableError when a file cannot be deleted; the clean stays
    pending then.
    """
    started_ms, before = table.clock.now_ms(), ResourceUsage.so_far()
    plan = read_cleaning_plan(table, instant)
    with Heartbeat(table.store, str(instant.time), table.clock, config.heartbeat):
        sizes = _checked_sizes(table, plan, instant)
        table.before_deletion(sizes)
        inflight = _to_inflight(table, instant)
        files, kept = _delete(table, plan, sizes)
        with table.lock(config.lock_timing).acquire() as lease:
            now = table.timeline()
            emptied = tuple(_delete_partitions(table, now, plan))
            elapsed_ms = table.clock.now_ms() - started_ms
            earliest = plan.earliest.time if plan.earliest else None
            spent = ResourceUsage.so_far().since(before)
            done = CleaningDone(
                instant.time,
                plan.policy,
                earliest,
                files,
                emptied,
                max(elapsed_ms, 0),
                spent,
                kept,
            )
            guard = partial(require_lease, lease, table, inflight.time)
            _complete(table, inflight, plan, done, now, config.metadata_table, guard)
    return done


def _to_inflight(table: HoodieTable, instant: Instant) -> Instant:
    inflight = instant.in_state(State.INFLIGHT)
    if instant.state is State.INFLIGHT:
        return inflight
    try:
        return table.timelines.to_inflight(instant)
    except ConflictError:
        if table.store.head(table.timelines.path(inflight)) is None:
            raise
        return inflight


def _checked_sizes(table: HoodieTable, plan: CleaningPlan, instant: Instant) -> Mapping[str, int]:
    """The planned files that are there, with their sizes in bytes.

    A plan may be another engine's, or older than what a reader, a savepoint or a pending plan
    needs by now. Raises CorruptTableError naming the first such file and the reason.
    """
    if not plan.files:
        return {}
    timeline = table.timeline()
    standing = DeletionGuard(_standing(table, timeline), partial(_archived_replaced, table))
    sizes: dict[str, int] = {}
    for partition, files in sorted(plan.files.items()):
        listing = _list_partition(table, partition)
        paths = [file.path for file in files]
        scope = table.files.delete_scope(
            f"the clean {instant.time}", standing.objections(partition, listing, paths).get
        )
        scope.check(paths)
        present = {join_path(partition, name): size_bytes for name, size_bytes in listing}
        sizes |= {path: present[path] for path in paths if path in present}
    return sizes


def _delete(
    table: HoodieTable, plan: CleaningPlan, sizes: Mapping[str, int]
) -> tuple[tuple[CleanedFile, ...], tuple[str, ...]]:
    """Delete the planned files, which were checked, partition by partition; those that the store
    keeps come second: as Hudi does, the clean completes without them."""
    scope = table.files.delete_scope("the clean")
    gone: list[CleanedFile] = []
    kept: list[str] = []
    for _, files in sorted(plan.files.items()):
        paths = [file.path for file in files]
        denied: dict[str, None] = {}
        try:
            scope.remove_many(paths)
        except ObjectKeptError:
            # The store names the first one only.
            denied = dict.fromkeys(path for path in paths if _is_kept(scope, path))
        gone += [CleanedFile(path, sizes.get(path)) for path in paths if path not in denied]
        kept += denied
    return tuple(gone), tuple(kept)


def _is_kept(scope: DeleteScope, path: str) -> bool:
    try:
        scope.remove(path)
    except ObjectKeptError as error:
        _log.warning("%s", error)
        return True
    return False


def _delete_partitions(
    table: HoodieTable, timeline: ActiveTimeline, plan: CleaningPlan
) -> Iterator[str]:
    """Take the metadata file from partitions that are still without data. Under the lock.

    Where a write is pending they are left: its tasks may have found the metadata file in place.
    """
    if len(timeline.writes().pending()) or not table.config.partition_fields:
        return
    for partition in plan.partitions_to_delete:
        names = [name for name, _ in _list_partition(table, partition)]
        if any(parse_data_file(partition, name, 0) is not None for name in names):
            _log.warning("partition %s has files again, it stays", partition)
            continue
        table.files.delete_scope("the clean").remove_many(
            join_path(partition, name) for name in names if name in METADATA_NAMES
        )
        yield partition


def _complete(
    table: HoodieTable,
    inflight: Instant,
    plan: CleaningPlan,
    done: CleaningDone,
    timeline: ActiveTimeline,
    metadata_table: MetadataTableConfig,
    guard: Guard,
) -> None:
    body = encode_container("HoodieCleanMetadata", clean_metadata(plan, done))
    try:
        completed = table.instants.completed_now(inflight, timeline)
        deleted = [file.path for file in done.files]
        emptied = done.partitions_deleted
        record_clean(table, completed, deleted, emptied, timeline, metadata_table, guard)
        table.timelines.complete(inflight, body, at=completed.completion_time)
    except ConflictError:
        # Another process executed the same plan; what counts is that it is completed.
        now = table.timeline().find(inflight.time)
        if now is None or now.is_pending:
            raise


def _partitions(table: HoodieTable, retention: Retention) -> tuple[str, ...] | None:
    """The partitions to look at; None means all."""
    if retention.written is None:
        return None
    is_cow = table.config.table_type is TableType.COPY_ON_WRITE
    found: set[str] = set()
    for instant in retention.written:
        try:
            found.update(_touched(table.commits.read(instant), is_cow))
        except ObjectNotFoundError:
            # Archived in between: where it wrote is no longer known.
            return None
    return tuple(sorted(found))


def _touched(metadata: CommitMetadata, is_cow: bool) -> Iterator[str]:
    """Partitions of a commit in which something older may have become superfluous."""
    yield from metadata.partition_to_replace_file_ids or ()
    only_updated = is_cow and metadata.operation_type in _UPDATING
    for partition, stats in metadata.partition_to_write_stats.items():
        if not only_updated or any(
            stat.prev_commit not in (None, NO_PREVIOUS_COMMIT) for stat in stats
        ):
            yield partition


def _facts(
    table: HoodieTable, timeline: ActiveTimeline, retention: Retention, *, has_work: bool
) -> TableFacts:
    is_partitioned = bool(table.config.partition_fields)
    if not has_work:
        return TableFacts(timeline, is_partitioned, table.layout.slices)
    since = retention.since
    recent = timeline if since is None else timeline.at_or_after(since)
    return TableFacts(
        timeline=timeline,
        is_partitioned=is_partitioned,
        slices=table.layout.slices,
        archived=table.commits.archived_completion,
        replaced=table.commits.replaced_groups(recent),
        compacting=table.commits.planned_groups(timeline, Action.COMPACTION),
        needed=_needed(table, timeline),
        savepointed=savepointed_files(table, timeline),
    )


def _standing(table: HoodieTable, timeline: ActiveTimeline) -> TableFacts:
    """What the table needs now, regardless of what was planned."""
    return TableFacts(
        timeline=timeline,
        is_partitioned=bool(table.config.partition_fields),
        slices=table.layout.slices,
        archived=table.commits.archived_completion,
        replaced=table.commits.replaced_groups(timeline),
        compacting=table.commits.planned_groups(timeline, Action.COMPACTION),
        needed=_needed(table, timeline),
        savepointed=savepointed_files(table, timeline),
    )


def _archived_replaced(table: HoodieTable) -> frozenset[FileGroupId]:
    """The file groups that archived replacecommits replaced. Reads the whole archive."""
    return frozenset(
        FileGroupId(partition, file_id)
        for entry in table.commits.archive().commits()
        if entry.instant.action is Action.REPLACECOMMIT
        for partition, ids in (entry.commit_metadata().partition_to_replace_file_ids or {}).items()
        for file_id in ids
    )


def _needed(table: HoodieTable, timeline: ActiveTimeline) -> dict[FileGroupId, InstantTime | None]:
    """By file group the base instant of the oldest slice that a pending plan reads."""
    needed: dict[FileGroupId, InstantTime | None] = {}
    for instant in timeline.of(*_REARRANGING).pending():
        path = table.timelines.path(instant.in_state(State.REQUESTED))
        try:
            body = table.store.get(path)
        except ObjectNotFoundError:
            continue
        for group, since in planned_slices(body, instant.action, path=path).items():
            known = needed.get(group, since)
            needed[group] = None if since is None or known is None else min(since, known)
    return needed


def _listings(table: HoodieTable, partitions: tuple[str, ...] | None) -> Iterator[PartitionListing]:
    """One listing at a time: of all partitions in one sweep, of some with one request each."""
    if partitions is None:
        yield from table.files.listing().items()
        return
    for partition in partitions:
        yield partition, _list_partition(table, partition)


def _list_partition(table: HoodieTable, partition: str) -> tuple[tuple[str, int], ...]:
    return table.files.listing((partition,))[partition]
