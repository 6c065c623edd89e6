"""Changing a table's version under its lock, visible at one moment.

The timeline is rewritten next to the old one, where no reader of the old version looks, and one
update of the properties makes it the table's:

1. Nothing is pending, and no logs are left that the other version would not understand.
2. A property says that the version changes, from which to which. Died after: nothing else changed.
3. Archive and active timeline are written in the other layout. Died in between: readers see the old
   version; the next writer deletes what was written, then the property (`finish_version_change`).
4. The metadata table is switched off: the property first, then its folder. Died after: as 3, and
   the table has none.
5. One update sets the version with all that belongs to it. Died before: as 4. Died after: readers
   see the new version; the next writer deletes the old timeline, then the property of 2.
6. The old timeline is deleted, then the property of 2; the metadata table is rebuilt.

Where the layout of the timeline stays, 2, 3 and 6 have nothing to do but the metadata table.

Hudi renames the instants in place and sets the version last: died in between, neither version
reads the table. Source: Hudi's UpgradeDowngrade.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from tideline.errors import ConflictError, CorruptTableError, UnsupportedTableError
from tideline.hudi.capabilities.guard import admit
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.commit.completion import require_lease
from tideline.hudi.metadata_indexes.remade_indexes import IndexesThere
from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.metadata_table.disable import disable_metadata_table
from tideline.hudi.metadata_table.index_definitions import adapt_definitions
from tideline.hudi.recovery.version_change import (
    VERSION_CHANGE,
    change_text,
    delete_instants,
    finish_version_change,
)
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.properties import update_table_properties
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action
from tideline.hudi.upgrade.active_instants import converted_instants, date_object
from tideline.hudi.upgrade.archived_instants import convert_archive
from tideline.hudi.upgrade.plan import VersionPlan, plan_version_change
from tideline.lock_timing import LockTiming
from tideline.plain_json import members
from tideline.storage.lock import Guard
from tideline.storage.object_store import AlreadyExists

_FORMER_DEFAULT = "default"
"""The partition of rows without a value, before version 5."""
_LAST_WITH_FORMER_DEFAULT = 4
_FINISHED_BY_OTHERS = (Action.RESTORE, Action.INDEXING)


@dataclass(frozen=True, slots=True)
class VersionChanged:
    """What was done. `plan` None: the table had the version. Counts are of instants and objects."""

    plan: VersionPlan | None
    version: int
    objects_written: int = 0
    archived_instants: int = 0
    compactions: int = 0
    is_done: bool = True

    def to_json_object(self) -> dict[str, Any]:
        """The report for machines."""
        plan = self.plan.to_json_object() if self.plan else {"steps": [], "properties": {}}
        counts = members(self, "objects_written", "archived_instants", "compactions")
        return {"version": self.version, **plan, "done": self.is_done, **counts}


def change_version(
    table: HoodieTable, version: int, lock_timing: LockTiming | None = None
) -> VersionChanged:
    """Bring a table without logs and without anything pending to another version.

    Raises ConflictError while something is pending or there are logs, ConfigError and
    UnsupportedTableError as `plan_version_change`, CorruptTableError for a timeline that cannot be
    read.
    """
    with table.lock(lock_timing).acquire() as lease:
        timeline = admit(table, Permission.UPGRADE)
        guard = partial(require_lease, lease, table, table.instants.next_time(timeline))
        if finish_version_change(table, guard):
            timeline = table.timeline()
        plan = plan_version_change(table.config, version)
        if plan is None:
            return VersionChanged(None, version)
        if not plan.before.is_written:
            return _raise_to_written(table, plan, guard)
        require_nothing_pending(table, timeline)
        require_possible(table, timeline, plan)
        _require_no_logs(table, timeline, plan)
        there = IndexesThere.of(table)
        done = _move(table, timeline, plan, guard)
        if plan.remakes_metadata_table:
            bootstrap_metadata_table(table, table.timeline(), guard)
            there.make_again(table, guard)
        return done


def require_nothing_pending(table: HoodieTable, timeline: ActiveTimeline) -> None:
    """Raise ConflictError naming what is pending."""
    pending = timeline.pending().first()
    if pending is None:
        return
    what = {
        Action.RESTORE: "finish the restore first",
        Action.INDEXING: "let Hudi finish or drop the index first",
    }.get(pending.action, "let it finish, or roll it back, first")
    raise ConflictError(
        f"the version is changed only while nothing is pending; {what}",
        table=table.uri,
        instant=pending,
    )


def _raise_to_written(table: HoodieTable, plan: VersionPlan, guard: Guard) -> VersionChanged:
    """Versions before 6 lie on disk as that does: what is pending is rolled back afterwards.

    Their metadata table goes after the update that unlists it. Died in between: its folder is left,
    which no property names, and goes with the next write.
    """
    if plan.before.table_version <= _LAST_WITH_FORMER_DEFAULT:
        _refuse_former_default(table)
    update_table_properties(
        table.store, plan.changes, clock=table.clock, guard=guard, raises_version=True
    )
    disable_metadata_table(table, guard)
    return VersionChanged(plan, plan.after.table_version)


def _move(
    table: HoodieTable, timeline: ActiveTimeline, plan: VersionPlan, guard: Guard
) -> VersionChanged:
    version = plan.after.table_version
    if not plan.moves_timeline:
        _switch(table, plan, guard)
        return VersionChanged(plan, version)
    before = table.config.properties
    after = {name: text for name, text in {**before, **plan.changes}.items() if text is not None}
    said = change_text(before, after, (plan.before.table_version, version))
    table.properties.update({VERSION_CHANGE: said}, guard)
    delete_instants(table, plan.after, guard)
    archived = convert_archive(table, plan.after, guard)
    written = 0
    for made in converted_instants(table, timeline, plan.after.timeline):
        guard()
        outcome = table.store.put_if_absent(made.path, made.body, token=uuid4().hex)
        if isinstance(outcome, AlreadyExists):
            raise CorruptTableError(
                "an object is in the way of the timeline in its other layout",
                table=table.uri,
                path=made.path,
            )
        if not plan.after.timeline.has_completion_times:
            date_object(table, made)
        written += 1
    _switch(table, plan, guard)
    finish_version_change(table, guard)
    return VersionChanged(plan, version, written, archived)


def _switch(table: HoodieTable, plan: VersionPlan, guard: Guard) -> None:
    """From here on the table has the other version."""
    disable_metadata_table(table, guard)
    guard()
    adapt_definitions(table, plan.after.table_version)
    table.properties.update(plan.changes, guard)
    table.properties.reload()


def require_possible(table: HoodieTable, timeline: ActiveTimeline, plan: VersionPlan) -> None:
    """Raise ConflictError for what stands in the way of a change and goes away by no service.

    A savepoint whose slices have logs: in the other version a restore to it would find rows of
    later commits in them, or take each log for a slice.
    """
    for action in _FINISHED_BY_OTHERS:
        require_nothing_pending(table, timeline.of(action))
    saved = sorted(timeline.savepointed_times()) if plan.moves_timeline and plan.compacts else []
    if not saved:
        return
    view = table.files.view_of(table.files.listing(), timeline)
    for time in saved:
        for partition in view.partitions:
            for file_slice in view.latest_slices(partition, time):
                if file_slice.log_files:
                    raise ConflictError(
                        "a savepoint keeps logs, which the other version would not understand; "
                        "delete it first, or restore it",
                        table=table.uri,
                        instant=time,
                        path=file_slice.log_files[0].path,
                    )


def first_log(table: HoodieTable, timeline: ActiveTimeline, plan: VersionPlan) -> str | None:
    """A log that stands in the way: of the newest slices, or, where the past is cleaned, of any."""
    view = table.files.view_of(table.files.listing(), timeline)
    for partition in view.partitions:
        whole = (
            file_slice for group in view.all_file_groups(partition) for file_slice in group.slices
        )
        slices = whole if plan.forgets else iter(view.latest_slices(partition))
        for file_slice in slices:
            if file_slice.log_files:
                return file_slice.log_files[0].path
    return None


def _require_no_logs(table: HoodieTable, timeline: ActiveTimeline, plan: VersionPlan) -> None:
    found = first_log(table, timeline, plan) if plan.compacts else None
    if found is not None:
        raise ConflictError(
            "a file group has logs that the other version would not understand: compact it, and "
            "clean older ones, first; if that was done, another writer came in between",
            table=table.uri,
            path=found,
        )


def _refuse_former_default(table: HoodieTable) -> None:
    """Rows without a value in the partition column would be in two partitions from then on."""
    columns = table.config.partition_fields
    if not columns:
        return
    first = f"{columns[0]}={_FORMER_DEFAULT}" if table.config.hive_style else _FORMER_DEFAULT
    if any(partition.partition("/")[0] == first for partition in table.files.partitions()):
        raise UnsupportedTableError(
            "rows without a value are in the partition `default`, which later versions call "
            "__HIVE_DEFAULT_PARTITION__: write them there with the Hudi that wrote the table first",
            table=table.uri,
            path=first,
        )
