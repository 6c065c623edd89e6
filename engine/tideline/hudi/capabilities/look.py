"""Looking at a table: the little that has to be read to say what it is. Changes nothing.

1. `hoodie.properties`. A table that is refused altogether is checked by them alone.
2. The timeline's listing, which also says in which zone its instants were made, and the names in
   `.hoodie/`.
3. The newest commits that completed: their extra metadata, and the file groups they wrote.
4. Where commits wrote buckets, the files of two partitions
   (tideline.hudi.index.bucket_recognition).

What cannot be read is reported, and stops nothing: a damaged table is examined, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TypeVar

from tideline.clock import Clock, SystemClock
from tideline.errors import (
    ConfigError,
    CorruptTableError,
    ObjectNotFoundError,
    UnsupportedTableError,
)
from tideline.hudi.capabilities.evidence import (
    STORAGE_LOCK,
    ControlFolder,
    schema_evidence,
    writer_evidence,
)
from tideline.hudi.capabilities.flink_writers import AUXILIARY_FOLDER, has_flink_evidence
from tideline.hudi.capabilities.table_capabilities import IndexEvidence, TableCapabilities
from tideline.hudi.index.bucket_recognition import Recognition, recognise_buckets
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.index.uniqueness import described, global_index, says_unique
from tideline.hudi.open_table import open_table
from tideline.hudi.table.file_group import split_path
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.internal_schema import SCHEMA_DIRECTORY
from tideline.hudi.table.properties import load_any_table_config
from tideline.hudi.table.table_config import INDEX_TYPE, PROPERTIES_PATH
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore

COMMITS_READ = 3
"""The newest commits whose extra metadata is looked at."""

_CONTROL = ".hoodie"
_SYSTEM_CLOCK = SystemClock()
T = TypeVar("T")


def look_at(
    location: StoreLocation,
    store: ObjectStore | None = None,
    clock: Clock = _SYSTEM_CLOCK,
    *,
    timezone: str | None = None,
) -> TableCapabilities:
    """The capabilities of the Hudi table at `location`, of one that is refused altogether as well.

    `timezone` is declared as TableInstants.declare_zone does. Raises ObjectNotFoundError where no
    table is, CorruptTableError for properties that cannot be read, ConfigError for a zone that
    cannot be.
    """
    store = store or location.open()
    capabilities = capabilities_by_properties(store)
    if capabilities.is_refused:
        return capabilities
    table = open_table(location, clock, store, capabilities.config)
    table.instants.declare_zone(timezone)
    return read_capabilities(table)


def capabilities_by_properties(store: ObjectStore) -> TableCapabilities:
    """What the properties alone say of a table: all there is to know of one that is refused."""
    return TableCapabilities(store.uri, load_any_table_config(store))


def read_capabilities(
    table: HoodieTable, timeline: ActiveTimeline | None = None
) -> TableCapabilities:
    """The capabilities of an open table, as `timeline` shows it or as it is now."""
    timeline = table.timeline() if timeline is None else timeline
    unreadable: list[str] = []
    commits = tuple(_newest_commits(table, timeline, unreadable))
    folder = _control_folder(table.store)
    recognised = _as_far_as_possible(lambda: recognise_buckets(table, timeline), unreadable)
    schema_json = _as_far_as_possible(lambda: table.schemas.newest_json(timeline), unreadable)
    return TableCapabilities(
        table.uri,
        table.config,
        table.instants.known_zone(timeline),
        index_capabilities(table, recognised or Recognition()),
        schema_evidence(commits, folder),
        writer_evidence(commits, folder, table.config),
        tuple(dict.fromkeys(unreadable)),
        schema_json,
    )


def index_capabilities(table: HoodieTable, recognised: Recognition) -> IndexEvidence:
    """The index that properties name, else the one that was recognised, or a record index."""
    layout = recognised.layout
    name = table.config.index_type
    keys = described(table)
    if name is not None:
        return IndexEvidence(name.upper(), f"{INDEX_TYPE} in {PROPERTIES_PATH}", layout, keys=keys)
    if layout is not None:
        return IndexEvidence(IndexType.BUCKET.value, layout.known_from.value, layout, keys=keys)
    if _has_record_index(table):
        return IndexEvidence(IndexType.RECORD_INDEX.value, says_unique(table), keys=keys)
    return IndexEvidence(is_final=recognised.is_final, keys=keys)


def _has_record_index(table: HoodieTable) -> bool:
    try:
        return global_index(table) is IndexType.RECORD_INDEX
    except (ConfigError, CorruptTableError):
        # `described` says so.
        return False


def _newest_commits(
    table: HoodieTable, timeline: ActiveTimeline, unreadable: list[str]
) -> Iterator[tuple[Instant, CommitMetadata]]:
    completed = reversed(timeline.of(*COMMIT_ACTIONS).completed().instants)
    for instant in islice(completed, COMMITS_READ):
        metadata = _as_far_as_possible(partial(table.commits.read, instant), unreadable)
        if metadata is not None:
            yield instant, metadata


def _control_folder(store: ObjectStore) -> ControlFolder:
    listing = store.list_directory(_CONTROL)
    names = {split_path(info.path)[1] for info in listing.objects}
    folders = frozenset(split_path(path)[1] for path in listing.directories)
    lock_folder, lock_name = split_path(STORAGE_LOCK)
    if lock_folder in folders and lock_name in _names_in(store, lock_folder):
        names.add(STORAGE_LOCK)
    schema_folder = split_path(SCHEMA_DIRECTORY)[1]
    schemas = _names_in(store, schema_folder) if schema_folder in folders else ()
    has_flink = split_path(AUXILIARY_FOLDER)[1] in folders and was_flink_here(store)
    return ControlFolder(frozenset(names), schemas, has_flink)


def was_flink_here(store: ObjectStore) -> bool:
    """Whether a Flink job of Hudi left something in the folder for auxiliary files."""
    listed = store.list_directory(AUXILIARY_FOLDER)
    return has_flink_evidence((*listed.directories, *(info.path for info in listed.objects)))


def _names_in(store: ObjectStore, folder: str) -> tuple[str, ...]:
    listed = store.list_directory(f"{_CONTROL}/{folder}").objects
    return tuple(split_path(info.path)[1] for info in listed)


def _as_far_as_possible(read: Callable[[], T], unreadable: list[str]) -> T | None:
    try:
        return read()
    except (CorruptTableError, ObjectNotFoundError, UnsupportedTableError) as broken:
        unreadable.append(str(broken))
        return None
