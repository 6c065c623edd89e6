"""Rolling back a failed write, so that a crash at any step leaves something a re-run finishes.

1. `R.rollback.requested` with the plan. Died before: nothing happened. Died after: the plan is
   resumed by the next process.
2. `R.rollback.inflight`.
3. A metadata table that holds the instant already lets it go, or is switched off. The instant's
   completed object, should there be one, is deleted first (a rollback of Hudi's that we resume):
   from then on no reader counts on its files.
4. The planned files are deleted and command blocks appended (`undo`), which repeats safely.
5. The failed instant's inflight, then its requested object are deleted. Died between: the plan
   still names the instant, and the re-run deletes what is left.
6. The metadata table gets the logs that stay. `R.rollback` completes with what was done.
7. What was marked since the plan was made (a task may outlive its driver) is undone as well; the
   failed write's marker folder and its heartbeat go. Died before: the next sweep does it (`sweep`).
8. What the markers named is deleted once more: a task that published its file after step 4 either
   did so before its marker went, or finds that it is gone (`write/marked_file`). Died before: that
   file stays, invisible.

A failed attempt at a compaction or a clustering goes back to requested: its plan stays to be run
again, so in step 5 nothing is deleted, and after step 6 the inflight object only. Died between: the
next attempt finds the instant inflight and rolls it back once more, with nothing left to delete.

Everything runs under the table lock, so no writer starts from a half rolled back timeline.
Source: Hudi's BaseRollbackActionExecutor, HoodieTable.rollbackInflightInstant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.formats.avro import decode_container, encode_container
from tideline.heartbeat_limits import HeartbeatLimits
from tideline.hudi.metadata_table.keep import record_rollback, undo_in_metadata_table
from tideline.hudi.recovery.plan import RollbackPlan, failed_instants, plan_rollback
from tideline.hudi.recovery.stored_plan import check_plan, read_plan
from tideline.hudi.recovery.undo import (
    UndoneFiles,
    deletion_scope,
    instants_in_log,
    undo_files,
)
from tideline.hudi.table.file_group import BaseFile, LogFile
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.layout.table_layout import RollbackForm
from tideline.hudi.table.markers import Marker, MarkerKind, delete_markers, list_markers
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.heartbeat import delete_heartbeat, heartbeat_writer, is_heartbeat_dead
from tideline.storage.local.unfinished_files import remove_unfinished


@dataclass(frozen=True, slots=True)
class RolledBack:
    """One instant that was undone, and the files that went with it (table-relative).

    `command_logs` are log files with a command block, by path, with their sizes in bytes: what was
    appended to logs stays there, and readers pass over it because of them.
    """

    instant: InstantTime
    action: Action
    deleted: tuple[str, ...]
    command_logs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FailedWrites:
    """Whose pending writes may be rolled back (`hoodie.clean.failed.writes.policy`).

    Lazy: only those whose heartbeat is dead. Eager, for a declared single writer: all of them.
    Never: none, another process does it. `gives_up_unreadable`: a clustering or log compaction
    whose plan cannot be read, so that it can never run, is treated as a failed write; otherwise
    every process that meets it fails with an error. `gone` are names of writers whose processes
    have ended for certain, executors included, so that the age of their heartbeats does not matter.
    """

    eager: bool
    never: bool
    heartbeat: HeartbeatLimits
    gives_up_unreadable: bool = False
    gone: frozenset[str] = frozenset()

    def is_dead(self, table: HoodieTable, time: InstantTime) -> bool:
        """Whether the writer of an instant is gone, by its heartbeat or because it is known."""
        if is_heartbeat_dead(table.store, str(time), table.clock, self.heartbeat):
            return True
        return bool(self.gone) and heartbeat_writer(table.store, str(time)) in self.gone


def find_failed_writes(
    table: HoodieTable, timeline: ActiveTimeline, policy: FailedWrites
) -> tuple[Instant, ...]:
    """The pending writes whose writers are gone, newest first. Reads heartbeats only."""
    if policy.never:
        return ()
    pending = tuple(
        instant
        for instant in timeline.pending()
        if not _is_service(table, instant, gives_up_unreadable=policy.gives_up_unreadable)
    )
    dead = {
        instant.time: policy.eager or policy.is_dead(table, instant.time) for instant in pending
    }
    return failed_instants(pending, dead)


def execute_failed_writes_rollback(
    table: HoodieTable, timeline: ActiveTimeline, policy: FailedWrites
) -> tuple[RolledBack, ...]:
    """Resume unfinished rollbacks, then roll back every failed write. Call under the lock."""
    resumed = (
        _resume(table, instant, policy) for instant in timeline.pending().of(Action.ROLLBACK)
    )
    done = [rolled for rolled in resumed if rolled is not None]
    finished = {rolled.instant for rolled in done}
    for instant in find_failed_writes(table, timeline, policy):
        if instant.time not in finished:
            rolled = execute_rollback(table, instant)
            if rolled is not None:
                done.append(rolled)
    return tuple(done)


def execute_rollback(
    table: HoodieTable, instant: Instant, *, lists_files: bool = False, is_alive: bool = False
) -> RolledBack | None:
    """Undo one pending instant for good, regardless of its writer. Call under the lock.

    Of a compaction or a clustering the plan goes too. None when the instant is no longer pending: a
    process that was paused until its lease expired must not undo what others have completed since.
    `lists_files` looks for its files in the whole table as well: another process may have removed
    markers. `is_alive`: its writer may still be writing, so its markers and heartbeat stay, for
    that writer to tidy up, or for the sweep once it is dead. Raises as `plan_rollback`.
    """
    return _roll_back(table, instant, lists_files=lists_files, keeps_plan=False, is_alive=is_alive)


def execute_attempt_rollback(table: HoodieTable, instant: Instant) -> RolledBack | None:
    """Undo an inflight attempt at a compaction or a clustering; its plan stays requested.

    None when the instant is not inflight. Call under the lock, before the plan is run again.
    Raises as `plan_rollback`.
    """
    now = table.timeline().find(instant.time)
    if now is None or now.state is not State.INFLIGHT:
        return None
    return _roll_back(table, now, lists_files=False, keeps_plan=True)


def plan_instant_rollback(
    table: HoodieTable, instant: Instant, *, lists_files: bool = False, restores: bool = False
) -> RollbackPlan:
    """The plan for one instant: from its markers, or without any, or completed, from a listing.

    `restores` plans to undo what was built on the instant as well; see `plan_rollback`.
    """
    markers = list_markers(table.store, str(instant.time))
    has_data = instant.state is not State.REQUESTED
    if lists_files or restores or instant.is_completed or (has_data and not markers):
        return plan_rollback(
            instant,
            markers=markers,
            files=_list_data_files(table),
            by_listing=True,
            metadata=_metadata_of(table, instant),
            restores=restores,
            form=table.layout.rollback,
        )
    return plan_rollback(
        instant,
        markers=markers,
        files=_marked_logs(table, markers),
        form=table.layout.rollback,
    )


def remove_files_of(table: HoodieTable, time: InstantTime) -> tuple[str, ...]:
    """Undo what a writer wrote after its instant had been rolled back; returns the deleted paths.

    Lists the whole table: others may have removed the markers with the instant. Where logs are
    named after their slice it looks into them; those in slices of others stay, behind a command
    block, for a reader may be about to read them. For an instant that is not in the timeline,
    called by its own writer.
    """
    instant = Instant(time, Action.DELTACOMMIT, State.INFLIGHT)
    files = _list_data_files(table)
    form = table.layout.rollback
    appended = _appended_logs(table, files, time) if form is RollbackForm.COMMAND_BLOCKS else ()
    markers = (*list_markers(table.store, str(time)), *appended)
    plan = plan_rollback(instant, markers=markers, files=files, by_listing=True, form=form)
    undo_files(table, plan, table.timeline().newest_time() or time)
    _remove_markers(table, plan)
    return plan.deleted_paths


def undo_marked_files(table: HoodieTable, time: InstantTime) -> None:
    """Undo what markers say that an instant wrote which is not in the timeline any more.

    The markers go, and what they named is deleted once more, as after a rollback. Raises as
    `list_markers` and `plan_rollback`, before anything is touched.
    """
    markers = list_markers(table.store, time)
    instant = Instant(time, Action.DELTACOMMIT, State.INFLIGHT)
    plan = plan_rollback(
        instant,
        markers=markers,
        files=_marked_logs(table, markers),
        form=table.layout.rollback,
    )
    undo_files(table, plan, table.timeline().newest_time() or time)
    _remove_markers(table, plan)


def _roll_back(
    table: HoodieTable,
    instant: Instant,
    *,
    lists_files: bool,
    keeps_plan: bool,
    is_alive: bool = False,
) -> RolledBack | None:
    timelines = table.timelines
    timeline = table.timeline()
    begun = _begun_rollback(table, timeline, instant.time)
    if begun is not None and not _is_completed(timeline, instant.time):
        check_plan(table, *begun)
        return _perform(table, *begun, keeps_plan=keeps_plan, is_alive=is_alive)
    plan = plan_instant_rollback(table, instant, lists_files=lists_files)
    timeline = table.timeline()
    if timeline.find(instant.time) is None or _is_completed(timeline, instant.time):
        return None
    time = table.instants.reserve_time(timeline)
    body = encode_container("HoodieRollbackPlan", plan.to_avro(table.hadoop_uri))
    requested = timelines.create_requested(time, Action.ROLLBACK, body)
    return _perform(table, requested, plan, keeps_plan=keeps_plan, is_alive=is_alive)


def _begun_rollback(
    table: HoodieTable, timeline: ActiveTimeline, time: InstantTime
) -> tuple[Instant, RollbackPlan] | None:
    """A pending rollback of the instant, to be resumed: a process that ran a service begins where
    it died."""
    for rollback in timeline.pending().of(Action.ROLLBACK):
        plan = read_plan(table, rollback)
        if plan is not None and plan.instant == time:
            return rollback, plan
    return None


def _resume(table: HoodieTable, rollback: Instant, policy: FailedWrites) -> RolledBack | None:
    """Finish a rollback that another process began; None when that is not for us to do.

    A plan that cannot be read was never acted upon if it is only requested, so it is withdrawn; the
    failed write gets a new one. The rollback of a table service belongs to the process that runs
    that service again, unless the service is gone already. Raises CorruptTableError for a plan
    that must not be followed.
    Source: Hudi's getPendingRollbackInfos.
    """
    plan = read_plan(table, rollback)
    if plan is None:
        if rollback.state is State.REQUESTED:
            table.timelines.remove(rollback)
        return None
    target = Instant(plan.instant, plan.action, State.REQUESTED)
    is_service = _is_service(table, target, gives_up_unreadable=policy.gives_up_unreadable)
    if is_service and table.timeline().find(plan.instant) is not None:
        return None
    check_plan(table, rollback, plan)
    return _perform(table, rollback, plan, keeps_plan=False)


def _perform(
    table: HoodieTable,
    rollback: Instant,
    plan: RollbackPlan,
    *,
    keeps_plan: bool,
    is_alive: bool = False,
) -> RolledBack:
    started_ms = table.clock.now_ms()
    timelines = table.timelines
    inflight = rollback
    if rollback.state is State.REQUESTED:
        inflight = timelines.to_inflight(rollback)
    failed = Instant(plan.instant, plan.action, State.REQUESTED)
    undo_in_metadata_table(table, plan.instant)
    if not keeps_plan:
        timelines.remove(failed.in_state(State.COMPLETED))
    undone = undo_files(table, plan, rollback.time)
    if not keeps_plan:
        remove_pending_states(table, failed)
    elapsed_ms = table.clock.now_ms() - started_ms
    started = table.instants.zone.instant_at(started_ms)
    record = undone.to_avro(table.hadoop_uri, started=started, elapsed_ms=elapsed_ms)
    completed = inflight.in_state(State.COMPLETED)
    record_rollback(table, completed, undone.logs_left)
    table.instants.complete(inflight, encode_container("HoodieRollbackMetadata", record))
    marked, late = _undo_late_files(table, undone, rollback.time)
    for partition in {*plan.paths, *(item.group.partition for item in plan.log_rollbacks)}:
        remove_unfinished(table.store, partition)
    if keeps_plan:
        timelines.remove(failed.in_state(State.INFLIGHT))
    if not is_alive:
        _remove_markers(table, marked)
        delete_heartbeat(table.store, str(plan.instant))
    deleted = tuple(sorted({*undone.deleted, *late.deleted}))
    logs = {**undone.command_logs, **late.command_logs}
    return RolledBack(plan.instant, plan.action, deleted, logs)


def remove_pending_states(table: HoodieTable, instant: Instant) -> None:
    """Delete an instant's inflight, then its requested object, under every name of its action.

    A completed compaction has another action than a pending one.
    """
    pending = {
        Action.COMMIT: Action.COMPACTION,
        Action.DELTACOMMIT: Action.LOGCOMPACTION,
        Action.REPLACECOMMIT: table.layout.timeline.clustering,
    }
    actions = dict.fromkeys((instant.action, pending.get(instant.action, instant.action)))
    for state in (State.INFLIGHT, State.REQUESTED):
        for action in actions:
            table.timelines.remove(Instant(instant.time, action, state))


def _undo_late_files(
    table: HoodieTable, undone: UndoneFiles, time: InstantTime
) -> tuple[RollbackPlan, UndoneFiles]:
    """Undo what was marked, and appended, after the plan was made.

    Returns the plan for all that is marked now, and what came of the part that is new.
    """
    plan = undone.plan
    failed = Instant(plan.instant, plan.action, State.INFLIGHT)
    markers = list_markers(table.store, plan.instant)
    logs = [log for log in _marked_logs(table, markers) if log.path not in undone.command_logs]
    now = plan_rollback(failed, markers=markers, files=logs, form=table.layout.rollback)
    known = {path for item in plan.log_rollbacks for path in item.log_files}
    late = replace(
        now,
        paths={part: _without(paths, undone.deleted) for part, paths in now.paths.items()},
        log_rollbacks=tuple(item for item in now.log_rollbacks if not set(item.log_files) <= known),
    )
    # The first command block may come before what a late task appended, so it gets one of its own.
    return now, undo_files(table, late, table.instants.next_time() if late.log_rollbacks else time)


def _remove_markers(table: HoodieTable, plan: RollbackPlan) -> None:
    """Remove the markers of what `plan` undid, and delete its files once more (step 8)."""
    delete_markers(table.store, plan.instant)
    deletion_scope(table, plan).remove_many(plan.deleted_paths)


def _without(paths: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for path in paths if path not in known)


def _appended_logs(
    table: HoodieTable, files: Iterable[BaseFile | LogFile], time: InstantTime
) -> Iterator[Marker]:
    """What markers would say of log files in slices of others that hold blocks of `time` alone."""
    older = (file for file in files if isinstance(file, LogFile) and file.instant < time)
    for file in older:
        if instants_in_log(table.store, file) == frozenset({str(time)}):
            yield Marker(file.partition, file.name, MarkerKind.APPEND)


def _list_data_files(table: HoodieTable) -> tuple[BaseFile | LogFile, ...]:
    return (*table.files.base_files(), *table.files.log_files())


def _marked_logs(table: HoodieTable, markers: tuple[Marker, ...]) -> tuple[LogFile, ...]:
    """The log files in the partitions that markers say were appended to."""
    partitions = {mark.partition for mark in markers if mark.kind is MarkerKind.APPEND}
    if not partitions:
        return ()
    parsed = (
        LogFile.parse(partition, name, size_bytes)
        for partition, files in table.files.listing(partitions).items()
        for name, size_bytes in files
    )
    return tuple(log for log in parsed if log is not None)


def _metadata_of(table: HoodieTable, instant: Instant) -> CommitMetadata | None:
    """What an instant says it wrote: a commit's metadata, or the profile of an inflight one."""
    if instant.state is State.REQUESTED:
        return None
    is_plan = instant.action is Action.LOGCOMPACTION
    path = table.timelines.path(instant.in_state(State.REQUESTED) if is_plan else instant)
    try:
        body = table.store.get(path)
    except ObjectNotFoundError:
        return None
    if is_plan:
        return _planned_appends(decode_container(body, path=path))
    return table.timelines.layout.decode_commit(body, instant) if body else None


def _planned_appends(plan: Mapping[str, Any]) -> CommitMetadata:
    """The slices of a log compaction's plan, as a workload profile names them."""
    stats: dict[str, tuple[WriteStat, ...]] = {}
    for item in plan.get("operations") or ():
        partition = item.get("partitionPath") or ""
        stat = WriteStat(file_id=item.get("fileId"), prev_commit=item.get("baseInstantTime"))
        stats[partition] = (*stats.get(partition, ()), stat)
    return CommitMetadata(stats)


def _is_completed(timeline: ActiveTimeline, time: InstantTime) -> bool:
    now = timeline.find(time)
    return now is not None and now.is_completed


def _is_service(table: HoodieTable, instant: Instant, *, gives_up_unreadable: bool = False) -> bool:
    """A pending replacecommit, or clustering, is a service when its plan is a clustering plan.

    An upgrade by Hudi makes clusterings of all pending replacecommits.

    Raises CorruptTableError when that cannot be determined. With `gives_up_unreadable` a clustering
    or a log compaction whose plan cannot be read is none; the plan of a compaction is never given
    up, since rows have been appended on top of it.
    """
    may_be_given_up = gives_up_unreadable and instant.action is Action.LOGCOMPACTION
    replaces = instant.action in (Action.REPLACECOMMIT, Action.CLUSTERING)
    if not replaces and not may_be_given_up:
        return instant.action not in (Action.COMMIT, Action.DELTACOMMIT)
    try:
        plan = table.timelines.read_record(instant.in_state(State.REQUESTED))
    except ObjectNotFoundError:
        return may_be_given_up
    except CorruptTableError:
        if gives_up_unreadable:
            return False
        raise
    return bool(plan) if may_be_given_up else plan.get("clusteringPlan") is not None
