"""The data files of a snapshot that have selected rows, and what stays of them.

1. Files that may have such rows are found by their metadata, and looked at in the columns that the
   selection looks at alone.
2. Of those that have some all columns are read once more for copy-on-write: what is not selected
   stays, and given rows come in the places of those that they replace, with their row ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tideline.formats.read_ahead import in_order, reading_threads
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.deletion_vector import Positions
from tideline.iceberg.data.file_rows import FileRows
from tideline.iceberg.data.position_deletes import NO_POSITIONS
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.data.row_lineage import LAST_UPDATED, LINEAGE_FIELDS, ROW_ID
from tideline.iceberg.data.row_values import ABSENT
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.write.keyed_rows import GivenKeys
from tideline.iceberg.write.row_selection import RowNumbers, RowSelection

_BATCH_ROWS = 65_536
_LOOKED_UP_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A data file with selected rows: how many, whether these are all that live, and where they lie
    unless the file goes. `rows` are they, in the columns looked at, if they are wanted."""

    task: FileScanTask
    count: int
    is_whole: bool
    positions: Positions
    rows: tuple[pa.RecordBatch, ...] = ()


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
        if found.count or everything:
            yield found

    tasks = plan_files(io, metadata, head, pruning=selection.pruning)
    yield from in_order(tasks, look, reading_threads())


def kept_rows(
    io: FileIO, metadata: TableMetadata, changed: Iterable[ChangedFile], selection: RowSelection
) -> Iterator[pa.RecordBatch]:
    """The rows of changed files that are not selected, in all columns. Raises as `changed_files`
    does."""
    partly = (file.task for file in changed if not file.is_whole)
    for rows in _whole_rows(io, metadata, partly):
        stays = np.ones(rows.num_rows, np.bool_)
        stays[selection.numbers(rows)] = False
        yield rows.filter(pa.array(stays))


def merged_rows(
    io: FileIO,
    metadata: TableMetadata,
    changed: Iterable[ChangedFile],
    keys: GivenKeys,
    given: pa.Table,
    counted: Callable[[int], None],
) -> Iterator[pa.RecordBatch]:
    """The rows of changed files with given rows in the places of those that have their keys, then
    the other given rows; `counted` is called with the number that replaced some. Raises as
    `changed_files` does."""
    has_lineage = RowLayout.of(metadata).has_lineage
    batches = given_batches(given)
    wanted = np.zeros(given.num_rows, np.bool_)
    wanted[keys.last] = True
    replaced = 0
    for rows in _whole_rows(io, metadata, (file.task for file in changed)):
        numbers = keys.of_rows(rows)
        yield rows.filter(pa.array(numbers == ABSENT))
        at = np.flatnonzero(numbers != ABSENT)
        # Of rows that are there twice the first one is replaced.
        numbers, first = np.unique(numbers[at], return_index=True)
        is_new = wanted[numbers]
        numbers, at = numbers[is_new], at[first[is_new]]
        wanted[numbers] = False
        replaced += len(numbers)
        stored = rows.column(ROW_ID.name).take(pa.array(at)) if has_lineage else None
        yield from chosen_rows(batches, numbers, stored, has_lineage=has_lineage)
    counted(replaced)
    yield from chosen_rows(batches, np.flatnonzero(wanted), None, has_lineage=has_lineage)


def given_batches(given: pa.Table) -> list[pa.RecordBatch]:
    """Given rows in pieces, none of them copied."""
    return list(given.to_batches(max_chunksize=_BATCH_ROWS))


def chosen_rows(
    batches: Sequence[pa.RecordBatch],
    numbers: RowNumbers,
    ids: pa.Array | None,
    *,
    has_lineage: bool,
) -> Iterator[pa.RecordBatch]:
    """Given rows of ascending numbers as new files have them: with the ids of the rows that they
    replace. Of the others nothing is copied: they may be more than fits in memory."""
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    cuts = np.searchsorted(numbers, starts).tolist()
    kinds = arrow_schema(LINEAGE_FIELDS)
    for batch, start, (low, high) in zip(batches, starts.tolist(), pairwise(cuts), strict=False):
        if low == high:
            continue
        rows = batch
        if high - low < batch.num_rows:
            rows = batch.take(pa.array(numbers[low:high] - start))
        if has_lineage:
            none = pa.nulls(rows.num_rows, pa.int64())
            own = none if ids is None else ids.slice(low, high - low)
            rows = rows.append_column(kinds.field(ROW_ID.name), own)
            rows = rows.append_column(kinds.field(LAST_UPDATED.name), none)
        yield rows


def _looked_at(
    task: FileScanTask, reader: FileRows, selection: RowSelection | None, keeps_rows: bool
) -> ChangedFile:
    """Without a selection all rows are."""
    live = count = 0
    positions: list[Any] = [NO_POSITIONS]
    kept: list[pa.RecordBatch] = []
    for rows, at in _gathered(reader.numbered(task)):
        found = np.arange(rows.num_rows) if selection is None else selection.numbers(rows)
        live += rows.num_rows
        count += len(found)
        positions.append(at[found])
        if keeps_rows and len(found):
            kept.append(rows.take(pa.array(found)))
    is_whole = count == live and (bool(task.deletes) or live == task.data_file.record_count)
    where = NO_POSITIONS if is_whole else np.concatenate(positions)
    return ChangedFile(task, count, is_whole, where, tuple(kept))


def _whole_rows(
    io: FileIO, metadata: TableMetadata, tasks: Iterable[FileScanTask]
) -> Iterator[pa.RecordBatch]:
    reader = FileRows(io, RowLayout.of(metadata), any_format=True)
    numbered = in_order(tasks, reader.numbered, reading_threads())
    return (rows for rows, _ in _gathered(numbered))


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
