"""The slices that a condition leaves of a scan, by what the metadata table says of their files.

Of the newest rows of a table those slices are left first that may have the keys that the condition
names (`key_lookup`). Then:

1. The table lists `column_stats`, and the condition reads a column whose bounds are used. Where
   there are few files nothing is looked up.
2. Partitions are left out whole where `partition_stats` says enough of them (`partition_pruning`).
3. A file may hold rows of the condition unless what is certain of its columns contradicts it
   (`known_values`). Nothing is certain of a column that it has under another name.
4. A slice is left out where none of its files may hold any: a row of it is a whole row of one of
   them. That is not so where rows are filled up or merged by other rules, nor of a log without a
   row of a column, which takes its values from older rows. Deletes only take rows away.

Columns that the path of a partition says are left to it: their stored values do not count.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.formats.row_filter import RowFilter
from tideline.hudi.file_group.file_slice_merge import SliceContext
from tideline.hudi.metadata_table.column_row import ColumnRow
from tideline.hudi.metadata_table.column_stats import FileRows
from tideline.hudi.metadata_table.file_ranges import ranges_of_files
from tideline.hudi.metadata_table.indexed_columns import META_COLUMNS as INDEXED_META_COLUMNS
from tideline.hudi.read.key_lookup import slices_with_keys
from tideline.hudi.read.known_values import has_known_order, known_values
from tideline.hudi.read.partition_pruning import partitions_ruled_out
from tideline.hudi.read.partition_values import PartitionLayout
from tideline.hudi.table.file_group import BaseFile, FileSlice, LogFile
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import RECORD_KEY, is_meta_column
from tideline.hudi.table.table_config import COLUMN_STATS
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.index_lookups import count_lookup

FILES_LOOKED_UP = 8
"""Of fewer files the footers are read: that takes no longer than a look into the statistics, which
are several files themselves."""

_log = logging.getLogger(__name__)


def slices_with_rows(
    table: HoodieTable,
    slices: Sequence[FileSlice],
    row_filter: RowFilter,
    context: SliceContext,
    layout: PartitionLayout | None,
    newest: ActiveTimeline | None = None,
) -> tuple[FileSlice, ...]:
    """The slices that may have rows for which the condition holds, as `context` reads them.

    `newest` is the timeline that has the slices as the newest ones of the table, logs and all.
    Indexes and statistics that cannot be read leave out nothing.
    """
    whole = slices
    if newest is not None and _count(slices) >= FILES_LOOKED_UP:
        named = row_filter.without(_of_other_values(row_filter, context, layout))
        slices = slices_with_keys(table, newest, slices, named)
    columns = _columns(row_filter, layout)
    slices = _of_partitions(table, whole, slices, row_filter, context, columns)
    paths = [file.path for file_slice in slices for file in file_slice.row_files]
    is_kept = table.config.has_kept(COLUMN_STATS)
    if not is_kept or not columns or len(paths) < FILES_LOOKED_UP:
        return tuple(slices)
    # The key tells a log of deletes alone from one without a column.
    keys = {RECORD_KEY} if any(file_slice.log_files for file_slice in slices) else set()
    try:
        rows = ranges_of_files(table, keys.union(columns), paths)
    except (CorruptTableError, UnsupportedTableError, ObjectNotFoundError) as error:
        _log.warning("no file is left out by statistics, for these cannot be read: %s", error)
        count_lookup(is_answered=False)
        return tuple(slices)
    count_lookup(is_answered=True)
    pruning = _Pruning(row_filter, context, rows, columns)
    kept = tuple(file_slice for file_slice in slices if pruning.may_hold(file_slice))
    left_out = len(slices) - len(kept)
    _log.debug("%d of %d file slices are left out by statistics", left_out, len(slices))
    return kept


@dataclass(frozen=True, slots=True)
class _Pruning:
    """A condition and what is said of files, by the columns' types as they are read."""

    row_filter: RowFilter
    context: SliceContext
    rows: FileRows
    columns: Mapping[str, pa.DataType]

    def may_hold(self, file_slice: FileSlice) -> bool:
        """Whether any file of a slice may hold rows that the condition selects."""
        if not file_slice.log_files:
            return any(self._file_may_hold(file, self.columns) for file in file_slice.row_files)
        if self.context.merge_mode is None or self.context.partial is not None:
            return True
        # Merging may write meta columns.
        columns = {name: kind for name, kind in self.columns.items() if not is_meta_column(name)}
        used = columns.keys() & {name for rows in self.rows.values() for name in rows}
        if any(not self._speaks_of(log, used) for log in file_slice.log_files):
            return True
        return any(self._file_may_hold(file, columns) for file in file_slice.row_files)

    def _speaks_of(self, log: LogFile, columns: set[str]) -> bool:
        rows = self.rows.get(log.path, {})
        is_told = columns <= rows.keys() and bool(columns)
        return is_told and (_is_empty(rows) or all(rows[name].range.values for name in columns))

    def _file_may_hold(self, file: BaseFile | LogFile, columns: Mapping[str, pa.DataType]) -> bool:
        rows = self.rows.get(file.path)
        if not rows:
            return True
        is_log = isinstance(file, LogFile)
        if is_log and _is_empty(rows):
            return False
        history = self.context.history
        names = None if history is None else history.names_at(file.instant)
        known = []
        for name, row in rows.items():
            if name not in columns or (names is not None and names.of(name).name != name):
                continue
            said = known_values(row, columns[name], is_log=is_log)
            if said is not None:
                known.append(said)
        return self.row_filter.may_hold(known)


def _columns(row_filter: RowFilter, layout: PartitionLayout | None) -> Mapping[str, pa.DataType]:
    """The columns of a condition whose bounds are used, and their types."""
    of_paths = () if layout is None else layout.schema.names
    return {
        field.name: field.type
        for field in row_filter.schema
        if field.name in row_filter.columns
        and field.name not in of_paths
        and has_known_order(field.type)
        and (not is_meta_column(field.name) or field.name in INDEXED_META_COLUMNS)
    }


def _of_partitions(
    table: HoodieTable,
    whole: Sequence[FileSlice],
    slices: Sequence[FileSlice],
    row_filter: RowFilter,
    context: SliceContext,
    columns: Mapping[str, pa.DataType],
) -> Sequence[FileSlice]:
    """Those of the slices whose partitions may hold rows; `whole` are all that are in these."""
    if _count(slices) < FILES_LOOKED_UP:
        return slices
    partitions = {file_slice.group.partition for file_slice in slices}
    gone = partitions_ruled_out(table, whole, partitions, row_filter, context, columns)
    _log.debug("%d of %d partitions are left out by statistics", len(gone), len(partitions))
    return [file_slice for file_slice in slices if file_slice.group.partition not in gone]


def _count(slices: Sequence[FileSlice]) -> int:
    return sum(len(file_slice.row_files) for file_slice in slices)


def _of_other_values(
    row_filter: RowFilter, context: SliceContext, layout: PartitionLayout | None
) -> frozenset[str]:
    """The columns of a condition whose values may not be those that keys were made of."""
    of_paths = set() if layout is None else set(layout.schema.names)
    # Values of a column that was renamed or retyped are in an index as they were spelled before.
    altered = row_filter.columns if context.history is not None else frozenset()
    return row_filter.columns & (of_paths | {name for name in altered if not is_meta_column(name)})


def _is_empty(rows: Mapping[str, ColumnRow]) -> bool:
    """Whether a log holds no row: all that it does is to delete."""
    return RECORD_KEY in rows and rows[RECORD_KEY].range.values == 0
