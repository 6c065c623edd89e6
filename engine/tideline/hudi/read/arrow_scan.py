"""The rows of a planned read in Arrow, without Spark.

1. Partition columns have the values in the path, where these are certain, as in reads by Spark. A
   filter rules partitions out by them, files by the metadata table (`file_pruning`), and row groups
   of files without logs by their statistics.
2. Threads read the next file slices, each its base file with its log merged in, with the columns
   asked for and those of the filter alone (`read_ahead`).
3. The filter selects the rows of each batch.

Slices come in the order of partitions and file groups. Memory depends on the number of threads, the
size of a batch and that of a slice's log.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tideline.errors import ConfigError
from tideline.formats.column_choice import chosen_columns
from tideline.formats.read_ahead import THREADS_MAX, in_order, reading_threads
from tideline.formats.row_batches import checked_limit, first_of
from tideline.formats.row_filter import RowFilter, having
from tideline.hudi.read.file_pruning import slices_with_rows
from tideline.hudi.read.partition_values import PartitionLayout
from tideline.hudi.read.slice_rows import SliceReader, SliceTask
from tideline.hudi.read.table_scan import TableScan, check_scan
from tideline.hudi.table.file_group import FileGroupId, FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable

_FEW_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class ArrowScan:
    """Rows of a table to be read; `schema` is that of its batches."""

    table: HoodieTable
    schema: pa.Schema
    reader: SliceReader
    tasks: tuple[SliceTask, ...]

    @classmethod
    def of(
        cls,
        table: HoodieTable,
        scan: TableScan,
        columns: str | Sequence[str] | None = None,
        condition: Any = None,
    ) -> ArrowScan:
        """The rows of `scan`, of its commits, with these columns or all, for which the condition
        holds.

        Raises ConfigError for unknown columns and for what is no condition (`RowFilter`),
        UnsupportedTableError for rows that are not read.
        """
        full = nullable(scan.schema)
        names = chosen_columns(columns, full.names, table.uri)
        if not names:
            raise ConfigError("no column is named: rows have at least one", table=table.uri)
        layout = PartitionLayout.of(table.config, scan.schema)
        check_scan(table, scan, layout)
        asked = row_filter = None if condition is None else RowFilter.of(condition, full)
        if scan.commits is not None:
            row_filter = scan.commits.row_filter(full).and_also(asked)
        slices, context = scan.all_slices(), scan.slice_context(table)
        if row_filter is not None:
            slices = possible_slices(slices, row_filter, layout)
        if asked is not None:
            slices = slices_with_rows(table, slices, asked, context, layout, scan.newest)
        return cls(
            table,
            pa.schema([full.field(name) for name in names]),
            SliceReader(context, full, row_filter),
            tuple(SliceTask.of(file_slice, layout) for file_slice in slices),
        )

    def batches(self, threads_max: int = THREADS_MAX) -> Generator[pa.RecordBatch]:
        """The rows, at least one a batch, slices read by so many threads.

        Raises CorruptTableError, UnsupportedTableError, and ConfigError for a condition that a
        row's value does not suit.
        """
        return in_order(self.tasks, self._rows, reading_threads(threads_max))

    def placed_batches(self) -> Generator[tuple[FileGroupId, pa.RecordBatch]]:
        """The same batches, each with the file group that its rows are in."""

        def placed(task: SliceTask) -> Iterator[tuple[FileGroupId, pa.RecordBatch]]:
            return ((task.file_slice.group, rows) for rows in self._rows(task))

        return in_order(self.tasks, placed, reading_threads())

    def to_reader(self, limit: int | None = None) -> pa.RecordBatchReader:
        """The rows, at most so many; one slice after the other where a few will do.

        Raises as `batches`, and ConfigError for a limit that is no number of rows.
        """
        rows_max = checked_limit(limit)
        is_short = rows_max is not None and rows_max <= _FEW_ROWS
        # A condition may have to look at many rows for a few.
        batches = self.batches(1 if is_short and not self.reader.row_filter else THREADS_MAX)
        return pa.RecordBatchReader.from_batches(self.schema, first_of(batches, rows_max))

    def _rows(self, task: SliceTask) -> Iterator[pa.RecordBatch]:
        return self.reader.rows(self.table.store, task, self.schema.names)


def possible_slices(
    slices: Sequence[FileSlice], row_filter: RowFilter, layout: PartitionLayout | None
) -> tuple[FileSlice, ...]:
    """The slices of partitions whose values do not contradict the filter."""
    partitions = sorted({file_slice.group.partition for file_slice in slices})
    if layout is None or not partitions or not row_filter.columns & set(layout.schema.names):
        return tuple(slices)
    found = row_filter.possible(having(layout.scalars(partition)) for partition in partitions)
    kept = {partitions[number] for number in found}
    return tuple(file_slice for file_slice in slices if file_slice.group.partition in kept)


def nullable(schema: pa.Schema) -> pa.Schema:
    """Files older than a column have no values for it."""
    return pa.schema([field.with_nullable(True) for field in schema])
