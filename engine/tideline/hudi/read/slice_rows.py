"""Merged rows of file slices in the Arrow types that their reader asks for; picklable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tideline.formats.row_filter import RowFilter
from tideline.hudi.file_group.file_slice_merge import FileSliceMerge, SliceContext
from tideline.hudi.read.partition_values import PartitionLayout
from tideline.hudi.table.file_group import FileSlice
from tideline.storage.object_store import ObjectStore

# The reader works on one batch while the next is made.
_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class SliceTask:
    """One slice to read, and the values of columns that are not read from its files."""

    file_slice: FileSlice
    constants: Mapping[str, pa.Scalar] = field(default_factory=dict)

    @classmethod
    def of(cls, file_slice: FileSlice, layout: PartitionLayout | None) -> SliceTask:
        """The task of a slice; `layout` gives the values of columns that the path says for certain.

        As in Hudi these count, not what rows of logs store: a MERGE of some columns in version 6
        leaves nulls there.
        """
        found = {} if layout is None else layout.scalars(file_slice.group.partition)
        return cls(file_slice, found)


@dataclass(frozen=True, slots=True)
class SliceReader:
    """How the slices of one scan are read.

    `target` has the types that the columns of the context are given in.
    """

    context: SliceContext
    target: pa.Schema
    row_filter: RowFilter | None = None

    def rows(
        self, store: ObjectStore, task: SliceTask, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """The merged rows of a slice that the filter selects, with these columns."""
        if self.row_filter is None:
            yield from self._all_rows(store, task, columns)
            return
        read = [*columns, *sorted(self.row_filter.columns - set(columns))]
        for batch in self._all_rows(store, task, read):
            found = self.row_filter.selected(batch)
            if found.num_rows:
                yield found.select(list(columns))

    def _all_rows(
        self, store: ObjectStore, task: SliceTask, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([self.target.field(name) for name in columns])
        stored = [name for name in columns if name not in task.constants]
        if not stored:
            # Some column must give the number of rows.
            stored = [next(name for name in self.target.names if name not in task.constants)]
        known = self.row_filter and self.row_filter.without(task.constants)
        merge = FileSliceMerge(store, task.file_slice, self.context, stored, row_filter=known)
        for batch in merge.batches():
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                yield self._shaped(batch.slice(start, _BATCH_ROWS), task.constants, schema)

    def _shaped(
        self, rows: pa.RecordBatch, constants: Mapping[str, pa.Scalar], schema: pa.Schema
    ) -> pa.RecordBatch:
        arrays = []
        for wanted in schema:
            if wanted.name in constants:
                array = pa.repeat(constants[wanted.name], rows.num_rows)
            else:
                array = rows.column(wanted.name)
            arrays.append(array if array.type == wanted.type else array.cast(wanted.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
