"""What dead writers left: markers and heartbeats without a pending instant, unfinished files."""

from __future__ import annotations

from collections.abc import Iterator

from tideline.check_finding import Finding, Repair, RepairKind, warning
from tideline.hudi.check.inspection import Inspection
from tideline.hudi.recovery.sweep import control_folders
from tideline.hudi.table.markers import MARKER_DIRECTORY
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.storage.heartbeat import HEARTBEAT_DIRECTORY, list_heartbeats
from tideline.storage.local.unfinished_files import has_unfinished

NAME = "leftovers"
_SWEEP = Repair(RepairKind.SWEEP_LEFTOVERS)


def check_leftovers(seen: Inspection) -> Iterator[Finding]:
    """Findings about objects next to the timeline that belong to no instant under way."""
    marked = {
        path.removeprefix(f"{MARKER_DIRECTORY}/").partition("/")[0]
        for path in seen.objects
        if path.startswith(f"{MARKER_DIRECTORY}/")
    }
    beating = list_heartbeats(seen.table.store)
    for message, folder, names in (
        ("markers of a write that is over", MARKER_DIRECTORY, marked),
        ("the heartbeat of a writer that is gone", HEARTBEAT_DIRECTORY, beating),
    ):
        for name in sorted(filter(is_instant_time, names)):
            if not seen.is_pending(InstantTime(name)):
                yield warning(
                    NAME,
                    message,
                    path=f"{folder}/{name}",
                    instant=InstantTime(name),
                    repair=_SWEEP,
                )
    archive = seen.table.commits.archive().directory
    places = {*control_folders(seen.table), archive, "", *seen.view.partitions}
    for place in sorted(places):
        if has_unfinished(seen.table.store, place):
            yield warning(
                NAME,
                "files that a dead process was writing",
                path=place,
                repair=Repair(RepairKind.REMOVE_UNFINISHED, place),
            )
