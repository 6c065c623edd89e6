"""The partition `partition_stats`: bounds and counts of the columns of every partition.

Queries leave out a partition without a row of a column that they filter by, once any other has one.
So every commit computes the rows of the partitions that it touches from all of their files:

1. The files that are live once the commit is completed, by `files` and the commit itself.
2. The ranges of those that the commit wrote, and the rows in `column_stats` of the others. Where
   one has no row of a column that is listed, and has values of it, nothing is right any more and
   the partition is dropped. A column that is not listed yet was added after files that have no row
   of it.
3. A partition that no file is left of loses its rows.
4. A row more of each partition says which files had a part in the others, and which columns have
   bounds that are certain: those of every file are (`certain_rows`). Only by it do reads here leave
   a partition out, where its files are those that they would read. Hudi's rows are without one.
   They say nothing of files without statistics, which have no part in them.
5. In the first version of the index rows do not say their types, and Hudi's queries fail at one of
   another type than its column has. So the partition is dropped where a column gets one.

A clean changes no row that a query sees, and nothing here.

Source: Hudi's HoodieMetadataWriteUtils.convertMetadataToPartitionStatRecords (1.2), which counts
files that were just replaced.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tideline.hudi.metadata_table.certain_rows import may_be_united
from tideline.hudi.metadata_table.column_row import ColumnRow
from tideline.hudi.metadata_table.column_stats import FileRows, StatisticsPartition, live_files
from tideline.hudi.metadata_table.early_bounds import with_room
from tideline.hudi.metadata_table.file_ranges import ranges_of_files
from tideline.hudi.metadata_table.hash_id import column_id, partition_id
from tideline.hudi.metadata_table.indexed_columns import (
    RECORD_KEY,
    IndexedColumns,
    indexed_columns,
)
from tideline.hudi.metadata_table.measured_files import columns_kept, measured_files
from tideline.hudi.metadata_table.partition import (
    CannotFollow,
    StoredRecords,
    StoredSizes,
    TableChange,
    Upkeep,
    WholeTable,
)
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.table.file_group import BaseFile, LogFile
from tideline.hudi.table.table_config import PARTITION_STATS
from tideline.hudi.timeline.column_range import (
    ColumnRange,
    ColumnRanges,
    ValueKind,
    ValueType,
    retyped,
    united,
)
from tideline.wording import counted

FILES_COUNTED = "_tideline_files"
"""What the row is under that says which files had a part in the rows of a partition."""
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
        live: dict[str, list[BaseFile | LogFile]] = {name: [] for name in view.partitions}
        for file_slice in view.all_latest_slices():
            live[file_slice.partition] += file_slice.row_files
        paths = [file.path for those in live.values() for file in those]
        known = ranges_of_files(table, indexed.names, paths)
        records: list[MetadataRecord] = []
        for partition, those in live.items():
            rows = _rows(partition, [_Part.stored(file, known) for file in those], indexed)
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
        written, indexed = measured.ranges, measured.indexed
        retyped_column = None if indexed.has_types else _retyped_column(change, indexed)
        if retyped_column is not None:
            reason = f"{retyped_column} got another type, at whose rows queries of Hudi's fail"
            return CannotFollow(reason)
        if stored is None:
            return []
        live = change.once(live_files, stored, measured)
        records: list[MetadataRecord] = []
        for partition, files in sorted(live.by_partition.items()):
            parts = [
                _Part.measured(file.path, written[file.path])
                if file.path in written
                else _Part.stored(file, live.rows, live.nulls)
                for file in files
            ]
            rows = _rows(partition, parts, indexed)
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


@dataclass(frozen=True, slots=True)
class CountedFiles:
    """What the row says that is not of a column: the files that had a part in the others, by a hash
    of their names, and the columns whose bounds are certain."""

    files: str
    columns: frozenset[str]

    @classmethod
    def parse(cls, row: ColumnRow) -> CountedFiles | None:
        """None of a row that says it in no way that is known."""
        files, columns = row.range.least, row.range.greatest
        if row.column != FILES_COUNTED or not isinstance(files, str):
            return None
        try:
            names = json.loads(columns) if isinstance(columns, str) else None
        except ValueError:
            return None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return None
        return cls(files, frozenset(names))

    def stored(self, partition: str, count: int, *, has_types: bool) -> MetadataRecord:
        said = ColumnRange(
            ValueType(ValueKind.STRING), self.files, json.dumps(sorted(self.columns)), count, 0
        )
        row = ColumnRow(partition, FILES_COUNTED, said, is_tight=True)
        key = key_of_partition(FILES_COUNTED, partition)
        return row.stored(key, _PARTITION_RECORD, has_types=has_types)


def hash_of_files(paths: Iterable[str]) -> str:
    """What stands for a set of files."""
    return hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class _Part:
    """What one file says of its columns, and which of them it is certain about."""

    path: str
    ranges: ColumnRanges
    certain: frozenset[str]

    @classmethod
    def measured(cls, path: str, ranges: ColumnRanges) -> _Part:
        return cls(path, ranges, frozenset(ranges) - _left_open(ranges))

    @classmethod
    def stored(
        cls,
        file: BaseFile | LogFile,
        known: FileRows,
        nulls: Mapping[str, ColumnRanges] = MappingProxyType({}),
    ) -> _Part:
        rows: Mapping[str, ColumnRow] = known.get(file.path, {})
        added = nulls.get(file.path, {})
        ranges = {**{column: row.range for column, row in rows.items()}, **added}
        is_log = isinstance(file, LogFile)
        certain = {column for column, row in rows.items() if may_be_united(row, is_log=is_log)}
        return cls(file.path, ranges, frozenset(certain.union(added)) - _left_open(ranges))


def _left_open(ranges: ColumnRanges) -> frozenset[str]:
    """The columns that a log with rows has no values of: these are in older files."""
    if RECORD_KEY in ranges and not ranges[RECORD_KEY].values:
        return frozenset()
    return frozenset(column for column, found in ranges.items() if not found.values)


def _retyped_column(change: TableChange, indexed: IndexedColumns) -> str | None:
    """A column that has another type by the change than before it."""
    schema_json = change.table.schemas.newest_json(change.timeline)
    before = None if schema_json is None else indexed_columns(change.table, schema_json)
    if before is None or isinstance(before, str):
        return None
    kinds = indexed.types.items()
    return next((name for name, kind in kinds if before.types.get(name, kind) != kind), None)


def _rows(
    partition: str, files: Collection[_Part], indexed: IndexedColumns
) -> list[MetadataRecord] | CannotFollow:
    """The rows of one partition with these files."""
    keys = {column: key_of_partition(column, partition) for column in indexed.names}
    if not files:
        gone = [*keys.values(), key_of_partition(FILES_COUNTED, partition)]
        return [MetadataRecord(key, None) for key in gone]
    records = []
    for column, key in keys.items():
        wanted = indexed.types[column]
        there = [file.ranges[column] for file in files if column in file.ranges]
        if len(there) < len(files) and column in indexed.listed:
            return CannotFollow(f"a file of partition {partition!r} has no statistics of {column}")
        typed = [retyped(found, wanted) for found in there]
        known = [found for found in typed if found is not None]
        if len(known) < len(typed):
            return CannotFollow(f"the type of {column} has changed")
        whole = with_room(united(known, wanted), has_types=indexed.has_types)
        row = ColumnRow(partition, column, whole, is_tight=True)
        records.append(row.stored(key, _PARTITION_RECORD, has_types=indexed.has_types))
    certain = [column for column in keys if all(column in file.certain for file in files)]
    counted_files = CountedFiles(hash_of_files(file.path for file in files), frozenset(certain))
    records.append(counted_files.stored(partition, len(files), has_types=indexed.has_types))
    return records
