"""The live rows of a snapshot as a pyarrow Dataset: without what delete files delete.

1. A filter rules out manifests and data files by their partitions and metrics
   (`condition_pruning`), and row groups by their statistics.
2. Threads read the next files, with the columns asked for and those of the filter alone.
3. The filter selects the rows of each batch.

Memory depends on the number of threads, the size of a batch and the delete files of the table.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.formats.read_ahead import THREADS_MAX, in_order, reading_threads
from tideline.formats.row_batches import checked_limit, first_of
from tideline.formats.row_dataset import RowDataset
from tideline.formats.row_filter import RowFilter
from tideline.iceberg.data.arrow_schema import readable_schema, refuse_unread
from tideline.iceberg.data.condition_pruning import ConditionPruning
from tideline.iceberg.data.file_rows import FileRows
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.read.snapshot_choice import SnapshotChoice
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.table.file_io import FileIO

_FEW_ROWS = 65_536


def snapshot_dataset(io: FileIO, choice: SnapshotChoice) -> RowDataset:
    """The rows of a snapshot in the columns of the choice; none without a snapshot.

    Reading raises as `FileRows.batches`, CorruptTableError for files that are missing, and
    UnsupportedTableError where it is to read a column of a type that is not read, which stands
    among the others without a type.
    """
    schema, unread = readable_schema(choice.metadata.schema().fields)

    def open_rows(
        columns: Sequence[str], condition: Any, limit: int | None
    ) -> pa.RecordBatchReader:
        chosen = pa.schema([schema.field(name) for name in columns])
        row_filter = None if condition is None else RowFilter.of(condition, schema)
        refuse_unread((*columns, *(row_filter.columns if row_filter else ())), unread)
        rows_max = checked_limit(limit)
        # A condition may have to look at many rows for a few.
        is_short = rows_max is not None and rows_max <= _FEW_ROWS and row_filter is None
        threads = 1 if is_short else reading_threads(THREADS_MAX)
        rows = _rows(io, choice, chosen, row_filter, threads)
        return pa.RecordBatchReader.from_batches(chosen, first_of(rows, rows_max))

    def count_all() -> int:
        with missing_files_named(io):
            return _count(io, choice, [name for name in schema.names if name not in unread])

    return RowDataset(schema, open_rows, count_all)


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """Reads the rows of data files for which a condition holds, in the columns of `chosen`."""

    reader: FileRows
    chosen: pa.Schema
    row_filter: RowFilter | None

    @classmethod
    def of(
        cls, io: FileIO, metadata: TableMetadata, chosen: pa.Schema, row_filter: RowFilter | None
    ) -> SelectedRows:
        """Of files of a table; other columns are read for the condition alone."""
        asked = {*chosen.names, *(() if row_filter is None else row_filter.columns)}
        layout = RowLayout.of(metadata).projected(asked)
        return cls(FileRows(io, layout, row_filter, any_format=True), chosen, row_filter)

    def of_file(self, task: FileScanTask) -> Iterator[pa.RecordBatch]:
        """The rows of one file. Raises as `FileRows.batches`."""
        for batch in self.reader.batches(task):
            found = batch if self.row_filter is None else self.row_filter.selected(batch)
            if found.num_rows:
                columns = [found.column(name) for name in self.chosen.names]
                yield pa.RecordBatch.from_arrays(columns, schema=self.chosen)


def selected_files(
    io: FileIO, choice: SnapshotChoice, row_filter: RowFilter | None
) -> Iterator[FileScanTask]:
    """The files of a snapshot that may have rows for which a condition holds."""
    pruning = None if row_filter is None else ConditionPruning(row_filter, choice.metadata)
    return plan_files(io, choice.metadata, choice.snapshot, pruning=pruning)


@contextmanager
def missing_files_named(io: FileIO) -> Iterator[None]:
    """Raises CorruptTableError for a file that metadata names and that is not there."""
    try:
        yield
    except ObjectNotFoundError as error:
        raise CorruptTableError(
            "a file that the table's metadata names is missing: it was deleted, or expired while "
            "it was read",
            table=io.location.uri,
            path=error.path,
        ) from error


def _count(io: FileIO, choice: SnapshotChoice, readable: Sequence[str]) -> int:
    """The rows, by the manifests' counts; of files with deletes the columns that these compare are
    read."""
    layout = RowLayout.of(choice.metadata).projected(readable[:1])
    reader = FileRows(io, layout, any_format=True)
    return sum(
        sum(batch.num_rows for batch in reader.batches(task))
        if task.deletes
        else task.data_file.record_count
        for task in plan_files(io, choice.metadata, choice.snapshot)
    )


def _rows(
    io: FileIO,
    choice: SnapshotChoice,
    chosen: pa.Schema,
    row_filter: RowFilter | None,
    threads: int,
) -> Generator[pa.RecordBatch]:
    reader = SelectedRows.of(io, choice.metadata, chosen, row_filter)
    with missing_files_named(io):
        tasks = selected_files(io, choice, row_filter)
        yield from in_order(tasks, reader.of_file, threads, first_alone=True)
