"""Archival: what it writes and deletes, in an order that a death at any step does not spoil.

1. Finish what a dead run left: a merge of small archives, then instants that are in the archive and
   still in the active timeline, for which steps 4 and 5 are done again.
2. Plan; read the bodies of the oldest instants of the plan, a bounded number, all states of each.
3. Write them as one new archive file (`archive_writer`). Died before: nothing happened. Died after:
   the instants are in both timelines. Readers use the active one, step 1 takes it from there.
4. Delete leftover markers of these instants, then the objects of their pending states. Died in
   between: a completed instant without them is as good as one with them.
5. Delete the completed objects one by one, oldest first. Died in between: what is left of the
   active timeline has no holes, so no reader takes an archived commit for one that never was.
6. Again from 1 for further instants, which are planned again; at last merge small archives.

Each such portion runs under the table lock, which is free for a while between two of them, so that
writers need not wait for the whole: what a portion leaves is what a run that died after it leaves.
A portion that lost the lock stops before its next write, as a conflict (`lock_loss`).
Source: Hudi's TimelineArchiverV1, TimelineArchiverV2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tideline.hudi.services.archival.archive_writer import (
    ArchiveWriter,
    StoredState,
    WrittenArchive,
)
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.lock_loss import lock_guard, losses_are_conflicts
from tideline.hudi.services.archival.log_archive import LogArchiveWriter
from tideline.hudi.services.archival.lsm_archive import LsmArchiveWriter
from tideline.hudi.services.archival.merge import MergedArchives
from tideline.hudi.services.archival.plan import (
    ArchivalFacts,
    ArchivalPlan,
    plan_archival,
)
from tideline.hudi.services.stored_facts import StoredFacts
from tideline.hudi.table.file_group import FileGroupId, LogFile, replaced_groups
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.markers import delete_markers, marked_names
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.carried import read_carried
from tideline.hudi.timeline.instant import Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.lsm_history import HeldHistory, LsmHistory
from tideline.lock_timing import LockTiming
from tideline.plain_json import members
from tideline.services.benefit import Benefit
from tideline.services.explanation import NotDue
from tideline.services.report import ServiceReport
from tideline.storage.lock import Guard, unguarded
from tideline.wording import counted

PAUSE_S = 1.5
"""How long the lock is free between two portions; a process that waits for it looks at least every
second."""


@dataclass(frozen=True, slots=True)
class DeletedObjects:
    """Objects of the active timeline that were deleted, and their size."""

    count: int = 0
    size_bytes: int = 0

    def __add__(self, other: DeletedObjects) -> DeletedObjects:
        return DeletedObjects(self.count + other.count, self.size_bytes + other.size_bytes)


NO_OBJECTS = DeletedObjects()


@dataclass(frozen=True, slots=True)
class ArchivalDone:
    """What archival did. `resumed` are instants that an earlier run had archived already.

    `deleted` are the objects of the active timeline that are gone, `left` is how many instants were
    due and are left for the next portion.
    """

    archives: tuple[WrittenArchive, ...] = ()
    resumed: tuple[Instant, ...] = ()
    merged: MergedArchives | None = None
    not_due: NotDue | None = None
    deleted: DeletedObjects = NO_OBJECTS
    left: int = 0

    @property
    def instants(self) -> tuple[Instant, ...]:
        """The completed instants this run archived."""
        return tuple(instant for archive in self.archives for instant in archive.instants)

    @property
    def objects_deleted(self) -> int:
        """How many objects left the active timeline."""
        return self.deleted.count

    @property
    def benefit(self) -> Benefit:
        """The timeline is shorter to list; what the archive takes is kept instead."""
        archived_bytes = sum(file.size_bytes for file in self.archives)
        return Benefit(
            objects_listed=self.deleted.count,
            bytes_stored=self.deleted.size_bytes - archived_bytes,
        )

    def followed_by(self, portion: ArchivalDone) -> ArchivalDone:
        """This and the next portion of the same run."""
        return ArchivalDone(
            (*self.archives, *portion.archives),
            (*self.resumed, *portion.resumed),
            portion.merged,
            self.not_due,
            self.deleted + portion.deleted,
            portion.left,
        )

    def report(self) -> ServiceReport:
        """What was done, summed up."""
        archived = len(self.instants) + len(self.resumed)
        return ServiceReport(
            f"moved {counted(archived, 'instant')} to the archive",
            files_written=len(self.archives),
            bytes_written=sum(file.size_bytes for file in self.archives),
            files_deleted=self.objects_deleted,
            bytes_deleted=self.deleted.size_bytes,
            benefit=self.benefit,
        )

    def to_json_object(self) -> dict[str, Any]:
        """The audit: every archive file and what it took in."""
        return {
            "archived": [str(instant) for instant in self.instants],
            "archives": [
                {**members(archive, "path", "size_bytes"), "instants": len(archive.instants)}
                for archive in self.archives
            ],
            "resumed": [str(instant) for instant in self.resumed],
            **members(self, "merged", "objects_deleted", saved="benefit"),
            "not_due": None if self.not_due is None else self.not_due.reason,
        }


def plan_table_archival(
    table: HoodieTable,
    timeline: ActiveTimeline,
    config: ArchivalConfig,
    instants_max: int | None = None,
) -> ArchivalPlan | NotDue:
    """The plan for the table as it is now. Reads the last clean and lists partitions: those that a
    replacecommit replaced something in before it would be archived, and those of delta commits
    after a restore; but looks no further than the oldest `instants_max` of the plan, which then are
    those that may be archived.
    """
    facts = ArchivalFacts.of(StoredFacts(table, timeline), config)
    plan = plan_archival(timeline, config, facts)
    if isinstance(plan, NotDue):
        return plan
    chosen = plan.instants[:instants_max]
    replaced, logged = _not_cleaned(table, chosen), _with_logs(table, timeline, chosen)
    if not replaced and not logged:
        return plan
    return plan_archival(timeline, config, replace(facts, not_cleaned=replaced, with_logs=logged))


Planning = Callable[
    [HoodieTable, ActiveTimeline, ArchivalConfig, int | None], ArchivalPlan | NotDue
]
"""What may be archived of a timeline, `plan_table_archival` for a table of rows."""


def archive_table(
    table: HoodieTable, config: ArchivalConfig, *, lock_timing: LockTiming | None = None
) -> ArchivalDone:
    """Archive all that is due, one portion at a time; takes the lock itself.

    Raises as `execute_archival`, and ConflictError where the lock is not to be had; what the
    portions before have archived stays so.
    """
    done: ArchivalDone | None = None
    while done is None or done.left:
        if done is not None:
            table.clock.sleep(PAUSE_S)
        with table.lock(lock_timing).acquire() as lease:
            portion = execute_archival(
                table,
                config if done is None else config.resume(),
                guard=lock_guard(table, lease),
            )
        done = portion if done is None else done.followed_by(portion)
    return done


def execute_archival(
    table: HoodieTable,
    config: ArchivalConfig,
    plan_timeline: Planning = plan_table_archival,
    guard: Guard = unguarded,
) -> ArchivalDone:
    """Archive one portion of what is due, the oldest instants. Call under the table lock.

    Raises CorruptTableError for an instant whose body cannot be read: nothing of it is deleted.
    Raises ConflictError where the lock was lost, as `guard` says before each step that writes, and
    where another process takes the same instants away.
    """
    with losses_are_conflicts(table, guard):
        return _execute_portion(table, config, plan_timeline, guard)


def finish_archival(table: HoodieTable) -> tuple[tuple[Instant, ...], DeletedObjects]:
    """Finish what a dead run began, without archiving more. Call under the table lock.

    Gives the instants that were archived already and the objects deleted for them. Raises
    ConflictError where another process takes them away.
    """
    with losses_are_conflicts(table, unguarded):
        resumed, deleted, _ = _finish(table, _archive_writer(table))
    return resumed, deleted


def _execute_portion(
    table: HoodieTable, config: ArchivalConfig, plan_timeline: Planning, guard: Guard
) -> ArchivalDone:
    writer = _archive_writer(table)
    resumed, deleted, states = _finish(table, writer)
    plan = plan_timeline(table, _timeline(table, states), config, config.instants_per_portion)
    archives: tuple[WrittenArchive, ...] = ()
    left = 0
    if isinstance(plan, ArchivalPlan):
        chosen = plan.instants[: config.instants_per_portion]
        left = len(plan.instants) - len(chosen)
        archives = (writer.write(_states_of(chosen, states), config, guard),)
        guard()
        deleted = deleted + _remove(table, chosen, states)
    guard()
    merged = None if left else writer.merge(config)
    if archives or merged:
        # The next ingest finds an archived checkpoint without reading the archive.
        read_carried(table.commits.archive(), "", remembers=True)
    not_due = plan if isinstance(plan, NotDue) else None
    return ArchivalDone(archives, resumed, merged, not_due, deleted, left)


def _finish(
    table: HoodieTable, writer: ArchiveWriter
) -> tuple[tuple[Instant, ...], DeletedObjects, tuple[StoredState, ...]]:
    """The same, and the objects of the timeline after it."""
    writer.recover()
    states = _list_states(table)
    active = frozenset(state.instant for state in states if state.instant.is_completed)
    resumed = tuple(sorted(writer.still_active(active)))
    deleted = _remove(table, resumed, states)
    return resumed, deleted, _list_states(table) if resumed else states


def _archive_writer(table: HoodieTable) -> ArchiveWriter:
    archived = table.commits.archive()
    if isinstance(archived, LsmHistory):
        return LsmArchiveWriter(table, HeldHistory(archived.store, table.layout.archive.folder))
    return LogArchiveWriter(table)


def _not_cleaned(table: HoodieTable, instants: Iterable[Instant]) -> frozenset[InstantTime]:
    """Of the replacecommits among `instants`, those with files left of what they replaced."""
    replaced = {
        instant.time: replaced_groups(table.timelines.read_commit(instant))
        for instant in instants
        if instant.action is Action.REPLACECOMMIT
    }
    partitions = {group.partition for groups in replaced.values() for group in groups}
    if not partitions:
        return frozenset()
    present = {
        FileGroupId(partition, file.file_id)
        for partition, files in table.files.listing(partitions).items()
        for name, size_bytes in files
        if (file := parse_data_file(partition, name, size_bytes)) is not None
    }
    return frozenset(time for time, groups in replaced.items() if not present.isdisjoint(groups))


def _with_logs(
    table: HoodieTable, timeline: ActiveTimeline, instants: Iterable[Instant]
) -> frozenset[InstantTime]:
    """Of the delta commits among `instants` that follow a restore, those whose logs are there.

    Hudi's readers ask for the completion time of an archived commit only where it is older than
    every active instant, of restores as well, and put its logs on top of the newest base file
    otherwise. Layout 1 has no such times.
    """
    restore = timeline.of(Action.RESTORE).completed().first()
    if restore is None or not table.timelines.layout.has_completion_times:
        return frozenset()
    partitions: dict[InstantTime, frozenset[str]] = {
        instant.time: frozenset(table.timelines.read_commit(instant).partition_to_write_stats)
        for instant in instants
        if instant.action is Action.DELTACOMMIT and instant.time > restore.time
    }
    listed = table.files.listing(frozenset().union(*partitions.values())) if partitions else {}
    return frozenset(
        log.instant
        for partition, files in listed.items()
        for name, size_bytes in files
        if (log := LogFile.parse(partition, name, size_bytes)) is not None
        and log.instant in partitions
    )


def _list_states(table: HoodieTable) -> tuple[StoredState, ...]:
    layout = table.timelines.layout
    listing = table.store.list_directory(layout.directory)
    parsed = ((layout.parse(info.path.rpartition("/")[2]), info) for info in listing.objects)
    return tuple(StoredState(instant, info) for instant, info in parsed if instant is not None)


def _timeline(table: HoodieTable, states: Iterable[StoredState]) -> ActiveTimeline:
    """The timeline that plans are made from: properties and instants of one moment."""
    table.properties.reload()
    return ActiveTimeline(tuple(state.instant for state in states))


def _states_of(
    instants: Iterable[Instant], states: Iterable[StoredState]
) -> Mapping[Instant, tuple[StoredState, ...]]:
    """The objects of each of these completed instants, in the order of their states."""
    found: dict[Instant, list[StoredState]] = {instant: [] for instant in instants}
    by_key = {(instant.time, instant.action): instant for instant in found}
    for state in states:
        instant = by_key.get((state.instant.time, state.instant.action.when_completed))
        if instant is not None:
            found[instant].append(state)
    return {
        instant: tuple(sorted(objects, key=lambda state: state.instant.state))
        for instant, objects in found.items()
    }


def _remove(
    table: HoodieTable, instants: tuple[Instant, ...], states: Iterable[StoredState]
) -> DeletedObjects:
    """Take archived instants out of the active timeline; returns what that deleted."""
    if not instants:
        return NO_OBJECTS
    objects = _states_of(instants, states)
    marked = marked_names(table.store)
    for instant in instants:
        if str(instant.time) in marked:
            delete_markers(table.store, instant.time)
    pending = [
        state.info.path for item in instants for state in objects[item] if state.instant.is_pending
    ]
    table.files.delete_scope("archival", control=frozenset(pending)).remove_many(pending)
    for instant in sorted(instants):
        table.timelines.remove(instant)
    size_bytes = sum(state.info.size_bytes for found in objects.values() for state in found)
    return DeletedObjects(len(pending) + len(instants), size_bytes)
