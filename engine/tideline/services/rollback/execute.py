"""Rolling back a failed write, so that a crash at any step leaves something a re-run finishes.

1. `R.rollback.requested` with the plan. Died before: nothing happened. Died after: the plan is
   resumed by whoever comes next.
2. `R.rollback.inflight`.
3. The instant's completed object, should there be one, is deleted first (a rollback of Hudi's that
   we resume): from then on no reader counts on its files.
4. The planned files are deleted; deleting a missing file is fine, so this repeats safely.
5. The failed instant's inflight, then its requested object are deleted. Died between: the plan
   still names the instant, and the re-run deletes what is left.
6. `R.rollback` completes with what was deleted.
7. Files marked since the plan was made (a task may outlive its driver), the failed write's marker
   folder and its heartbeat go. Died before: the next sweep removes them (`sweep`).

Everything runs under the table lock, so nobody starts from a half rolled back timeline.
Source: Hudi's BaseRollbackActionExecutor.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tideline.errors import CorruptTable, ObjectNotFound, UnsupportedTable
from tideline.formats.avro import decode_container, encode_container
from tideline.services.rollback.plan import (
    RollbackPlan,
    failed_instants,
    marked_path,
    plan_rollback,
)
from tideline.storage.heartbeat import delete_heartbeat, is_heartbeat_dead
from tideline.storage.local import remove_unfinished
from tideline.table.hoodie_table import HoodieTable
from tideline.table.markers import delete_markers, list_markers
from tideline.timeline.active import ActiveTimeline
from tideline.timeline.instant import Action, Instant, State
from tideline.timeline.instant_time import InstantTime, next_instant_time

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RolledBack:
    """One instant that was undone, and the files that went with it (table-relative)."""

    instant: InstantTime
    action: Action
    deleted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FailedWrites:
    """Whose pending writes may be rolled back (`hoodie.clean.failed.writes.policy`).

    Lazy: only those whose heartbeat is dead. Eager, for a declared single writer: all of them.
    Never: none, somebody else does it.
    """

    eager: bool
    never: bool
    heartbeat_interval_s: float
    tolerable_misses: int

    def is_dead(self, table: HoodieTable, time: InstantTime) -> bool:
        """Whether the writer of an instant is gone, by its heartbeat."""
        return is_heartbeat_dead(
            table.store,
            str(time),
            table.clock,
            interval_s=self.heartbeat_interval_s,
            tolerable_misses=self.tolerable_misses,
        )


def find_failed_writes(
    table: HoodieTable, timeline: ActiveTimeline, policy: FailedWrites
) -> tuple[Instant, ...]:
    """The pending writes whose writers are gone, newest first. Reads heartbeats only."""
    if policy.never:
        return ()
    pending = tuple(instant for instant in timeline.pending() if not _is_service(table, instant))
    dead = {
        instant.time: policy.eager or policy.is_dead(table, instant.time) for instant in pending
    }
    return failed_instants(pending, dead)


def execute_failed_writes_rollback(
    table: HoodieTable, timeline: ActiveTimeline, policy: FailedWrites
) -> tuple[RolledBack, ...]:
    """Resume unfinished rollbacks, then roll back every failed write. Call under the lock."""
    resumed = (_resume(table, instant) for instant in timeline.pending().of(Action.ROLLBACK))
    done = [rolled for rolled in resumed if rolled is not None]
    finished = {rolled.instant for rolled in done}
    for instant in find_failed_writes(table, timeline, policy):
        if instant.time not in finished:
            rolled = execute_rollback(table, instant)
            if rolled is not None:
                done.append(rolled)
    return tuple(done)


def execute_rollback(
    table: HoodieTable, instant: Instant, *, lists_files: bool = False
) -> RolledBack | None:
    """Undo one pending instant, whoever wrote it. Call under the lock.

    None when it is not pending any more: whoever was paused until its lease ran out must not undo
    what others completed meanwhile. `lists_files` looks for its files in the whole table as well:
    somebody else may have removed markers. Raises as `plan_rollback`.
    """
    plan = plan_instant_rollback(table, instant, lists_files=lists_files)
    timelines = table.timelines
    timeline = table.timeline()
    now = timeline.find(instant.time)
    if now is None or now.is_completed:
        return None
    time = next_instant_time(table.clock.now_ms(), timeline.newest_time())
    body = encode_container("HoodieRollbackPlan", plan.to_avro(_base_uri(table)))
    requested = timelines.create_requested(time, Action.ROLLBACK, body)
    return _perform(table, requested, plan)


def plan_instant_rollback(
    table: HoodieTable, instant: Instant, *, lists_files: bool = False
) -> RollbackPlan:
    """The plan for one pending instant, from its markers or, without any, from a listing."""
    markers = list_markers(table.store, str(instant.time))
    lists_files = lists_files or (not markers and instant.state is State.INFLIGHT)
    if lists_files and instant.action is Action.DELTACOMMIT:
        raise UnsupportedTable(
            "rolling back a deltacommit without markers is not supported yet",
            table=table.location.uri,
            instant=instant.time,
        )
    base_files = table.list_base_files() if lists_files else ()
    return plan_rollback(instant, markers=markers, base_files=base_files)


def remove_files_of(table: HoodieTable, time: InstantTime) -> tuple[str, ...]:
    """Delete what a writer wrote after its instant had been rolled back; returns the paths.

    Lists the whole table. For an instant that is not in the timeline, called by its own writer.
    """
    marked = {marked_path(marker, time) for marker in list_markers(table.store, str(time))}
    listed = {file.path for file in table.list_base_files() if file.instant == time}
    paths = tuple(sorted(marked | listed))
    table.store.delete_many(paths)
    delete_markers(table.store, str(time))
    return paths


def _resume(table: HoodieTable, rollback: Instant) -> RolledBack | None:
    """Finish a rollback that somebody began; None when that is not for us to do.

    A plan that cannot be read was never acted upon if it is only requested, so it is withdrawn;
    the failed write gets a new one. The rollback of a table service belongs to whoever runs that
    service again. Source: Hudi's getPendingRollbackInfos.
    """
    path = table.timelines.path(rollback.in_state(State.REQUESTED))
    try:
        plan = RollbackPlan.from_avro(decode_container(table.store.get(path), path=path), path=path)
    except (CorruptTable, ObjectNotFound) as error:
        _log.warning("Cannot read the plan of a pending rollback, making a new one: %s", error)
        if rollback.state is State.REQUESTED:
            table.timelines.remove(rollback)
        return None
    if _is_service(table, Instant(plan.instant, plan.action, State.REQUESTED)):
        return None
    return _perform(table, rollback, plan)


def _perform(table: HoodieTable, rollback: Instant, plan: RollbackPlan) -> RolledBack:
    started_ms = table.clock.now_ms()
    timelines = table.timelines
    inflight = rollback
    if rollback.state is State.REQUESTED:
        inflight = timelines.to_inflight(rollback)
    failed = Instant(plan.instant, plan.action, State.REQUESTED)
    timelines.remove(failed.in_state(State.COMPLETED))
    table.store.delete_many(path for paths in plan.paths.values() for path in paths)
    for state in (State.INFLIGHT, State.REQUESTED):
        timelines.remove(failed.in_state(state))
    timelines.complete(inflight, _metadata(table, plan, started_ms))
    deleted = {path for paths in plan.paths.values() for path in paths}
    late = {marked_path(item, plan.instant) for item in list_markers(table.store, plan.instant)}
    table.store.delete_many(sorted(late - deleted))
    for partition in plan.paths:
        remove_unfinished(table.store, partition)
    delete_markers(table.store, plan.instant)
    delete_heartbeat(table.store, str(plan.instant))
    return RolledBack(plan.instant, plan.action, tuple(sorted(deleted | late)))


def _metadata(table: HoodieTable, plan: RollbackPlan, started_ms: int) -> bytes:
    base_uri = _base_uri(table)
    record = {
        "startRollbackTime": str(InstantTime.from_epoch_ms(started_ms)),
        "timeTakenInMillis": table.clock.now_ms() - started_ms,
        "totalFilesDeleted": sum(len(paths) for paths in plan.paths.values()),
        "commitsRollback": [str(plan.instant)],
        "partitionMetadata": {
            partition: {
                "partitionPath": partition,
                "successDeleteFiles": [f"{base_uri}/{path}" for path in paths],
                "failedDeleteFiles": [],
                "rollbackLogFiles": {},
                "logFilesFromFailedCommit": {},
            }
            for partition, paths in plan.paths.items()
        },
        "version": 1,
        "instantsRollback": [{"commitTime": str(plan.instant), "action": plan.action.value}],
    }
    return encode_container("HoodieRollbackMetadata", record)


def _base_uri(table: HoodieTable) -> str:
    """The table's address as Hudi spells it in plans; in-memory tables have no such address."""
    in_memory = table.location.scheme == "memory"
    return table.location.uri if in_memory else table.location.spark_uri()


def _is_service(table: HoodieTable, instant: Instant) -> bool:
    """A pending replacecommit is a service when its requested plan is a clustering plan."""
    if instant.action is not Action.REPLACECOMMIT:
        return instant.action not in (Action.COMMIT, Action.DELTACOMMIT)
    path = table.timelines.path(instant.in_state(State.REQUESTED))
    try:
        body = table.store.get(path)
    except ObjectNotFound:
        return False
    return bool(body) and decode_container(body, path=path).get("clusteringPlan") is not None


def execute_attempt_rollback(table: HoodieTable, instant: Instant) -> RolledBack | None:
    """Undo an inflight attempt at a compaction or a clustering; its plan stays requested."""
    now = table.timeline().find(instant.time)
    if now is None or now.state is not State.INFLIGHT:
        return None
    markers = list_markers(table.store, str(instant.time))
    paths = tuple(sorted({marked_path(marker, instant.time) for marker in markers}))
    table.store.delete_many(paths)
    table.timelines.remove(now)
    delete_markers(table.store, str(instant.time))
    delete_heartbeat(table.store, str(instant.time))
    return RolledBack(instant.time, instant.action, paths)
