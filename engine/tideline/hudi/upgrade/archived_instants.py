"""The archive in another layout: log files of entries become files of an LSM history, and back.

One file at a time is read and written, oldest first, so that a long past needs little memory. A
history keeps of each instant what completed it and its plan; an archive of layout 1 an entry for
each state. What is in two files of the old archive is in the new one twice as well: readers count
it once.
Source: Hudi's SevenToEightUpgradeHandler.upgradeToLSMTimeline, EightToSevenDowngradeHandler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tideline.errors import CorruptTableError
from tideline.formats.avro import encode_container
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.entry import archive_entry
from tideline.hudi.services.archival.log_archive import append_to_archive
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.layout.table_layout import TableLayout
from tideline.hudi.timeline.archived import ArchivedEntry, ArchivedTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.layout import TimelineLayout
from tideline.hudi.timeline.lsm_history import LsmHistory
from tideline.hudi.timeline.lsm_writer import append_to_history
from tideline.hudi.upgrade.active_instants import converted_body
from tideline.hudi.upgrade.completion_times import Named, completion_times
from tideline.storage.lock import Guard, unguarded

_BODIES = {
    Action.CLEAN: ("hoodieCleanMetadata", "HoodieCleanMetadata"),
    Action.ROLLBACK: ("hoodieRollbackMetadata", "HoodieRollbackMetadata"),
}
"""Fields of an entry with what completed an instant, and their schemas."""
_PLANS = {
    Action.CLEAN: ("hoodieCleanerPlan", "HoodieCleanerPlan"),
    Action.COMPACTION: ("hoodieCompactionPlan", "HoodieCompactionPlan"),
    Action.LOGCOMPACTION: ("hoodieCompactionPlan", "HoodieCompactionPlan"),
    Action.REPLACECOMMIT: ("hoodieRequestedReplaceMetadata", "HoodieRequestedReplaceMetadata"),
}
_PLAN_OF = {Action.COMMIT: Action.COMPACTION, Action.DELTACOMMIT: Action.LOGCOMPACTION}
"""The action of the plan behind a completed instant, where it has another name."""


def convert_archive(table: HoodieTable, layout: TableLayout, guard: Guard = unguarded) -> int:
    """Write the table's archive once more, behind what that of `layout` holds; how many instants.

    Call under the table lock. Hudi leaves the former archive when it changes a version: what is
    there is history as well, and counted once. Raises CorruptTableError for a file that cannot be
    read as a whole.
    """
    old = table.commits.archive()
    new = layout.archive.opens(table.store, layout.archive.folder)
    count = 0
    for file in reversed(old.files()):
        content = old.read_with_plans(file) if isinstance(old, LsmHistory) else old.read(file)
        guard()
        if content.damaged:
            raise CorruptTableError(
                "the archive has a damaged block, and what it held would be lost; "
                "see tideline check",
                table=table.uri,
                path=file.path,
            )
        if isinstance(new, LsmHistory):
            count += _to_history(table, content.entries, new, layout.timeline)
        else:
            count += _to_log(table, content.entries, new, layout.timeline)
    return count


def _to_history(
    table: HoodieTable,
    entries: Iterable[ArchivedEntry],
    history: LsmHistory,
    layout: TimelineLayout,
) -> int:
    states: dict[Named, dict[State, ArchivedEntry]] = {}
    for entry in entries:
        name = entry.instant.time, entry.instant.action.when_completed
        states.setdefault(name, {})[entry.instant.state] = entry
    done = {name: found for name, found in states.items() if State.COMPLETED in found}
    completed = completion_times(done, table.instants.zone)
    rows = [
        {
            "instantTime": str(time),
            "completionTime": str(completed[time, action]),
            "action": action.value,
            "metadata": _completed_body(found[State.COMPLETED], layout),
            "plan": _plan(found),
        }
        for (time, action), found in sorted(done.items(), key=_by_name)
    ]
    if rows:
        append_to_history(history, rows)
    return len(rows)


def _by_name(item: tuple[Named, object]) -> Named:
    return item[0]


def _completed_body(entry: ArchivedEntry, layout: TimelineLayout) -> bytes | None:
    if entry.instant.action in COMMIT_ACTIONS:
        metadata = entry.commit_metadata()
        return layout.encode_commit(metadata)
    return _encoded(entry, _BODIES.get(entry.instant.action))


def _plan(found: Mapping[State, ArchivedEntry]) -> bytes | None:
    """The newest plan among the pending states."""
    for state in (State.INFLIGHT, State.REQUESTED):
        entry = found.get(state)
        body = _encoded(entry, _PLANS.get(entry.instant.action)) if entry else None
        if body:
            return body
    return None


def _encoded(entry: ArchivedEntry, kind: tuple[str, str] | None) -> bytes | None:
    record = entry.record.get(kind[0]) if kind else None
    return encode_container(kind[1], record) if kind and record else None


def _to_log(
    table: HoodieTable,
    entries: Iterable[ArchivedEntry],
    archive: ArchivedTimeline,
    layout: TimelineLayout,
) -> int:
    old = table.timelines.layout
    written: list[dict[str, Any]] = []
    count = 0
    for entry in sorted(entries, key=lambda archived_entry: archived_entry.instant):
        instant = entry.instant
        row = entry.record
        path = f"the archive, {instant}"
        if row.get("plan"):
            action = _PLAN_OF.get(instant.action, instant.action)
            planned = Instant(instant.time, action, State.REQUESTED)
            written.append(archive_entry(planned, row["plan"], moved_at=instant.time, path=path))
        body = converted_body(row.get("metadata") or b"", instant, old, layout)
        moved_at = instant.completed_at or instant.time
        written.append(archive_entry(instant, body, moved_at=moved_at, path=path))
        count += 1
    append_to_archive(archive, written, ArchivalConfig().entries_per_block)
    return count
