"""Sweeping up after writers that died outside their instant's pending time.

A writer that dies right after completing leaves its markers and its heartbeat; one that dies before
its requested instant a heartbeat; one that was rolled back in its sleep and died after waking up
leaves files and their markers. None of that is in the timeline as pending, so no rollback finds it:

1. List the marker folders and the heartbeats, one level each.
2. Pending instants are left alone: their writers are alive, or rolled back as a whole.
3. Completed or archived: markers and heartbeat are deleted. What is older than the active timeline
   counts as archived unless the archive, read for once, lacks it.
4. Neither, and no living heartbeat: the marked files are undone first, markers and heartbeat next.
5. On a local folder the unfinished files of dead processes in `.hoodie` go as well.
6. What a change of the table's version left goes, or is undone.
7. Commits to the metadata table of instants that are not in the table are undone, and a change of
   properties that died is finished.

Died in between: the next sweep finds the rest. Call under the table lock.
"""

from __future__ import annotations

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.hudi.metadata_table.keep import sweep_metadata_table
from tideline.hudi.recovery.execute import FailedWrites, undo_marked_files
from tideline.hudi.recovery.stored_plan import was_committed
from tideline.hudi.recovery.version_change import finish_version_change
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.markers import MARKER_DIRECTORY, delete_markers, marked_names
from tideline.hudi.table.partition_metadata import METADATA_DIRECTORY
from tideline.hudi.table.properties import BACKUP_PATH, recover_table_properties
from tideline.hudi.table.table_config import KEPT_IN_METADATA_TABLE, METADATA_TABLE_PATH
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.storage.heartbeat import (
    HEARTBEAT_DIRECTORY,
    delete_heartbeat,
    list_heartbeats,
)
from tideline.storage.local.unfinished_files import remove_unfinished


def sweep_leftovers(
    table: HoodieTable, timeline: ActiveTimeline, policy: FailedWrites
) -> tuple[InstantTime, ...]:
    """Remove what dead writers left next to the timeline; returns the instants it belonged to."""
    finish_version_change(table)
    for place in control_folders(table):
        remove_unfinished(table.store, place)
    sweep_metadata_table(table, timeline)
    present = _control_entries(table)
    if BACKUP_PATH in present:
        recover_table_properties(table.store)
    evidence = marked_names(table.store) if MARKER_DIRECTORY in present else frozenset()
    if HEARTBEAT_DIRECTORY in present:
        evidence |= list_heartbeats(table.store)
    names = sorted(filter(is_instant_time, evidence))
    found = [InstantTime(name) for name in names if not _is_pending(timeline, InstantTime(name))]
    if not found:
        return ()
    # Another engine may have begun one of them since the timeline was read.
    timeline = table.timeline()
    return tuple(time for time in found if _sweep(table, timeline, policy, time))


def control_folders(table: HoodieTable) -> frozenset[str]:
    """The folders in which writers write things other than data."""
    own = {METADATA_DIRECTORY, table.timelines.layout.directory}
    if table.layout.keeps_metadata_table:
        below = {f"{METADATA_TABLE_PATH}/{folder}" for folder in (*own, *KEPT_IN_METADATA_TABLE)}
        return frozenset({*own, HEARTBEAT_DIRECTORY, *below})
    return frozenset({*own, HEARTBEAT_DIRECTORY})


def _control_entries(table: HoodieTable) -> frozenset[str]:
    """What is directly in the table's control folder, by path, in one request.

    Where the timeline lies there as well, a listing may be long: then two folders count as present.
    """
    store = table.store
    if table.timelines.layout.directory == METADATA_DIRECTORY:
        backup = (BACKUP_PATH,) if store.head(BACKUP_PATH) is not None else ()
        return frozenset((MARKER_DIRECTORY, HEARTBEAT_DIRECTORY, *backup))
    listing = store.list_directory(METADATA_DIRECTORY)
    return frozenset((*listing.directories, *(item.path for item in listing.objects)))


def _sweep(
    table: HoodieTable, timeline: ActiveTimeline, policy: FailedWrites, time: InstantTime
) -> bool:
    if _is_pending(timeline, time):
        return False
    if timeline.find(time) is None and not was_committed(table, timeline, time):
        if not policy.is_dead(table, time):
            return False
        try:
            undo_marked_files(table, time)
        except (CorruptTableError, UnsupportedTableError):
            # No reader counts on these files; a person may look at them.
            return False
    else:
        delete_markers(table.store, time)
    delete_heartbeat(table.store, str(time))
    return True


def _is_pending(timeline: ActiveTimeline, time: InstantTime) -> bool:
    instant = timeline.find(time)
    return instant is not None and instant.is_pending
