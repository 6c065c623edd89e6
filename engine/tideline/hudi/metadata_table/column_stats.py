"""The partition `column_stats`: bounds and counts of the columns of every data file.

A row stands for a column of one file, a base file or a log. Queries leave files out by them: one
without any row is read, one with a row of some columns only may be left out wrongly. So a file gets
a row of every column that is indexed, or none of its commit has any and the partition is dropped.
That is so where a column holds NaN: no bounds make Hudi's queries find it.

A commit adds the rows of the files that it wrote; what it replaced keeps its rows until a clean
deletes the files. A rollback takes the rows of its instant out with the rest of it.

Rows that are written here are tight. Of single files Hudi's are not, whose bounds may leave values
out (`hudi.read.known_values`): that tells them apart, also once Hudi has built them again.

Source: Hudi's HoodieTableMetadataUtil.convertMetadataToColumnStatsRecords (1.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isnan

from tideline.hudi.metadata_table.column_row import ColumnRow, merged_rows, replacing_rows
from tideline.hudi.metadata_table.hash_id import column_id, file_id_hash, partition_id
from tideline.hudi.metadata_table.indexed_columns import IndexedColumns, indexed_columns
from tideline.hudi.metadata_table.partition import (
    CannotFollow,
    Discrepancy,
    SeenTable,
    StoredRecords,
    TableChange,
)
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.metadata_table.touched_slices import written_files
from tideline.hudi.table.file_group import split_path
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import COLUMN_STATS, TableType
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.column_range import ColumnRanges, retyped
from tideline.hudi.timeline.commit_metadata import WriteStat

COLUMN_RECORD = 3
"""The type of a row of a column of a file."""


@dataclass(frozen=True, slots=True)
class MeasuredFiles:
    """The columns that are indexed, and their ranges in the files that a change adds, by path."""

    indexed: IndexedColumns
    ranges: Mapping[str, ColumnRanges]


class StatisticsPartition:
    """What the partitions of statistics share: they follow what Hudi made, and are made by none
    here."""

    is_in_every_table = False
    may_be_empty = False

    def hashed(self, key: str) -> str:
        return key

    def initial(self, table: HoodieTable, timeline: ActiveTimeline) -> tuple[MetadataRecord, ...]:
        raise NotImplementedError("statistics are not built here")

    def merged(self, records: Iterable[MetadataRecord]) -> list[MetadataRecord]:
        return merged_rows(records)

    def replacing(self, records: Iterable[MetadataRecord]) -> list[MetadataRecord] | None:
        return replacing_rows(records)

    def verify(
        self,
        records: Iterable[MetadataRecord],  # noqa: ARG002
        seen: SeenTable,  # noqa: ARG002
    ) -> Iterator[Discrepancy]:
        """Rows are compared with files where these are read (`check.statistics`)."""
        return iter(())


class ColumnStatsPartition(StatisticsPartition):
    """`column_stats`."""

    name = COLUMN_STATS
    file_id_prefix = "col-stats"
    groups_made = 2

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
            ColumnRow(split_path(path)[1], column, found, is_tight=True).stored(
                key_of(column, *split_path(path)), COLUMN_RECORD, has_types=indexed.has_types
            )
            for path, ranges in measured.ranges.items()
            for column, found in ranges.items()
        ]
        return gone + rows


COLUMN_STATS_PARTITION = ColumnStatsPartition()


def key_of(column: str, partition: str, file_name: str) -> str:
    """The key of a row of a file."""
    return column_id(column) + partition_id(partition) + file_id_hash(file_name)


def measured_files(change: TableChange) -> MeasuredFiles | CannotFollow:
    """What tasks say of the files that a change adds, or why statistics end with it."""
    indexed = _columns_at(change)
    if isinstance(indexed, CannotFollow):
        return indexed
    found: dict[str, ColumnRanges] = {}
    for stat in written_files(change):
        ranges = ranges_of(stat, indexed)
        if isinstance(ranges, CannotFollow):
            return ranges
        found[stat.path or ""] = ranges
    return MeasuredFiles(indexed, found)


def columns_to_measure(table: HoodieTable, schema_json: str) -> tuple[str, ...] | None:
    """The columns whose ranges writers of files find out; None where the table has no statistics.

    Raises CorruptTableError where the definitions of indexes cannot be read.
    """
    if COLUMN_STATS not in table.config.metadata_partitions or _without_bounds(table) is not None:
        return None
    found = indexed_columns(table, schema_json)
    return None if isinstance(found, str) else found.names


def ranges_of(stat: WriteStat, indexed: IndexedColumns) -> ColumnRanges | CannotFollow:
    """The ranges of the columns that are indexed, by what the task says that wrote the file.

    A column that is not listed may be missing: another writer has added it since the task began.
    """
    ranges = stat.column_ranges
    if ranges is None or any(name not in ranges for name in indexed.listed):
        return CannotFollow(f"the ranges of columns of {stat.path} are not known")
    found = {}
    for name in indexed.names:
        if name not in ranges:
            continue
        typed = retyped(ranges[name], indexed.types[name])
        if typed is None:
            return CannotFollow(f"{name} of {stat.path} has another type than the table's column")
        if isinstance(typed.greatest, float) and isnan(typed.greatest):
            return CannotFollow(f"{name} of {stat.path} holds NaN, which queries of Hudi's lose")
        found[name] = typed
    return found


def _columns_at(change: TableChange) -> IndexedColumns | CannotFollow:
    config = change.table.config
    if COLUMN_STATS not in config.metadata_partitions:
        return CannotFollow("the table has no statistics of files")
    reason = _without_bounds(change.table)
    if reason is not None:
        return CannotFollow(reason)
    schema_json = change.written.schema_json if change.written is not None else None
    schema_json = schema_json or change.table.schemas.newest_json(change.timeline)
    if schema_json is None:
        return CannotFollow("no commit says the table's schema")
    found = indexed_columns(change.table, schema_json)
    return CannotFollow(found) if isinstance(found, str) else found


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
