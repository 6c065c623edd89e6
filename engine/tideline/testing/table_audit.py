"""What a fresh reader sees of a table, and what each of its objects is there for.

Shares the timeline and the file-system view with the engine, and the merging of logs, but neither
its writers nor its rollback: base files are read with pyarrow, objects are explained one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.clock import Clock, SystemClock
from tideline.errors import CorruptTableError
from tideline.formats.log_block import HeaderKey, read_frames
from tideline.hudi.check.bloom_filters import wrong_filters
from tideline.hudi.check.record_index import wrong_places, wrong_values
from tideline.hudi.check.statistics import wrong_statistics
from tideline.hudi.file_group.file_slice_merge import SliceContext, read_file_slice
from tideline.hudi.metadata_table.files_partition import FILES_PARTITION
from tideline.hudi.metadata_table.index_definitions import INDEX_DEFINITIONS_PATH
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.open_table import open_table
from tideline.hudi.recovery.undo import may_count
from tideline.hudi.services.archival.config import HistoryConfig
from tideline.hudi.table.file_group import BaseFile, FileGroupId, FileSlice, LogFile, split_path
from tideline.hudi.table.file_system_view import Listing, parse_data_file
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.partition_metadata import PARTITION_METADATA
from tideline.hudi.table.table_config import FILES, METADATA_TABLE_PATH
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.archived import ArchivedTimeline
from tideline.hudi.timeline.archived_tokens import TOKENS_PATH
from tideline.hudi.timeline.carried import REMEMBERED_PATH
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.lsm_history import VERSION_FILE, LsmHistory
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore

Row = dict[str, Any]

_STANDING = (
    ".hoodie/hoodie.properties",
    ".hoodie/.locks/table.lock",
    ".hoodie/.locks/table_lock.json",
    REMEMBERED_PATH,
    TOKENS_PATH,
)
_SYSTEM_CLOCK = SystemClock()


def open_fresh(
    location: StoreLocation, store: ObjectStore | None = None, clock: Clock = _SYSTEM_CLOCK
) -> HoodieTable:
    """The table as a new reader sees it, through `store` if given."""
    return open_table(location, clock, store)


def read_rows(table: HoodieTable, timeline: ActiveTimeline | None = None) -> list[Row]:
    """Every stored row without Hudi's columns, doubled ones included, in one fixed order."""
    timeline = table.timeline() if timeline is None else timeline
    view = table.files.read_view(timeline)
    slices = [
        file_slice for partition in view.partitions for file_slice in view.latest_slices(partition)
    ]
    rows: list[Row] = []
    for file_slice in slices:
        if file_slice.log_files:
            rows += _merged_rows(table, timeline, file_slice)
        elif file_slice.base_file is not None:
            with table.store.open_reader(file_slice.base_file.path) as stream:
                stored = pq.ParquetFile(stream).read(use_threads=False)
            names = [name for name in stored.column_names if not name.startswith("_hoodie_")]
            rows += stored.select(names).to_pylist()
    return sorted(rows, key=lambda row: tuple(str(value) for value in row.values()))


def merged_rows(table: HoodieTable) -> pa.Table:
    """The same as a table of all columns."""
    timeline = table.timeline()
    schema = table.schemas.newest(timeline)
    assert schema is not None
    context = SliceContext.of(table, timeline, schema)
    view = table.files.read_view(timeline)
    batches = [
        batch
        for partition in view.partitions
        for file_slice in view.latest_slices(partition)
        for batch in read_file_slice(table.store, file_slice, context)
    ]
    return pa.Table.from_batches(batches) if batches else context.full_schema.empty_table()


def _merged_rows(table: HoodieTable, timeline: ActiveTimeline, file_slice: FileSlice) -> list[Row]:
    schema = table.schemas.newest(timeline)
    assert schema is not None, "commits that wrote logs have a schema"
    context = SliceContext.of(table, timeline, schema)
    batches = read_file_slice(table.store, file_slice, context, columns=schema.names)
    return [row for batch in batches for row in batch.to_pylist()]


def unexplained_objects(table: HoodieTable) -> list[str]:
    """Paths of objects that no completed instant accounts for, lock and properties aside.

    Archived instants account for files as active ones do.
    """
    timeline = table.timeline()
    completed = {(item.time, item.action) for item in timeline.completed()}
    commits = [
        *map(table.timelines.read_commit, timeline.completed().of(*COMMIT_ACTIONS)),
        *(entry.commit_metadata() for entry in table.commits.archive().commits()),
    ]
    named = {stat.path for metadata in commits for stat in metadata.write_stats}
    standing = {*_STANDING, *_archive_objects(table.commits.archive())}
    layout = table.timelines.layout

    def is_explained(path: str) -> bool:
        directory, name = split_path(path)
        if path in {*standing, INDEX_DEFINITIONS_PATH} or name == PARTITION_METADATA:
            return True
        if path.startswith(f"{METADATA_TABLE_PATH}/") and table.config.metadata_partitions:
            return True
        if directory == layout.directory:
            instant = layout.parse(name)
            return (
                instant is not None and (instant.time, instant.action.when_completed) in completed
            )
        if path in undone:
            return True
        is_data = BaseFile.parse(directory, name) or LogFile.parse(directory, name)
        return is_data is not None and path in named

    undone = _undone_logs(table)
    left = [info.path for info in table.store.list() if not is_explained(info.path)]
    return sorted([*left, *stale_listing(table)])


def stale_listing(table: HoodieTable) -> list[str]:
    """What the metadata table, where one is kept, says otherwise than a listing of what is
    committed and the files themselves, and what nothing accounts for in it."""
    if FILES not in table.properties.reload().metadata_partitions:
        return []
    metadata = MetadataTable(table.store, table.clock)
    timeline, own = table.timeline(), metadata.timeline()
    files = FILES_PARTITION.look_up(metadata.read(FILES_PARTITION))
    listed = table.files.view_of(_that_count(table, timeline, files.listing()), timeline)
    found = table.files.view_of(_that_count(table, timeline, table.files.listing()), timeline)
    wrong = [
        f"files lists other slices of {group}"
        for partition in {*listed.partitions, *found.partitions}
        for group in {*listed.all_file_groups(partition)} ^ {*found.all_file_groups(partition)}
    ]
    wrong += [f"the metadata table's {instant}" for instant in own.pending()]
    for info in metadata.store.list(FILES):
        file = parse_data_file(FILES, split_path(info.path)[1], info.size_bytes)
        if file is not None and not own.is_committed(file.instant):
            wrong.append(f"{info.path} of the metadata table")
    others = (
        *wrong_statistics(table, found, timeline),
        *wrong_filters(table, found),
        *wrong_places(table, found, timeline),
        *wrong_values(table, found, timeline),
    )
    return [*wrong, *(f"{item.path}: {item.message}" for item in others)]


def _that_count(table: HoodieTable, timeline: ActiveTimeline, listing: Listing) -> Listing:
    """A listing without logs that hold nothing that counts."""
    counted = {}
    for partition, files in listing.items():
        logs = (LogFile.parse(partition, name, size_bytes) for name, size_bytes in files)
        gone = {log.name for log in logs if log and not may_count(table, log, timeline)}
        counted[partition] = tuple(file for file in files if file[0] not in gone)
    return counted


def _archive_objects(archived: ArchivedTimeline) -> Iterator[str]:
    """The objects that make up an archive, those of a history for readers that are behind too."""
    yield from (file.path for file in archived.files())
    if isinstance(archived, LsmHistory):
        yield f"{archived.directory}/{VERSION_FILE}"
        newest = archived.manifest().number
        for number in range(max(1, newest - HistoryConfig().manifests_kept + 1), newest + 1):
            yield archived.manifest_path(number)
            yield from (file.path for file in archived.manifest(number).files)


def _undone_logs(table: HoodieTable) -> set[str]:
    """Log files of command blocks, and those all of whose blocks a later command takes back."""
    slices: dict[tuple[FileGroupId, InstantTime], list[LogFile]] = {}
    for log in table.files.log_files():
        slices.setdefault((log.group, log.instant), []).append(log)
    found = set()
    for logs in slices.values():
        taken_back: set[str] = set()
        for log in sorted(logs, key=lambda item: (item.version, item.write_token), reverse=True):
            commands, instants = _what_a_log_holds(table.store, log)
            if commands or instants <= taken_back:
                found.add(log.path)
            taken_back |= commands
    return found


def _what_a_log_holds(store: ObjectStore, log: LogFile) -> tuple[set[str], set[str]]:
    """The instants its command blocks take back, and those its other blocks are of."""
    body = store.get(log.path)
    try:
        frames = read_frames(lambda offset, length: body[offset : offset + length], len(body))
    except CorruptTableError:
        return set(), {"unreadable"}
    commands, instants = set(), set()
    for frame in frames:
        if frame.is_rollback:
            commands.add(frame.headers[HeaderKey.TARGET_INSTANT_TIME])
        else:
            instants.add(frame.headers.get(HeaderKey.INSTANT_TIME, "unreadable"))
    return commands, instants


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
