"""Taking a table back to a savepoint, so that a crash at any step leaves a restore to be finished.

Everything happens under the table lock. While a restore is pending no writer may write.

1. `R.restore.requested` with the plan. Died before: nothing happened. Died after: the table is
   unchanged, but writes are refused until `restore_table` to the same savepoint finishes.
2. `R.restore.inflight`; a metadata table is disabled, so that no reader uses it any more. One that
   was kept up to date is made again after 4. Died in between: the table has none until a writer
   wants one.
3. Every instant of the plan that is still there is undone. Of a deltacommit the commit metadata is
   first copied into its inflight object: it says which log files got its blocks. Then the completed
   object goes: from then on readers pass over its files. Files named by the instant are deleted,
   log files that existed before it get a command block, and its other objects go last. Died
   between: the instant is still there in some state, and undone again with the same result.
4. Rollbacks younger than the savepoint are forgotten: what they undid is gone.
5. `R.restore` completes with what was done. An instant that appeared in between is undone first.

Source: Hudi's BaseRestoreActionExecutor, BaseHoodieTableServiceClient.restoreToSavepoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tideline.errors import ConfigError, CorruptTableError, ObjectNotFoundError
from tideline.formats.avro import encode_container
from tideline.hudi.capabilities.guard import admit
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.commit.completion import require_lease
from tideline.hudi.metadata_indexes.remade_indexes import IndexesThere
from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.metadata_table.disable import disable_metadata_table
from tideline.hudi.metadata_table.index_build import require_no_index_build
from tideline.hudi.recovery.execute import remove_pending_states
from tideline.hudi.recovery.plan import RollbackPlan, plan_rollback
from tideline.hudi.recovery.undo import UndoneFiles, undo_files
from tideline.hudi.services.restore.completion import read_completion_times
from tideline.hudi.services.restore.plan import InstantName, RestorePlan, plan_restore
from tideline.hudi.services.restore.stored_plan import read_restore_plan
from tideline.hudi.services.savepoint.record import read_savepoint, require_files
from tideline.hudi.table.file_group import BaseFile, FileGroupId, LogFile, join_path, split_path
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.markers import delete_markers, list_markers
from tideline.hudi.table.partition_metadata import is_table_metadata
from tideline.hudi.table.pending_plan import planned_groups
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.plain_json import members
from tideline.storage.heartbeat import delete_heartbeat
from tideline.storage.lock import Guard, unguarded


@dataclass(frozen=True, slots=True)
class UndoneInstant:
    """What undoing one instant took; `deleted` and `command_logs` are paths with their bytes."""

    name: InstantName
    deleted: Mapping[str, int]
    command_logs: Mapping[str, int] = field(default_factory=dict)

    def to_json_object(self) -> dict[str, Any]:
        """One instant of the audit."""
        return {
            "instant": str(self.name.time),
            "action": str(self.name.action),
            "deleted": [{"path": path, "bytes": size} for path, size in self.deleted.items()],
            "command_logs": [
                {"path": path, "bytes": size} for path, size in self.command_logs.items()
            ],
        }


@dataclass(frozen=True, slots=True)
class RestoreDone:
    """A finished restore; or, with no `instant`, what one would do.

    A resumed restore names what was left to undo.
    """

    savepoint: InstantTime
    undone: tuple[UndoneInstant, ...]
    instant: InstantTime | None = None
    elapsed_ms: int = 0

    @property
    def bytes_deleted(self) -> int:
        return sum(size for item in self.undone for size in item.deleted.values())

    def to_json_object(self) -> dict[str, Any]:
        """The audit: every instant and every file with its bytes."""
        return {
            "service": "restore",
            **members(self, "instant", "savepoint", "undone", "bytes_deleted", "elapsed_ms"),
        }


def restore_table(table: HoodieTable, savepoint: InstantTime) -> RestoreDone:
    """Take the table back to a savepoint, or finish a restore to it that died.

    Raises ConfigError when there is no such savepoint, a restore to another one is unfinished or
    the table's zone must be declared, CorruptTableError when files of the savepoint are missing or
    a plan cannot be read, ConflictError while Hudi builds an index.
    """
    with table.lock().acquire() as lease:
        guard = partial(require_lease, lease, table, savepoint)
        timeline = admit(table, Permission.RESTORE)
        require_no_index_build(table, timeline)
        pending = pending_restore(table, timeline)
        if pending is None:
            return execute_restore(table, schedule_restore(table, savepoint), guard)
        instant, plan = pending
        if plan is None:
            table.timelines.remove(instant)
            return execute_restore(table, schedule_restore(table, savepoint), guard)
        if plan.savepoint != savepoint:
            raise ConfigError(
                "a restore to another savepoint is unfinished; finish that one first",
                table=table.uri,
                instant=instant.time,
                value=plan.savepoint,
            )
        return execute_restore(table, instant, guard)


def preview_restore(table: HoodieTable, savepoint: InstantTime) -> RestoreDone:
    """What a restore would undo and delete now; changes nothing. Raises as `restore_table`."""
    timeline = table.timeline()
    pending = pending_restore(table, timeline)
    plan = pending[1] if pending else None
    if plan is None or plan.savepoint != savepoint:
        plan = _plan_new_restore(table, timeline, savepoint)
    files = _Files.of(table)
    doomed = {name.time for name in plan.instants}
    undone = []
    for name in plan.instants:
        states = _states_of(timeline, name.time)
        if states:
            rollback = _plan_undoing(table, states[0], files, doomed)
            logs = {path: size for item in rollback.log_rollbacks
                    for path, size in item.log_files.items()}  # fmt: skip
            undone.append(UndoneInstant(name, files.sizes(rollback.deleted_paths), logs))
    return RestoreDone(savepoint, tuple(undone))


def plan_table_restore(
    table: HoodieTable, timeline: ActiveTimeline, savepoint: InstantTime
) -> RestorePlan:
    """The instants to undo. Raises ConfigError when there is no such savepoint."""
    kept = next((i for i in timeline.of(Action.SAVEPOINT) if i.time == savepoint), None)
    if kept is None or kept.is_pending:
        known = ", ".join(map(str, sorted(timeline.savepointed_times()))) or "none"
        raise ConfigError(
            f"there is no savepoint of this instant (there are: {known})",
            table=table.uri,
            instant=savepoint,
        )
    if table.config.properties.get("hoodie.archive.beyond.savepoint", "").lower() == "true":
        raise ConfigError(
            "instants after a savepoint may have been archived (hoodie.archive.beyond.savepoint), "
            "so that the table cannot be taken back to it",
            table=table.uri,
            instant=savepoint,
        )
    commit = timeline.of(*COMMIT_ACTIONS).completed().find(savepoint)
    if commit is None:
        raise CorruptTableError(
            "the savepointed commit is not in the active timeline",
            table=table.uri,
            instant=savepoint,
        )
    plan = plan_restore(
        timeline,
        commit,
        table_type=table.config.table_type,
        completed_ms=read_completion_times(table, timeline),
        clusterings=_pending_clusterings(table, timeline),
        zone=table.instants.zone,
    )
    return plan.sparing(_seen_by_savepoint(table, timeline, plan))


def _seen_by_savepoint(
    table: HoodieTable, timeline: ActiveTimeline, plan: RestorePlan
) -> set[InstantTime]:
    """Writes of the plan whose base files the savepoint names: it was made after they completed.

    Such a write, a clustering say, began before the savepointed commit and completed after it. A
    log proves nothing: the savepoint names those of writes that were still under way, too.
    """
    kept = read_savepoint(table, Instant(plan.savepoint, Action.SAVEPOINT, State.COMPLETED)).files
    named = {
        join_path(partition, name)
        for partition, names in kept.items()
        for name in names
        if isinstance(parse_data_file(partition, name, 0), BaseFile)
    }
    planned, seen = plan.times, set()
    for instant in timeline.writes().completed():
        if instant.time < plan.savepoint and instant.time in planned:
            with suppress(CorruptTableError):
                stats = table.timelines.read_commit(instant).write_stats
                if any(stat.path in named for stat in stats):
                    seen.add(instant.time)
    return seen


def _plan_new_restore(
    table: HoodieTable, timeline: ActiveTimeline, savepoint: InstantTime
) -> RestorePlan:
    """The plan of a restore that was not begun yet, which must spare all other savepoints.

    Raises ConfigError when a commit would be undone that another savepoint keeps.
    """
    plan = plan_table_restore(table, timeline, savepoint)
    kept = timeline.savepointed_times() & plan.times
    if kept:
        raise ConfigError(
            "a newer savepoint keeps a commit that this restore would undo; delete it first",
            table=table.uri,
            instant=savepoint,
            value=", ".join(map(str, sorted(kept))),
        )
    return plan


def schedule_restore(table: HoodieTable, savepoint: InstantTime) -> Instant:
    """Write the requested instant of a restore. Call under the lock. Raises as `restore_table`."""
    timeline = table.timeline()
    plan = _plan_new_restore(table, timeline, savepoint)
    require_files(table, savepoint)
    time = table.instants.reserve_time(timeline)
    body = encode_container("HoodieRestorePlan", plan.to_avro())
    return table.timelines.create_requested(time, Action.RESTORE, body)


def execute_restore(table: HoodieTable, restore: Instant, guard: Guard = unguarded) -> RestoreDone:
    """Do what a pending restore says, whichever process began it. Call under the lock; `guard`
    raises when it was lost."""
    started_ms = table.clock.now_ms()
    plan = read_restore_plan(table, restore)
    if restore.state is State.REQUESTED:
        restore = table.timelines.to_inflight(restore)
    is_kept = table.properties.reload().keeps_metadata_table
    there = IndexesThere.of(table)
    disable_metadata_table(table, guard)
    undoing = _Undoing(table, restore.time, started_ms)
    undoing.undo(plan.instants)
    _forget_rollbacks(table, plan.savepoint)
    # Engines that do not take our lock may have begun something between plan and now.
    undoing.undo(plan_table_restore(table, table.timeline(), plan.savepoint).instants)
    if is_kept:
        bootstrap_metadata_table(table, table.timeline(), guard)
        there.make_again(table, guard)
    elapsed_ms = max(table.clock.now_ms() - started_ms, 0)
    record = {
        "startRestoreTime": str(restore.time),
        "timeTakenInMillis": elapsed_ms,
        "instantsToRollback": [str(name.time) for name in plan.instants],
        "hoodieRestoreMetadata": undoing.records,
        "version": 1,
        "restoreInstantInfo": [name.to_avro() for name in plan.instants],
    }
    table.instants.complete(restore, encode_container("HoodieRestoreMetadata", record))
    return RestoreDone(plan.savepoint, tuple(undoing.undone), restore.time, elapsed_ms)


def pending_restore(
    table: HoodieTable, timeline: ActiveTimeline
) -> tuple[Instant, RestorePlan | None] | None:
    """The unfinished restore with its plan; None where there is none.

    Without a plan: it cannot be read, and nothing was done for it, so it may be withdrawn. Raises
    CorruptTableError when it was begun and cannot be read any more.
    """
    instant = timeline.of(Action.RESTORE).pending().first()
    if instant is None:
        return None
    try:
        return instant, read_restore_plan(table, instant)
    except CorruptTableError:
        if instant.state is not State.REQUESTED:
            raise
        return instant, None


@dataclass(frozen=True, slots=True)
class _Files:
    """One listing of all data files, by the instant in their names and by file group."""

    by_instant: Mapping[InstantTime, list[BaseFile | LogFile]]
    logs: Mapping[FileGroupId, list[LogFile]]
    size_bytes: Mapping[str, int]

    @classmethod
    def of(cls, table: HoodieTable) -> _Files:
        by_instant: dict[InstantTime, list[BaseFile | LogFile]] = {}
        logs: dict[FileGroupId, list[LogFile]] = {}
        sizes: dict[str, int] = {}
        for info in table.files.objects():
            if is_table_metadata(info.path):
                continue
            file = parse_data_file(*split_path(info.path), info.size_bytes)
            if file is not None:
                by_instant.setdefault(file.instant, []).append(file)
                sizes[info.path] = info.size_bytes
            if isinstance(file, LogFile):
                logs.setdefault(file.group, []).append(file)
        return cls(by_instant, logs, sizes)

    def concerning(
        self, time: InstantTime, groups: Iterable[FileGroupId]
    ) -> tuple[BaseFile | LogFile, ...]:
        """The files named by an instant, and the log files of some groups."""
        named = self.by_instant.get(time, [])
        others = [log for group in groups for log in self.logs.get(group, ())]
        return tuple(dict.fromkeys((*named, *others)))

    def sizes(self, paths: Iterable[str]) -> dict[str, int]:
        return {path: self.size_bytes.get(path, 0) for path in paths}


class _Undoing:
    """Undoes instants one by one in the name of a restore, and keeps account."""

    def __init__(self, table: HoodieTable, restore: InstantTime, started_ms: int) -> None:
        self._table = table
        self._restore = restore
        self._started_ms = started_ms
        self.undone: list[UndoneInstant] = []
        self.records: dict[str, list[dict[str, Any]]] = {}

    def undo(self, names: tuple[InstantName, ...]) -> None:
        """Undo those of the instants that are still there, in this order."""
        timeline = self._table.timeline()
        present = [(name, _states_of(timeline, name.time)) for name in names]
        if not any(states for _, states in present):
            return
        files = _Files.of(self._table)
        doomed = {name.time for name in names}
        for name, states in present:
            for state in states:
                self._undo_one(name, state, files, doomed)

    def _undo_one(
        self, name: InstantName, instant: Instant, files: _Files, doomed: set[InstantTime]
    ) -> None:
        table = self._table
        begun_ms = table.clock.now_ms()
        if instant.is_completed:
            instant = _to_pending(table, instant)
        plan = _plan_undoing(table, instant, files, doomed)
        undone = undo_files(table, plan, self._restore)
        remove_pending_states(table, instant)
        if instant.action is not name.action:
            remove_pending_states(table, Instant(name.time, name.action, State.REQUESTED))
        delete_markers(table.store, str(name.time))
        delete_heartbeat(table.store, str(name.time))
        self._record(name, undone, files, table.clock.now_ms() - begun_ms)

    def _record(
        self, name: InstantName, undone: UndoneFiles, files: _Files, elapsed_ms: int
    ) -> None:
        started = self._table.instants.zone.instant_at(self._started_ms)
        record = undone.to_avro(
            self._table.hadoop_uri, started=started, elapsed_ms=max(elapsed_ms, 0)
        )
        self.records.setdefault(str(name.time), []).append(record)
        deleted = files.sizes(undone.deleted)
        self.undone.append(UndoneInstant(name, deleted, dict(undone.command_logs)))


def _to_pending(table: HoodieTable, completed: Instant) -> Instant:
    """Take a completed instant out of sight; what it wrote stays known from its inflight object.

    That has the file groups it was going to write, which has to do when the commit is unreadable.
    """
    plan = Instant(completed.time, Action.LOGCOMPACTION, State.REQUESTED)
    is_log_compaction = table.store.head(table.timelines.path(plan)) is not None
    pending = completed.in_state(State.INFLIGHT)
    if completed.action is Action.DELTACOMMIT and not is_log_compaction:
        with suppress(CorruptTableError):
            body = table.timelines.read(completed)
            table.timelines.layout.decode_commit(body, completed)
            table.store.put(table.timelines.path(pending), body)
    if is_log_compaction:
        pending = plan.in_state(State.INFLIGHT)
    table.timelines.remove(completed)
    return pending


def _plan_undoing(
    table: HoodieTable, instant: Instant, files: _Files, doomed: set[InstantTime]
) -> RollbackPlan:
    """What undoing one instant takes.

    File slices that a doomed instant began need no command block: all their files are deleted.
    """
    markers = () if instant.is_completed else list_markers(table.store, str(instant.time))
    metadata = _metadata(table, instant)
    groups = {
        FileGroupId(partition, stat.file_id)
        for partition, stats in metadata.partition_to_write_stats.items()
        for stat in stats
        if stat.file_id
    }
    groups |= {slice_[0] for marker in markers if (slice_ := marker.appended_slice)}
    plan = plan_rollback(
        instant,
        markers=markers,
        files=files.concerning(instant.time, groups),
        by_listing=True,
        metadata=metadata,
        restores=True,
        form=table.layout.rollback,
    )
    return RollbackPlan(
        plan.instant,
        plan.action,
        plan.paths,
        tuple(item for item in plan.log_rollbacks if item.base_instant not in doomed),
    )


def _metadata(table: HoodieTable, instant: Instant) -> CommitMetadata:
    """What an instant says it wrote: a commit's metadata, or the profile of an inflight one."""
    if instant.action is Action.LOGCOMPACTION:
        path = table.timelines.path(instant.in_state(State.REQUESTED))
        groups = planned_groups(table.store.get(path), instant.action, path=path)
        stats: dict[str, tuple[WriteStat, ...]] = {}
        for group in groups:
            found = stats.get(group.partition, ())
            stats[group.partition] = (*found, WriteStat(file_id=group.file_id))
        return CommitMetadata(stats)
    if instant.state is State.REQUESTED:
        return CommitMetadata()
    try:
        return table.timelines.read_commit(instant)
    except ObjectNotFoundError:
        return CommitMetadata()
    except CorruptTableError:
        if instant.is_pending:
            raise
        return _metadata(table, instant.in_state(State.INFLIGHT))


def _states_of(timeline: ActiveTimeline, time: InstantTime) -> tuple[Instant, ...]:
    """The writes of this time as they are now, a completed one first."""
    found = [instant for instant in timeline.writes() if instant.time == time]
    return tuple(sorted(found, key=lambda instant: instant.is_pending))


def _forget_rollbacks(table: HoodieTable, savepoint: InstantTime) -> None:
    """Remove the rollbacks after the savepoint, so that none looks pending in between."""
    for rollback in table.timeline().of(Action.ROLLBACK).after(savepoint):
        states = [State.REQUESTED, State.INFLIGHT, State.COMPLETED]
        if rollback.is_pending:
            states.reverse()
        for state in states:
            table.timelines.remove(rollback.in_state(state))


def _pending_clusterings(table: HoodieTable, timeline: ActiveTimeline) -> frozenset[InstantTime]:
    planned = table.commits.planned_groups(timeline, Action.REPLACECOMMIT, Action.CLUSTERING)
    return frozenset(planned.values())
