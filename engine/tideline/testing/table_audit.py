"""What a fresh reader sees of a table, and what each of its objects is there for.

Shares the timeline and the file-system view with the engine, but neither its writers nor its
rollback: rows are read with pyarrow, objects are explained one by one.
"""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq

from tideline.clock import Clock, SystemClock
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.table.file_group import BaseFile, split_path
from tideline.table.hoodie_table import HoodieTable
from tideline.table.partition_metadata import PARTITION_METADATA
from tideline.table.properties import load_table_config
from tideline.timeline.active import ActiveTimeline
from tideline.timeline.carried import REMEMBERED_PATH
from tideline.timeline.instant import COMMIT_ACTIONS
from tideline.timeline.layout_v1 import LAYOUT_V1

Row = dict[str, Any]

_STANDING = (
    ".hoodie/hoodie.properties",
    ".hoodie/.locks/table.lock",
    ".hoodie/.locks/table_lock.json",
    REMEMBERED_PATH,
)
_SYSTEM_CLOCK = SystemClock()


def open_fresh(
    location: StoreLocation, store: ObjectStore | None = None, clock: Clock = _SYSTEM_CLOCK
) -> HoodieTable:
    """The table as somebody sees it who never saw it before, through `store` if given."""
    store = store or location.open()
    return HoodieTable(location, store, load_table_config(store), clock)


def read_rows(table: HoodieTable, timeline: ActiveTimeline | None = None) -> list[Row]:
    """Every stored row without Hudi's columns, doubled ones included, in one fixed order."""
    view = table.file_system_view(table.timeline() if timeline is None else timeline)
    rows: list[Row] = []
    for partition in view.partitions:
        for file in view.latest_base_files(partition):
            with table.store.open_reader(file.path) as stream:
                stored = pq.ParquetFile(stream).read(use_threads=False)
            names = [name for name in stored.column_names if not name.startswith("_hoodie_")]
            rows += stored.select(names).to_pylist()
    return sorted(rows, key=lambda row: tuple(str(value) for value in row.values()))


def unexplained_objects(table: HoodieTable) -> list[str]:
    """Paths of objects that no completed instant accounts for, lock and properties aside.

    Archived instants account for files as active ones do.
    """
    timeline = table.timeline()
    completed = {(item.time, item.action) for item in timeline.completed()}
    commits = [
        *map(table.timelines.read_commit, timeline.completed().of(*COMMIT_ACTIONS)),
        *(entry.commit_metadata() for entry in table.archived().commits()),
    ]
    named = {stat.path for metadata in commits for stat in metadata.write_stats}
    standing = {*_STANDING, *(file.path for file in table.archived().files())}

    def is_explained(path: str) -> bool:
        directory, name = split_path(path)
        if path in standing or name == PARTITION_METADATA:
            return True
        if directory == LAYOUT_V1.directory:
            instant = LAYOUT_V1.parse(name)
            return (
                instant is not None and (instant.time, instant.action.when_completed) in completed
            )
        return BaseFile.parse(directory, name) is not None and path in named

    return sorted(info.path for info in table.store.list() if not is_explained(info.path))


def missing_files(table: HoodieTable) -> list[str]:
    """Data files that completed commits wrote and that are gone; nothing cleans them yet."""
    present = {info.path for info in table.store.list()}
    commits = table.timeline().completed().of(*COMMIT_ACTIONS)
    return sorted(
        stat.path
        for instant in commits
        for stat in table.timelines.read_commit(instant).write_stats
        if stat.path and stat.path not in present
    )


def traces_of(store: ObjectStore, instant: object) -> list[str]:
    """Paths of objects whose path names the instant."""
    return sorted(info.path for info in store.list() if str(instant) in info.path)
