"""Reconcile what tasks wrote with what they reported.

A task that was retried leaves the files of its lost attempts behind. Every data file has a marker
made before it; a marked file that no write stat names is such a leftover and is deleted, before
the commit makes the instant visible. Source: Hudi's HoodieTable.finalizeWrite.
"""

from __future__ import annotations

from collections.abc import Iterable

from tideline.storage.object_store import ObjectStore
from tideline.table.markers import list_markers
from tideline.timeline.commit_metadata import WriteStat
from tideline.timeline.instant_time import InstantTime


def delete_unreported_files(
    store: ObjectStore, instant: InstantTime, stats: Iterable[WriteStat]
) -> tuple[str, ...]:
    """Delete marked files that no stat names; returns their paths.

    Repeating it is harmless. Died in between: the instant is still pending, and its rollback
    deletes every marked file.
    """
    reported = {stat.path for stat in stats}
    leftover = tuple(
        marker.path for marker in list_markers(store, str(instant)) if marker.path not in reported
    )
    for path in leftover:
        store.delete(path)
    return leftover
