"""Looking at what lies in a Hudi table now. One listing; changes nothing.

1. The folder is listed once, without the tables below it.
2. Commits that replaced file groups and pending plans say which files readers see.
3. Every other object is looked at by its name: control files, partition metadata, data files and
   their checksums are the table's; the rest is foreign.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from tideline.errors import (
    ConfigError,
    CorruptTableError,
    ObjectNotFoundError,
    UnsupportedTableError,
)
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.adoption.kept_partitions import read_partitions
from tideline.hudi.adoption.table_state import ForeignFiles, PendingInstant, TableState
from tideline.hudi.table.file_counts import SMALL_FILE, FileCounts
from tideline.hudi.table.file_group import split_path
from tideline.hudi.table.file_system_view import FileSystemView, parse_data_file
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.partition_metadata import (
    METADATA_NAMES,
    find_partitions,
    is_table_metadata,
)
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant
from tideline.storage.heartbeat import is_heartbeat_dead
from tideline.storage.object_store import ObjectInfo

EXAMPLES_MAX = 5
"""Foreign files that are named; all are counted."""

_METADATA_TABLE = ".hoodie/metadata/"
T = TypeVar("T")


def read_state(
    table: HoodieTable, timeline: ActiveTimeline, published: Collection[str] = ()
) -> TableState:
    """Look at an open table; `published` are the paths of what it is published as. Raises
    only for a store that does not answer."""
    unreadable: list[str] = []
    objects = _as_far_as_possible(table.files.objects, unreadable) or ()
    commits = timeline.of(*COMMIT_ACTIONS).completed()
    newest = commits.last()
    partitions = frozenset(find_partitions(info.path for info in objects))
    data = [info for info in objects if _is_data(info)]
    settings = Settings(table.config.properties)
    small_bytes = _as_far_as_possible(lambda: settings.integer(SMALL_FILE), unreadable) or 0
    view = _as_far_as_possible(lambda: _view(table, timeline, partitions, data), unreadable)
    counts = None if view is None else FileCounts.of(view, small_bytes)
    kept = (
        ()
        if counts is None
        else _as_far_as_possible(
            lambda: read_partitions(table, timeline, objects, counts), unreadable
        )
    )
    return TableState(
        commits=len(commits),
        newest=None if newest is None else str(newest.time),
        pending=tuple(_pending(table, instant) for instant in timeline.pending()),
        savepoints=tuple(
            str(instant.time) for instant in timeline.of(Action.SAVEPOINT).completed()
        ),
        has_archive=bool(_as_far_as_possible(table.commits.archive().files, unreadable)),
        files=counts,
        stored_files=len(data),
        stored_bytes=sum(info.size_bytes for info in data),
        outside_partitions=sum(split_path(info.path)[0] not in partitions for info in data),
        has_metadata_table=any(info.path.startswith(_METADATA_TABLE) for info in objects),
        published_files=len(published),
        foreign=_foreign(
            (info for info in objects if info.path not in published), table.files.nested
        ),
        unreadable=tuple(unreadable),
        metadata_partitions=kept or (),
    )


def _view(
    table: HoodieTable,
    timeline: ActiveTimeline,
    partitions: Iterable[str],
    data: Iterable[ObjectInfo],
) -> FileSystemView:
    listing: dict[str, list[tuple[str, int]]] = {partition: [] for partition in partitions}
    for info in data:
        partition, name = split_path(info.path)
        if partition in listing:
            listing[partition].append((name, info.size_bytes))
    return table.files.view_of(listing, timeline)


def _pending(table: HoodieTable, instant: Instant) -> PendingInstant:
    name = str(instant.time)
    return PendingInstant(
        instant, is_heartbeat_dead(table.store, name, table.clock, DEFAULT_LIMITS)
    )


def _is_data(info: ObjectInfo) -> bool:
    if is_table_metadata(info.path):
        return False
    return parse_data_file(*split_path(info.path), info.size_bytes) is not None


def _foreign(objects: Iterable[ObjectInfo], nested: Mapping[str, str]) -> ForeignFiles:
    strangers = [info for info in objects if not _is_own(info)]
    return ForeignFiles(
        dict(nested),
        len(strangers),
        sum(info.size_bytes for info in strangers),
        tuple(info.path for info in strangers[:EXAMPLES_MAX]),
    )


def _is_own(info: ObjectInfo) -> bool:
    name = split_path(info.path)[1]
    if name.startswith(".") and name.endswith(".crc"):
        name = name[1 : -len(".crc")]
    owned = name in METADATA_NAMES or parse_data_file("", name, 0) is not None
    return owned or is_table_metadata(info.path)


def _as_far_as_possible(read: Callable[[], T], unreadable: list[str]) -> T | None:
    try:
        return read()
    except (ConfigError, CorruptTableError, ObjectNotFoundError, UnsupportedTableError) as broken:
        unreadable.append(str(broken))
        return None
