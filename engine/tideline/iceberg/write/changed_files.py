"""The data files of a snapshot that have selected rows, and what stays of them.

1. Files that may have such rows are found by their metadata, and looked at in the columns that the
   selection looks at alone.
2. Of those that have some all columns are read once more for copy-on-write: what is not selected
   stays, and given rows come in the places of those that they replace (merged_rows.py). Where the
   selected rows lie is known from the first look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tideline.formats.read_ahead import in_order, reading_threads
from tideline.iceberg.data.deletion_vector import Positions
from tideline.iceberg.data.file_rows import FileRows
from tideline.iceberg.data.position_deletes import NO_POSITIONS
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.write.keyed_rows import KeyedRows
from tideline.iceberg.write.row_selection import RowNumbers, RowSelection

_LOOKED_UP_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A data file with selected rows: how many, whether these are all that live, and where they
    lie, ascending; of a file that goes as a whole that is known where given rows replace them
    alone. `numbers` are those of these given rows. `rows` are the selected ones, in the columns
    looked at, if they are wanted; `passed` are given rows of an upsert that are passed over for
    greater ones of the file."""

    task: FileScanTask
    count: int
    is_whole: bool
    positions: Positions
    numbers: RowNumbers = field(default_factory=lambda: NO_POSITIONS)
    rows: tuple[pa.RecordBatch, ...] = ()
    passed: RowNumbers = field(default_factory=lambda: NO_POSITIONS)


def changed_files(
    io: FileIO,
    metadata: TableMetadata,
    head: Snapshot | None,
    selection: RowSelection,
    *,
    keeps_rows: bool = False,
) -> Iterator[ChangedFile]:
    """The files of a snapshot that have rows of a selection, in no particular order; `keeps_rows`:
    with these rows, and their ids.

    Raises ConfigError, CorruptTableError, UnsupportedTableError, StorageUnavailableError.
    """
    whole = RowLayout.of(metadata)
    names = selection.columns or {field.name for field in whole.schema.fields[:1]}
    layout = whole.projected(names, has_lineage=keeps_rows and whole.has_lineage)
    filtered = FileRows(io, layout, selection.row_filter, any_format=True)
    # With deletes the rows that live are counted by reading all of them.
    unfiltered = FileRows(io, layout, any_format=True)

    def look(task: FileScanTask) -> Iterator[ChangedFile]:
        everything = selection.of_file(task.data_file)
        if everything is False:
            return
        if everything and not task.deletes and not keeps_rows:
            yield ChangedFile(task, task.data_file.record_count, True, NO_POSITIONS)
            return
        reader = unfiltered if task.deletes else filtered
        found = _looked_at(task, reader, None if everything else selection, keeps_rows)
        if found.count or everything or len(found.passed):
            yield found

    tasks = plan_files(io, metadata, head, pruning=selection.pruning)
    yield from in_order(tasks, look, reading_threads())


def kept_rows(
    io: FileIO, metadata: TableMetadata, changed: Iterable[ChangedFile]
) -> Iterator[pa.RecordBatch]:
    """The rows of changed files that are not selected, in all columns. Raises as `changed_files`
    does."""
    partly = (file for file in changed if not file.is_whole)
    for read in read_again(io, RowLayout.of(metadata), partly):
        yield read.unselected


def rows_of_files(
    io: FileIO, layout: RowLayout, tasks: Iterable[FileScanTask]
) -> Iterator[pa.RecordBatch]:
    """The rows of files in these columns. Raises as `changed_files` does."""
    reader = FileRows(io, layout, any_format=True)
    return in_order(tasks, reader.batches, reading_threads())


@dataclass(frozen=True, slots=True)
class RowsReadAgain:
    """Rows of a changed file: which of them are selected, and the numbers of the given rows that
    replace these."""

    rows: pa.RecordBatch
    selected: RowNumbers
    numbers: RowNumbers

    @property
    def unselected(self) -> pa.RecordBatch:
        """The others."""
        stays = np.ones(self.rows.num_rows, np.bool_)
        stays[self.selected] = False
        return self.rows.filter(pa.array(stays))


def read_again(
    io: FileIO, layout: RowLayout, changed: Iterable[ChangedFile]
) -> Iterator[RowsReadAgain]:
    """The rows of changed files in these columns. Raises as `changed_files` does."""
    reader = FileRows(io, layout, any_format=True)

    def read(file: ChangedFile) -> Iterator[RowsReadAgain]:
        for rows, at in reader.numbered(file.task):
            if file.is_whole and not len(file.positions):
                yield RowsReadAgain(rows, np.arange(rows.num_rows), NO_POSITIONS)
                continue
            low, high = np.searchsorted(file.positions, (at[0], at[-1] + 1))
            selected = np.searchsorted(at, file.positions[low:high])
            yield RowsReadAgain(rows, selected, file.numbers[low:high])

    return in_order(changed, read, reading_threads())


def _looked_at(
    task: FileScanTask, reader: FileRows, selection: RowSelection | None, keeps_rows: bool
) -> ChangedFile:
    """Without a selection all rows are."""
    live = count = 0
    positions: list[Any] = [NO_POSITIONS]
    numbers: list[Any] = [NO_POSITIONS]
    passed: list[Any] = [NO_POSITIONS]
    kept: list[pa.RecordBatch] = []
    is_keyed = isinstance(selection, KeyedRows)
    for rows, at in _gathered(reader.numbered(task)):
        if isinstance(selection, KeyedRows):
            found, given, over = selection.keys.replaced(rows)
            numbers.append(given)
            passed.append(over)
        else:
            found = np.arange(rows.num_rows) if selection is None else selection.numbers(rows)
        live += rows.num_rows
        count += len(found)
        positions.append(at[found])
        if keeps_rows and len(found):
            kept.append(rows.take(pa.array(found)))
    is_whole = count == live and (bool(task.deletes) or live == task.data_file.record_count)
    where = NO_POSITIONS if is_whole and not is_keyed else np.concatenate(positions)
    return ChangedFile(
        task,
        count,
        is_whole,
        where,
        np.concatenate(numbers),
        tuple(kept),
        np.concatenate(passed),
    )


def _gathered(
    numbered: Iterable[tuple[pa.RecordBatch, Positions]],
) -> Iterator[tuple[pa.RecordBatch, Positions]]:
    """The same rows in large batches: keys are prepared for a look-up once for each batch."""
    held: list[tuple[pa.RecordBatch, Positions]] = []
    size_bytes = 0
    for rows, at in numbered:
        held.append((rows, at))
        size_bytes += rows.nbytes
        if size_bytes >= _LOOKED_UP_BYTES:
            yield _joined(held)
            held, size_bytes = [], 0
    if held:
        yield _joined(held)


def _joined(
    numbered: Sequence[tuple[pa.RecordBatch, Positions]],
) -> tuple[pa.RecordBatch, Positions]:
    if len(numbered) == 1:
        return numbered[0]
    rows = pa.concat_batches([rows for rows, _ in numbered])
    return rows, np.concatenate([at for _, at in numbered])
