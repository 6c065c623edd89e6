"""Reconcile what tasks wrote with what they reported.

A task that was retried leaves the files of its lost attempts behind. Every data file has a marker
made before it; a marked file that no write stat names is such a leftover and is deleted, before
the commit makes the instant visible. A log file is looked into first: its name may be one that
another writer was faster to take. Source: Hudi's HoodieTable.finalizeWrite.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tideline.errors import CorruptTableError
from tideline.formats.log_block import HeaderKey, read_frames
from tideline.hudi.table.file_group import BaseFile, split_path
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.table.markers import Marker, MarkerKind, list_markers
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.object_store import ObjectStore


def delete_unreported_files(
    store: ObjectStore, instant: InstantTime, stats: Iterable[WriteStat]
) -> tuple[str, ...]:
    """Delete marked files that no stat names; returns their paths.

    Repeating it is harmless. Died in between: the instant is still pending, and its rollback
    deletes, or makes readers skip, all that is marked.
    """
    reported = {stat.path for stat in stats}
    leftover = tuple(
        marker.path
        for marker in list_markers(store, str(instant))
        if marker.path not in reported and not _belongs_to_others(store, instant, marker)
    )
    scope = DeleteScope(store, f"the write {instant}", partial(_objection, instant))
    for path in leftover:
        scope.remove(path)
    return leftover


def _objection(instant: InstantTime, path: str) -> str | None:
    file = parse_data_file(*split_path(path), 0)
    if file is None:
        return "it is not a data file"
    if isinstance(file, BaseFile) and file.instant != instant:
        return f"instant {file.instant} wrote it"
    return None


def _belongs_to_others(store: ObjectStore, instant: InstantTime, marker: Marker) -> bool:
    """Whether a log file holds a block of another instant. A truncated one counts as none."""
    if marker.kind is not MarkerKind.APPEND:
        return False
    info = store.head(marker.path)
    if info is None:
        return False

    def read_range(offset: int, length: int) -> bytes:
        return store.get_range(marker.path, offset=offset, length=length)

    try:
        frames = read_frames(read_range, info.size_bytes, path=marker.path)
    except CorruptTableError:
        return False
    instants = {frame.headers.get(HeaderKey.INSTANT_TIME) for frame in frames}
    return bool(instants - {str(instant), None})
