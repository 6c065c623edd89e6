"""The partition `partition_stats`: bounds and counts of the columns of every partition.

Queries leave out a partition without a row of a column that they filter by, once any other has one.
So every commit computes the rows of the partitions that it touches from all of their files:

1. The files that are live once the commit is completed, by `files` and the commit itself.
2. The ranges of those that the commit wrote, and the rows in `column_stats` of the others. Where
   one has no row of a column that is listed, nothing is right any more and the partition is
   dropped. A column that is not listed yet was added after files that have no row of it.
3. A partition that no file is left of loses its rows.

A clean changes no row that a query sees, and nothing here.

Source: Hudi's HoodieMetadataWriteUtils.convertMetadataToPartitionStatRecords (1.2), which counts
files that were just replaced.
"""

from __future__ import annotations

from collections.abc import Collection

from tideline.hudi.metadata_table.column_row import ColumnRow
from tideline.hudi.metadata_table.column_stats import (
    StatisticsPartition,
    columns_kept,
    measured_files,
)
from tideline.hudi.metadata_table.file_ranges import FileRows, ranges_of_files, rows_of_files
from tideline.hudi.metadata_table.hash_id import column_id, partition_id
from tideline.hudi.metadata_table.indexed_columns import IndexedColumns, indexed_columns
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
from tideline.hudi.table.table_config import PARTITION_STATS
from tideline.hudi.timeline.column_range import ColumnRanges, retyped, united
from tideline.wording import counted

_PARTITION_RECORD = 6


class PartitionStatsPartition(StatisticsPartition):
    """`partition_stats`."""

    name = PARTITION_STATS
    file_id_prefix = "partition-stats"

    def initial(self, whole: WholeTable) -> list[MetadataRecord] | CannotFollow:
        """From the rows of files, which must be there."""
        table, timeline = whole.table, whole.timeline
        if not table.config.partition_fields:
            return CannotFollow("the table has no partitions")
        schema_json = whole.schema_json
        if schema_json is None:
            return CannotFollow("no commit says the table's schema")
        indexed = indexed_columns(table, schema_json)
        if isinstance(indexed, str):
            return CannotFollow(indexed)
        view = table.files.view_of(table.files.listing(), timeline)
        live = {
            partition: [
                file.path for piece in view.latest_slices(partition) for file in piece.row_files
            ]
            for partition in view.partitions
        }
        paths = [path for those in live.values() for path in those]
        known = ranges_of_files(table, indexed.names, paths)
        records: list[MetadataRecord] = []
        for partition, those in live.items():
            rows = _rows(partition, [_ranges(known, path) for path in those], indexed)
            if isinstance(rows, CannotFollow):
                return rows
            records += (row for row in rows if not row.is_deleted)
        return records

    def changes(
        self, change: TableChange, stored: StoredRecords | None
    ) -> list[MetadataRecord] | CannotFollow:
        measured = change.once(measured_files)
        if isinstance(measured, CannotFollow):
            return measured
        touched = touched_partitions(change)
        if not touched or stored is None:
            return []
        written, indexed = measured.ranges, measured.indexed
        live: dict[str, list[str]] = {partition: [] for partition in touched}
        for piece in change.once(slices_after, stored).values():
            live[piece.partition] += [file.path for file in piece.row_files]
        others = {path for paths in live.values() for path in paths if path not in written}
        known = rows_of_files(stored, indexed.names, others)
        records: list[MetadataRecord] = []
        for partition in sorted(touched):
            ranges = [written.get(path) or _ranges(known, path) for path in live[partition]]
            rows = _rows(partition, ranges, indexed)
            if isinstance(rows, CannotFollow):
                return rows
            records += rows
        return records

    def upkeep(self, whole: WholeTable, sizes: StoredSizes) -> Upkeep | CannotFollow:
        indexed = columns_kept(whole)
        if isinstance(indexed, CannotFollow):
            return indexed
        files = counted(-(-sizes.file_groups // max(1, sizes.partitions)), "file")
        rows = counted(len(indexed.names), "row")
        return Upkeep(
            f"{rows} of column_stats for each file of the partitions that it touches, which have "
            f"{files} on average",
            f"{rows} for each of these partitions",
        )


PARTITION_STATS_PARTITION = PartitionStatsPartition()


def key_of_partition(column: str, partition: str) -> str:
    """The key of a row of a partition."""
    return column_id(column) + partition_id(partition)


def _ranges(known: FileRows, path: str) -> ColumnRanges:
    return {column: row.range for column, row in known.get(path, {}).items()}


def _rows(
    partition: str, files: Collection[ColumnRanges], indexed: IndexedColumns
) -> list[MetadataRecord] | CannotFollow:
    """The rows of one partition with these files."""
    keys = {column: key_of_partition(column, partition) for column in indexed.names}
    if not files:
        return [MetadataRecord(key, None) for key in keys.values()]
    records = []
    for column, key in keys.items():
        wanted = indexed.types[column]
        there = [ranges[column] for ranges in files if column in ranges]
        if len(there) < len(files) and column in indexed.listed:
            return CannotFollow(f"a file of partition {partition!r} has no statistics of {column}")
        typed = [retyped(found, wanted) for found in there]
        known = [found for found in typed if found is not None]
        if len(known) < len(typed):
            return CannotFollow(f"the type of {column} has changed")
        row = ColumnRow(partition, column, united(known, wanted), is_tight=True)
        records.append(row.stored(key, _PARTITION_RECORD, has_types=indexed.has_types))
    return records
