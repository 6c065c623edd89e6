"""The partition `column_stats`: bounds and counts of the columns of every data file.

A row stands for a column of one file, a base file or a log. Queries leave files out by them: one
without any row is read, one with a row of some columns only may be left out wrongly. So a file gets
a row of every column that is indexed, or none of its commit has any and the partition is dropped.
That is so where a column holds NaN: no bounds make Hudi's queries find it.

A commit adds the rows of the files that it wrote; what it replaced keeps its rows until a clean
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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any

from tideline.errors import UnsupportedTableError
from tideline.hudi.metadata_table.altered_columns import why_statistics_are_of_others
from tideline.hudi.metadata_table.column_row import ColumnRow, merged_rows, replacing_rows
from tideline.hudi.metadata_table.early_bounds import with_room
from tideline.hudi.metadata_table.hash_id import column_id, file_id_hash, partition_id
from tideline.hudi.metadata_table.indexed_columns import (
    IndexedColumns,
    column_definition,
    columns_defined,
    indexed_columns,
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
from tideline.hudi.metadata_table.touched_slices import written_files
from tideline.hudi.table.file_group import split_path
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.schema_history_reader import schema_history
from tideline.hudi.table.table_config import COLUMN_STATS, PARQUET, TableType
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.column_range import ColumnRanges, retyped
from tideline.wording import counted

COLUMN_RECORD = 3
"""The type of a row of a column of a file."""


@dataclass(frozen=True, slots=True)
class MeasuredFiles:
    """The columns that are indexed, and their ranges in the files that a change adds, by path."""

    indexed: IndexedColumns
    ranges: Mapping[str, ColumnRanges]


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
        self,
        change: TableChange,
        stored: StoredRecords | None = None,  # noqa: ARG002 -- no row depends on others
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
        rows = [
            row for path, ranges in measured.ranges.items() for row in _rows(path, ranges, indexed)
        ]
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


def measured_files(change: TableChange) -> MeasuredFiles | CannotFollow:
    """What tasks say of the files that a change adds, or why statistics end with it."""
    schema_json = change.written.schema_json if change.written is not None else None
    schema_json = schema_json or change.table.schemas.newest_json(change.timeline)
    indexed = _columns_at(change.table, change.timeline, schema_json)
    if isinstance(indexed, CannotFollow):
        return indexed
    found: dict[str, ColumnRanges] = {}
    written = {stat.path or "": stat.column_ranges for stat in written_files(change)}
    unknown = [path for path, ranges in written.items() if not _is_measured(ranges, indexed)]
    if unknown and change.contents is not None:
        written |= change.contents.ranges(unknown, indexed.types)
    for path, ranges in written.items():
        typed = typed_ranges(path, ranges, indexed)
        if isinstance(typed, CannotFollow):
            return typed
        found[path] = typed
    return MeasuredFiles(indexed, found)


def columns_kept(whole: WholeTable) -> IndexedColumns | CannotFollow:
    """The columns of the statistics that a table has, or why they end at any commit."""
    return _columns_at(whole.table, whole.timeline, whole.schema_json)


def columns_to_measure(table: HoodieTable, schema_json: str) -> tuple[str, ...] | None:
    """The columns whose ranges writers of files find out; None where the table has no statistics.

    Raises CorruptTableError where the definitions of indexes cannot be read.
    """
    if COLUMN_STATS not in table.config.metadata_partitions or _without_bounds(table) is not None:
        return None
    found = indexed_columns(table, schema_json)
    return None if isinstance(found, str) else found.names


def typed_ranges(
    path: str, ranges: ColumnRanges | None, indexed: IndexedColumns
) -> ColumnRanges | CannotFollow:
    """The ranges of the columns that are indexed in a file, by all that is known of it.

    A column that is not listed may be missing: another writer has added it since the file was
    written.
    """
    if ranges is None or not _is_measured(ranges, indexed):
        return CannotFollow(f"the ranges of columns of {path} are not known")
    found = {}
    for name in indexed.names:
        if name not in ranges:
            continue
        typed = retyped(ranges[name], indexed.types[name])
        if typed is None:
            return CannotFollow(f"{name} of {path} has another type than the table's column")
        if isinstance(typed.greatest, float) and isnan(typed.greatest):
            return CannotFollow(f"{name} of {path} holds NaN, which queries of Hudi's lose")
        found[name] = typed
    return found


def _is_measured(ranges: ColumnRanges | None, indexed: IndexedColumns) -> bool:
    return ranges is not None and all(name in ranges for name in indexed.listed)


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
        file.path for piece in view.all_latest_slices() for file in piece.row_files
    )
    all_files = dict.fromkeys(
        file.path
        for partition in view.partitions
        for group in view.all_file_groups(partition)
        for piece in group.slices
        for file in piece.row_files
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
    reason = _without_bounds(table) or _without_columns(whole)
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


def _columns_at(
    table: HoodieTable, timeline: ActiveTimeline, schema_json: str | None
) -> IndexedColumns | CannotFollow:
    if COLUMN_STATS not in table.config.metadata_partitions:
        return CannotFollow("the table has no statistics of files")
    reason = _without_bounds(table)
    if reason is not None:
        return CannotFollow(reason)
    if schema_json is None:
        return CannotFollow("no commit says the table's schema")
    found = indexed_columns(table, schema_json)
    if isinstance(found, str):
        return CannotFollow(found)
    reason = why_statistics_are_of_others(table, timeline, found.names)
    return found if reason is None else CannotFollow(reason)


def _without_bounds(table: HoodieTable) -> str | None:
    """Why rows that are read may lie outside the bounds of their files."""
    config = table.config
    if config.table_type is not TableType.MERGE_ON_READ:
        return None
    if config.partial_updates is not None:
        return "rows are filled up from several files when they are read"
    if config.known_merge_mode is None:
        return "rows are merged in a way of their own when they are read"
    return None
