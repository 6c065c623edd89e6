"""The partition `column_stats`: bounds and counts of the columns of every data file.

A row stands for a column of one file, a base file or a log. Queries leave files out by them: one
without any row is read, one with a row of some columns only may be left out wrongly. So a file gets
a row of every column that is indexed, or none of its commit has any and the partition is dropped.
That is so where a column holds NaN: no bounds make Hudi's queries find it.

A commit adds the rows of the files that it wrote, and of columns that were added since to files
beside them (`live_files`); what it replaced keeps its rows until a clean
deletes the files. A rollback takes the rows of its instant out with the rest of it. Files that a
task wrote before the table had statistics are read back by the commit, since no row of theirs was
measured.

One that is made has rows of every committed file, older slices among them. Of these one may stay
without rows, of the newest none.

Rows that are written here are tight. Of single files Hudi's are not, whose bounds may leave values
out (`hudi.read.known_values`): that tells them apart, also once Hudi has built them again.

Source: Hudi's HoodieTableMetadataUtil.convertMetadataToColumnStatsRecords (1.2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tideline.errors import UnsupportedTableError
from tideline.hudi.metadata_table.column_row import (
    ColumnRow,
    merged_rows,
    replacing_rows,
    rows_of,
)
from tideline.hudi.metadata_table.early_bounds import with_room
from tideline.hudi.metadata_table.hash_id import column_id, file_id_hash, partition_id
from tideline.hudi.metadata_table.indexed_columns import (
    IndexedColumns,
    column_definition,
    columns_defined,
)
from tideline.hudi.metadata_table.measured_files import (
    MeasuredFiles,
    columns_kept,
    measured_files,
    typed_ranges,
    why_without_bounds,
)
from tideline.hudi.metadata_table.optional_partition import OptionalPartition
from tideline.hudi.metadata_table.partition import (
    CannotFollow,
    StoredRecords,
    StoredSizes,
    TableChange,
    Upkeep,
    WholeTable,
)
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.metadata_table.touched_slices import slices_after, touched_partitions
from tideline.hudi.table.file_group import BaseFile, LogFile, split_path
from tideline.hudi.table.schema_history_reader import schema_history
from tideline.hudi.table.table_config import COLUMN_STATS, PARQUET, PARTITION_STATS
from tideline.hudi.timeline.column_range import ColumnRanges
from tideline.wording import counted

COLUMN_RECORD = 3
"""The type of a row of a column of a file."""
FILES_READ_BACK_MAX = 1000
"""Of more files without a row of a column none is read at a commit."""

FileRows = Mapping[str, Mapping[str, ColumnRow]]
"""Rows by the path of their file and the name of their column."""


class StatisticsPartition(OptionalPartition):
    """What the partitions of statistics share."""

    def merged(self, records: Iterable[MetadataRecord]) -> list[MetadataRecord]:
        return merged_rows(records)

    def replacing(self, records: Iterable[MetadataRecord]) -> list[MetadataRecord] | None:
        return replacing_rows(records)


class ColumnStatsPartition(StatisticsPartition):
    """`column_stats`."""

    name = COLUMN_STATS
    file_id_prefix = "col-stats"
    groups_made = 2
    may_lack_files = True

    def definition(self, whole: WholeTable) -> Mapping[str, Any]:
        """Which columns it has. Raises UnsupportedTableError where `initial` cannot make it."""
        found = _definition(whole)
        if isinstance(found, CannotFollow):
            raise UnsupportedTableError(found.reason, table=whole.table.uri)
        return found

    def initial(self, whole: WholeTable) -> list[MetadataRecord] | CannotFollow:
        indexed = _columns_of_new(whole)
        if isinstance(indexed, CannotFollow):
            return indexed
        newest, others = _committed_files(whole)
        if whole.contents is None:
            raise ValueError("statistics are made of what files hold")
        found = whole.contents.ranges([*newest, *others], indexed.types)
        records: list[MetadataRecord] = []
        for path, ranges in found.items():
            typed = typed_ranges(path, ranges, indexed)
            if not isinstance(typed, CannotFollow):
                records += _rows(path, typed, indexed)
            elif path in newest:
                return typed
        return records

    def changes(
        self, change: TableChange, stored: StoredRecords | None = None
    ) -> list[MetadataRecord] | CannotFollow:
        measured = change.once(measured_files)
        if isinstance(measured, CannotFollow):
            return measured
        indexed = measured.indexed
        gone = [
            MetadataRecord(key_of(column, *split_path(path)), None)
            for path in change.deleted
            for column in indexed.names
        ]
        ranges = dict(measured.ranges)
        if stored is not None and PARTITION_STATS in change.table.config.metadata_partitions:
            ranges |= change.once(live_files, stored, measured).nulls
        rows = [row for path, found in ranges.items() for row in _rows(path, found, indexed)]
        return gone + rows

    def upkeep(self, whole: WholeTable, sizes: StoredSizes) -> Upkeep | CannotFollow:  # noqa: ARG002
        indexed = columns_kept(whole)
        if isinstance(indexed, CannotFollow):
            return indexed
        rows = counted(len(indexed.names), "row")
        return Upkeep("nothing, for tasks measure what they write", f"{rows} for each new file")


COLUMN_STATS_PARTITION = ColumnStatsPartition()


def key_of(column: str, partition: str, file_name: str) -> str:
    """The key of a row of a file."""
    return column_id(column) + partition_id(partition) + file_id_hash(file_name)


def rows_of_files(
    stored: StoredRecords, columns: Collection[str], paths: Collection[str]
) -> FileRows:
    """The rows of these columns of these files, as far as there are any. Raises as `look_up`."""
    wanted = {
        key_of(column, *split_path(path)): (path, column) for path in paths for column in columns
    }
    if not wanted:
        return {}
    found: dict[str, dict[str, ColumnRow]] = {}
    for key, row in rows_of(stored.look_up(COLUMN_STATS_PARTITION, wanted)).items():
        path, column = wanted[key]
        # Keys are hashes.
        if (row.file, row.column) == (split_path(path)[1], column):
            found.setdefault(path, {})[column] = row
    return found


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """The files of the partitions that a change touches, live once it is completed, and what is
    known of those that it did not write: their rows, and listed columns that came after them, with
    as many nulls as they have rows; all columns of a base file without a row of the table."""

    by_partition: Mapping[str, Sequence[BaseFile | LogFile]]
    rows: FileRows
    nulls: Mapping[str, ColumnRanges]


def live_files(change: TableChange, stored: StoredRecords, measured: MeasuredFiles) -> LiveFiles:
    """Look at the files of the partitions that a change touches.

    Hudi lists a column that was added, and older files have no row of it. They are read back, with
    the first change of their partition after that, and have rows then: Hudi's queries lose a file
    that has a row of one column of theirs and none of another. A base file that a delete has left
    empty has no row of Hudi's of any column, and gets them in the same way.
    """
    live: dict[str, list[BaseFile | LogFile]] = {name: [] for name in touched_partitions(change)}
    if live:
        for file_slice in change.once(slices_after, stored).values():
            live[file_slice.partition] += file_slice.row_files
    others = [file for files in live.values() for file in files if file.path not in measured.ranges]
    rows = rows_of_files(stored, measured.indexed.names, [file.path for file in others])
    bare = [file.path for file in others if isinstance(file, BaseFile) and file.path not in rows]
    nulls = {
        **_columns_added_since(change, rows, measured.indexed),
        **_empty_files(change, bare, measured.indexed),
    }
    return LiveFiles(live, rows, nulls)


def _empty_files(
    change: TableChange, paths: Collection[str], indexed: IndexedColumns
) -> Mapping[str, ColumnRanges]:
    """Those of the base files that have no row of the table, with all columns of none."""
    if not paths or change.contents is None or len(paths) > FILES_READ_BACK_MAX:
        return {}
    read = change.contents.ranges(paths, indexed.types)
    return {
        path: ranges
        for path, ranges in read.items()
        if ranges is not None and not any(item.values for item in ranges.values())
    }


def _columns_added_since(
    change: TableChange, rows: FileRows, indexed: IndexedColumns
) -> Mapping[str, ColumnRanges]:
    """Of files with rows of some listed columns the others, where it is only nulls that a file has
    of them. Values would say that writers index by different lists: then it is unknown what other
    partitions have."""
    missing = {
        path: [name for name in indexed.listed if name not in those] for path, those in rows.items()
    }
    missing = {path: names for path, names in missing.items() if names}
    if not missing or change.contents is None or len(missing) > FILES_READ_BACK_MAX:
        return {}
    names = {name for those in missing.values() for name in those}
    types = {name: kind for name, kind in indexed.types.items() if name in names}
    read = change.contents.ranges(tuple(missing), types)
    found = {
        path: {name: ranges[name] for name in missing[path] if name in ranges}
        for path, ranges in read.items()
        if ranges is not None
    }
    are_absent = all(
        item.nulls == item.values and not item.size_bytes
        for ranges in found.values()
        for item in ranges.values()
    )
    return found if are_absent else {}


def _rows(path: str, ranges: ColumnRanges, indexed: IndexedColumns) -> Iterator[MetadataRecord]:
    """The rows of one file."""
    partition, name = split_path(path)
    for column, found in ranges.items():
        whole = with_room(found, has_types=indexed.has_types)
        row = ColumnRow(name, column, whole, is_tight=True)
        key = key_of(column, partition, name)
        yield row.stored(key, COLUMN_RECORD, has_types=indexed.has_types)


def _committed_files(whole: WholeTable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The paths of the files of the newest slices, and of all others that are committed."""
    table, timeline = whole.table, whole.timeline
    view = table.files.view_of(table.files.listing(), timeline)
    newest = dict.fromkeys(
        file.path for file_slice in view.all_latest_slices() for file in file_slice.row_files
    )
    all_files = dict.fromkeys(
        file.path
        for partition in view.partitions
        for group in view.all_file_groups(partition)
        for file_slice in group.slices
        for file in file_slice.row_files
    )
    return tuple(newest), tuple(path for path in all_files if path not in newest)


def _columns_of_new(whole: WholeTable) -> IndexedColumns | CannotFollow:
    definition = _definition(whole)
    if isinstance(definition, CannotFollow):
        return definition
    found = columns_defined(whole.table, whole.schema_json or "", definition)
    return CannotFollow(found) if isinstance(found, str) else found


def _definition(whole: WholeTable) -> Mapping[str, Any] | CannotFollow:
    table = whole.table
    reason = why_without_bounds(table) or _without_columns(whole)
    schema_json = whole.schema_json
    if reason is not None or schema_json is None:
        return CannotFollow(reason or "no commit says the table's schema")
    found = column_definition(table, schema_json, whole.columns, whole.columns_max)
    return CannotFollow(found) if isinstance(found, str) else found


def _without_columns(whole: WholeTable) -> str | None:
    """Why columns of files may be other ones than their names say, or be elsewhere."""
    config = whole.table.config
    if config.base_file_format != PARQUET:
        return f"its base files are {config.base_file_format}, and bounds are read from Parquet"
    if config.bootstrap_base_path is not None:
        return "files of a bootstrapped table have their columns elsewhere"
    if config.drop_partition_columns:
        return "its files lack the columns of the partition path"
    if schema_history(whole.table, whole.timeline) is not None:
        return "its columns were renamed, dropped or retyped by Hudi's schema on read"
    return None
