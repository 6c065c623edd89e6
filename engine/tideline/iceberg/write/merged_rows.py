"""The given rows of an upsert among the stored ones: in the places of those that they replace.

1. Copy-on-write reads the changed files once more, in all columns.
2. Merge-on-read writes the given rows alone; those that they replace are deleted where they lie.
   The changed files are read again where values of theirs stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.position_deletes import NO_POSITIONS
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.data.row_lineage import LAST_UPDATED, LINEAGE_FIELDS, ROW_ID, has_lineage
from tideline.iceberg.data.row_values import ABSENT
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.write.changed_files import ChangedFile, RowsReadAgain, read_again
from tideline.iceberg.write.given_changes import GivenChanges
from tideline.iceberg.write.keyed_rows import Flags
from tideline.iceberg.write.row_selection import RowNumbers
from tideline.iceberg.write.write_request import RowCounts

_BATCH_ROWS = 65_536


@dataclass(slots=True)
class MergedRows:
    """One merge of `given` rows with one state of the table; rows in `passed` are passed over for
    greater ones. `updated` counts those that took the places of others so far, `deleted` the stored
    rows that went without another one."""

    io: FileIO
    metadata: TableMetadata
    given: GivenChanges
    passed: RowNumbers
    updated: int = 0
    deleted: int = 0
    _comes: Flags = field(init=False)
    _batches: list[pa.RecordBatch] = field(init=False)

    def __post_init__(self) -> None:
        self._comes = self.given.comes.copy()
        self._comes[self.passed] = False
        # None of them copied.
        self._batches = list(self.given.rows.to_batches(max_chunksize=_BATCH_ROWS))

    @property
    def inserted(self) -> int:
        """How many rows came beside others."""
        return int(self._comes.sum()) - self.updated

    @property
    def counts(self) -> RowCounts:
        """What became of rows so far."""
        return RowCounts(self.inserted, self.updated, self.deleted)

    @property
    def kept_names(self) -> list[str]:
        """The columns of a stored row that stay where a given one takes its place, and those that
        decide it."""
        own = [ROW_ID.name] if has_lineage(self.metadata) else []
        lacking = self.given.unavailable
        order = self.given.keys.order.schema.names if lacking else []
        return list(dict.fromkeys([*own, *lacking, *order]))

    def among(self, changed: Iterable[ChangedFile]) -> Iterator[pa.RecordBatch]:
        """The rows of changed files with given rows in the places of those that they replace, then
        the other given rows. Raises as `changed_files` does."""
        read = read_again(self.io, RowLayout.of(self.metadata), changed)
        return self._merged(read, are_kept=True)

    def beside(self, changed: Iterable[ChangedFile]) -> Iterator[pa.RecordBatch]:
        """The given rows alone. Raises as `changed_files` does."""
        if self.given.unavailable:
            whole = RowLayout.of(self.metadata)
            layout = whole.projected(self.kept_names, has_lineage=whole.has_lineage)
            return self.over(read_again(self.io, layout, changed))
        return self._with_ids(changed)

    def over(self, stored: Iterable[RowsReadAgain]) -> Iterator[pa.RecordBatch]:
        """The given rows alone, where these are the rows that some of them replace. Raises what
        reading them raises."""
        return self._merged(stored, are_kept=False)

    def _merged(
        self, stored: Iterable[RowsReadAgain], *, are_kept: bool
    ) -> Iterator[pa.RecordBatch]:
        waits = self._comes.copy()
        for read in stored:
            if are_kept:
                yield read.unselected
            self.deleted += int((~self._comes[read.numbers]).sum())
            # Of rows that are there twice the first one is replaced.
            numbers, first = np.unique(read.numbers, return_index=True)
            is_new = waits[numbers]
            numbers, at = numbers[is_new], read.selected[first[is_new]]
            waits[numbers] = False
            self.updated += len(numbers)
            before = read.rows.select(self.kept_names).take(pa.array(at))
            yield from self._chosen(numbers, before)
        yield from self._chosen(np.flatnonzero(waits), None)

    def _with_ids(self, changed: Iterable[ChangedFile]) -> Iterator[pa.RecordBatch]:
        """With the ids of the rows that they replace: `changed` has these rows."""
        ids = np.full(len(self._comes), ABSENT, np.int64)
        replaces = np.zeros(len(self._comes), np.bool_)
        for file in changed:
            self.deleted += int((~self._comes[file.numbers]).sum())
            replaces[file.numbers] = True
            if has_lineage(self.metadata):
                stored = [rows.column(ROW_ID.name).fill_null(ABSENT) for rows in file.rows]
                ids[file.numbers] = np.concatenate([NO_POSITIONS, *stored])
        self.updated += int((replaces & self._comes).sum())
        numbers = np.flatnonzero(self._comes)
        known = pa.array(ids[numbers], pa.int64(), mask=ids[numbers] == ABSENT)
        yield from self._chosen(numbers, pa.record_batch([known], [ROW_ID.name]))

    def _chosen(
        self, numbers: RowNumbers, stored: pa.RecordBatch | None
    ) -> Iterator[pa.RecordBatch]:
        """Given rows of ascending numbers as new files have them; `stored` are those that they
        replace, in the columns whose values may stay."""
        kinds = arrow_schema(LINEAGE_FIELDS)
        carries = has_lineage(self.metadata)
        for rows, low, high in chosen_rows(self._batches, numbers):
            before = None if stored is None else stored.slice(low, high - low)
            if before is not None:
                rows = self._filled(rows, numbers[low:high], before)
            if carries:
                none = pa.nulls(rows.num_rows, pa.int64())
                ids = none if before is None else before.column(ROW_ID.name)
                rows = rows.append_column(kinds.field(ROW_ID.name), ids)
                rows = rows.append_column(kinds.field(LAST_UPDATED.name), none)
            yield rows

    def _filled(
        self, rows: pa.RecordBatch, numbers: RowNumbers, before: pa.RecordBatch
    ) -> pa.RecordBatch:
        """Given rows of these numbers with the values that they lack."""
        for name in self.given.unavailable:
            lacks = pa.array(self.given.stays(name, before, numbers))
            at = rows.schema.get_field_index(name)
            found = pc.if_else(lacks, before.column(name), rows.column(at))
            rows = rows.set_column(at, rows.schema.field(at), found)
        return rows


def chosen_rows(
    batches: Sequence[pa.RecordBatch], numbers: RowNumbers
) -> Iterator[tuple[pa.RecordBatch, int, int]]:
    """The rows of ascending numbers in parts, each with the place of its first row among them and
    that behind its last. Of the others nothing is copied: they may be more than fits in memory."""
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    cuts = np.searchsorted(numbers, starts).tolist()
    for batch, start, (low, high) in zip(batches, starts.tolist(), pairwise(cuts), strict=False):
        if low == high:
            continue
        is_whole = high - low == batch.num_rows
        yield batch if is_whole else batch.take(pa.array(numbers[low:high] - start)), low, high
