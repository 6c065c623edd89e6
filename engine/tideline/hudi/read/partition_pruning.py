"""The partitions that a condition rules out, by what `partition_stats` says of them.

A row has the bounds of a column in all files of a partition, so that one look stands for as many
as it has files. It counts where three things are so:

1. A row beside it, which Tideline writes, says that the files that it was made of are those that
   the reader would read, no more and no less (`metadata_table.partition_stats`). So it is as true
   for a reader of an older timeline, beside a writer that is about to complete, or after one of
   Hudi's, whose rows do not say which files had no part in them. A partition without such a row is
   read as if there were none of any.
2. The column is one whose bounds are certain in each of these files.
3. Rows are rows of files: nothing is filled up or merged by other rules. Of slices with logs meta
   columns do not count.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tideline.formats.row_filter import RowFilter
from tideline.hudi.file_group.file_slice_merge import SliceContext
from tideline.hudi.metadata_table.column_row import ColumnRow, rows_of
from tideline.hudi.metadata_table.partition_stats import (
    FILES_COUNTED,
    PARTITION_STATS_PARTITION,
    CountedFiles,
    hash_of_files,
    key_of_partition,
)
from tideline.hudi.metadata_table.reader import UNREADABLE, MetadataTable
from tideline.hudi.read.known_values import known_values
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import is_meta_column
from tideline.hudi.table.table_config import PARTITION_STATS
from tideline.index_lookups import count_lookup

FILES_PER_PARTITION = 2
"""Of fewer files a look at each takes no longer than one at its partition."""

_log = logging.getLogger(__name__)


def partitions_ruled_out(
    table: HoodieTable,
    slices: Sequence[FileSlice],
    wanted: Collection[str],
    row_filter: RowFilter,
    context: SliceContext,
    columns: Mapping[str, pa.DataType],
) -> frozenset[str]:
    """Those of the partitions `wanted` without a row that meets the condition, by these columns.

    `slices` are all that the scan has in them. Statistics that cannot be read rule out nothing.
    """
    by_partition: dict[str, list[FileSlice]] = {partition: [] for partition in wanted}
    for file_slice in slices:
        if file_slice.group.partition in by_partition:
            by_partition[file_slice.group.partition].append(file_slice)
    files = sum(
        len(file_slice.row_files) for found in by_partition.values() for file_slice in found
    )
    is_kept = table.config.has_kept(PARTITION_STATS)
    if not is_kept or not columns or files < FILES_PER_PARTITION * len(by_partition):
        return frozenset()
    try:
        stored = _Stored.of(table, by_partition, columns)
    except UNREADABLE as error:
        _log.warning("no partition is left out by statistics, for these are not read: %s", error)
        count_lookup(is_answered=False)
        return frozenset()
    looks = {
        partition: _Look(found, context, stored.columns_counted(partition, found))
        for partition, found in by_partition.items()
    }
    count_lookup(is_answered=any(look.counted for look in looks.values()))
    return frozenset(
        partition
        for partition, look in looks.items()
        if look.counted and not look.may_hold(row_filter, columns, stored.rows_in(partition))
    )


@dataclass(frozen=True, slots=True)
class _Stored:
    rows: Mapping[str, ColumnRow]
    columns: Collection[str]

    @classmethod
    def of(
        cls, table: HoodieTable, partitions: Collection[str], columns: Collection[str]
    ) -> _Stored:
        """Raises as `MetadataTable` and its `look_up`."""
        names = (FILES_COUNTED, *columns)
        keys = [key_of_partition(name, partition) for partition in partitions for name in names]
        found = MetadataTable(table.store, table.clock).look_up(PARTITION_STATS_PARTITION, keys)
        return cls(rows_of(found), columns)

    def row(self, column: str, partition: str) -> ColumnRow | None:
        row = self.rows.get(key_of_partition(column, partition))
        # Keys are hashes.
        is_of_it = row is not None and (row.file, row.column) == (partition, column)
        return row if is_of_it else None

    def columns_counted(self, partition: str, slices: Sequence[FileSlice]) -> frozenset[str]:
        """The columns whose rows are made of all files of these slices, and of no other."""
        row = self.row(FILES_COUNTED, partition)
        said = None if row is None else CountedFiles.parse(row)
        files = hash_of_files(file.path for file_slice in slices for file in file_slice.row_files)
        return said.columns if said is not None and said.files == files else frozenset()

    def rows_in(self, partition: str) -> Mapping[str, ColumnRow]:
        found = {column: self.row(column, partition) for column in self.columns}
        return {column: row for column, row in found.items() if row is not None}


@dataclass(frozen=True, slots=True)
class _Look:
    """The slices of a partition, and the columns whose rows count for them."""

    slices: Sequence[FileSlice]
    context: SliceContext
    counted: frozenset[str]

    def may_hold(
        self,
        row_filter: RowFilter,
        columns: Mapping[str, pa.DataType],
        rows: Mapping[str, ColumnRow],
    ) -> bool:
        """Whether any of the slices may hold rows that the condition selects."""
        has_logs = any(file_slice.log_files for file_slice in self.slices)
        if has_logs and (self.context.merge_mode is None or self.context.partial is not None):
            return True
        known = [
            said
            for name, row in rows.items()
            if name in self.counted
            and not (has_logs and is_meta_column(name))
            and self._had_its_name(name)
            and (said := known_values(row, columns[name], is_log=False)) is not None
        ]
        return row_filter.may_hold(known)

    def _had_its_name(self, column: str) -> bool:
        history = self.context.history
        if history is None:
            return True
        instants = {file.instant for file_slice in self.slices for file in file_slice.row_files}
        names = [history.names_at(time) for time in instants]
        return all(those is None or those.of(column).name == column for those in names)
