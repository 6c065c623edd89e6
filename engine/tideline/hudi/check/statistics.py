"""Do the statistics of columns in the metadata table hold what the files hold?

Queries of Hudi's leave out a file, or a partition, whose bounds say that no row can match. A bound
that is too narrow, and a row that is missing, hide rows. Needs Arrow.

1. Bounds of base files are compared with their footers, and with the column where a footer has
   none. A file has a row of every column that is listed, or of none.
2. Log files are not read: only that they have their rows is looked at.
3. The rows of a partition hold those of its files, and what base files without rows hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow.parquet as pq

from tideline.check_finding import Finding
from tideline.errors import ObjectNotFoundError
from tideline.hudi.check.inspection import Inspection
from tideline.hudi.check.partition_findings import partition_findings
from tideline.hudi.file_group.column_ranges import ranges_of_base_file
from tideline.hudi.metadata_table.column_row import ColumnRow, rows_of
from tideline.hudi.metadata_table.column_stats import COLUMN_STATS_PARTITION, key_of
from tideline.hudi.metadata_table.indexed_columns import IndexedColumns, indexed_columns
from tideline.hudi.metadata_table.partition import Discrepancy
from tideline.hudi.metadata_table.partition_stats import (
    PARTITION_STATS_PARTITION,
    key_of_partition,
)
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.table.file_group import PARQUET, BaseFile, FileSlice, LogFile
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import COLUMN_STATS, PARTITION_STATS
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.column_range import ColumnRange, ordered, retyped, united

NAME = "statistics"
_LOST = "Hudi's queries may lose rows of it"


def check_statistics(seen: Inspection) -> Iterator[Finding]:
    """Findings about the statistics that the table's properties list."""
    wrong = wrong_statistics(seen.table, seen.view, seen.timeline)
    return partition_findings(seen, NAME, COLUMN_STATS, wrong, says="they are")


def wrong_statistics(
    table: HoodieTable, view: FileSystemView, timeline: ActiveTimeline
) -> Iterator[Discrepancy]:
    """Where statistics do not hold what the newest slices in `view` do.

    Raises CorruptTableError and UnsupportedTableError where they cannot be read.
    """
    config = table.config
    schema_json = table.schemas.newest_json(timeline)
    if not config.has_kept(COLUMN_STATS):
        return
    indexed = indexed_columns(table, schema_json) if schema_json is not None else "no schema"
    if isinstance(indexed, str):
        return
    metadata = MetadataTable(table.store, table.clock)
    stored = _Stored(rows_of(metadata.read(COLUMN_STATS_PARTITION)), indexed)
    has_partitions = PARTITION_STATS in config.metadata_partitions
    of_partitions: Mapping[str, ColumnRow] = {}
    if has_partitions:
        pending = {instant.time for instant in timeline.pending()}
        of_partitions = rows_of(metadata.read(PARTITION_STATS_PARTITION, pending))
    for partition in view.partitions:
        slices = view.latest_slices(partition)
        yield from _of_files(table, slices, stored)
        if has_partitions and slices:
            yield from _of_partition(table, partition, slices, stored, of_partitions)


@dataclass(frozen=True, slots=True)
class _Stored:
    rows: Mapping[str, ColumnRow]
    indexed: IndexedColumns

    def ranges(self, file: BaseFile | LogFile) -> dict[str, ColumnRange]:
        """What `column_stats` says of a file's listed columns."""
        keys = {name: key_of(name, file.partition, file.name) for name in self.indexed.listed}
        return {name: self.rows[key].range for name, key in keys.items() if key in self.rows}


def _of_files(
    table: HoodieTable, slices: Iterable[FileSlice], stored: _Stored
) -> Iterator[Discrepancy]:
    for file in (file for file_slice in slices for file in file_slice.files):
        ranges = stored.ranges(file)
        if not ranges:
            continue
        missing = [name for name in stored.indexed.listed if name not in ranges]
        if missing:
            message = f"has statistics, but none of {', '.join(missing)}: {_LOST}"
            yield Discrepancy(message, file.path, file.instant)
        if isinstance(file, BaseFile):
            for name, measured in _measured(table, file, ranges).items():
                found = retyped(ranges[name], measured.type)
                if found is not None and not _holds(found, measured):
                    message = f"the bounds of {name} do not hold its values: {_LOST}"
                    yield Discrepancy(message, file.path, file.instant)


def _measured(
    table: HoodieTable, file: BaseFile, columns: Iterable[str]
) -> Mapping[str, ColumnRange]:
    """The ranges of the columns that a base file has; none of one that was cleaned."""
    try:
        with table.store.open_reader(file.path) as stream:
            metadata = pq.read_metadata(stream)
        there = {column.path for column in metadata.schema}
        found: dict[str, ColumnRange] = {}
        for name in there.intersection(columns):
            found |= ranges_of_base_file(table.store, file.path, metadata, [name]) or {}
        return found
    except (ObjectNotFoundError, FileNotFoundError):
        return {}


def _without_rows(
    table: HoodieTable, file: BaseFile | LogFile, columns: Iterable[str]
) -> Mapping[str, ColumnRange]:
    """What a file holds that has no rows, as Hudi leaves one with a column that it cannot measure;
    nothing of a log, which is not read."""
    if isinstance(file, BaseFile) and file.extension == PARQUET:
        return _measured(table, file, columns)
    return {}


def _of_partition(
    table: HoodieTable,
    partition: str,
    slices: Iterable[FileSlice],
    stored: _Stored,
    of_partitions: Mapping[str, ColumnRow],
) -> Iterator[Discrepancy]:
    files = [file for file_slice in slices for file in file_slice.files]
    newest = max(files, key=lambda file: file.instant)
    ranges = [
        stored.ranges(file) or _without_rows(table, file, stored.indexed.listed) for file in files
    ]
    # Without any row, as of files in ORC, queries leave out no partition.
    pruned_by = {row.column for row in of_partitions.values()}
    # Nor does a partition without a row of the table need any.
    is_empty = all(found and not any(item.values for item in found.values()) for found in ranges)
    for name in stored.indexed.listed:
        row = of_partitions.get(key_of_partition(name, partition))
        if row is None and (name not in pruned_by or is_empty):
            continue
        if row is None:
            message = f"the partition has no statistics of {name}: Hudi's queries may leave it out"
            yield Discrepancy(message, partition, newest.instant)
            continue
        known = [
            retyped(found[name], row.range.type, room_of_floats=-1)
            for found in ranges
            if name in found
        ]
        whole = united((item for item in known if item is not None), row.range.type)
        if not _holds(row.range, whole):
            message = f"the bounds of {name} of the partition do not hold those of its files"
            yield Discrepancy(message, partition, newest.instant)


def _holds(stored: ColumnRange, measured: ColumnRange) -> bool:
    """Whether no row that a query looks for lies outside."""
    if measured.nulls and not stored.nulls:
        return False
    if measured.least is None or measured.greatest is None or measured.nulls >= measured.values:
        # Of nulls alone the bounds are any that a writer puts there.
        return True
    if stored.least is None or stored.greatest is None or stored.nulls >= stored.values:
        return False
    return ordered(stored.least) <= ordered(measured.least) and ordered(
        measured.greatest
    ) <= ordered(stored.greatest)
