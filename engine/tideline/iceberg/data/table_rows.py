"""The live rows of a snapshot as a pyarrow Dataset: without what delete files delete.

1. A filter rules out manifests and data files by their partitions and metrics
   (`condition_pruning`), and row groups by their statistics.
2. Files are read one after another, with the columns asked for and those of the filter alone.
3. The filter selects the rows of each batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tideline.formats.row_batches import first_of
from tideline.formats.row_dataset import RowDataset
from tideline.formats.row_filter import RowFilter
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.condition_pruning import ConditionPruning
from tideline.iceberg.data.file_rows import FileRows
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.table.file_io import FileIO


def snapshot_dataset(io: FileIO, metadata: TableMetadata, snapshot: Snapshot | None) -> RowDataset:
    """The rows of a snapshot in the table's current columns; none without a snapshot.

    Reading raises as `FileRows.batches`.
    """
    schema = arrow_schema(metadata.schema().fields)

    def open_rows(
        columns: Sequence[str], condition: Any, limit: int | None
    ) -> pa.RecordBatchReader:
        chosen = pa.schema([schema.field(name) for name in columns])
        row_filter = None if condition is None else RowFilter.of(condition, schema)
        rows = _rows(io, metadata, snapshot, chosen, row_filter)
        return pa.RecordBatchReader.from_batches(chosen, first_of(rows, limit))

    def count_all() -> int:
        return _count(io, metadata, snapshot)

    return RowDataset(schema, open_rows, count_all)


def _count(io: FileIO, metadata: TableMetadata, snapshot: Snapshot | None) -> int:
    """The rows, by the manifests' counts; of files with deletes the columns that these compare are
    read."""
    first = {field.name for field in metadata.schema().fields[:1]}
    reader = FileRows(io, _projected(RowLayout.of(metadata), first))
    return sum(
        sum(batch.num_rows for batch in reader.batches(task))
        if task.deletes
        else task.data_file.record_count
        for task in plan_files(io, metadata, snapshot)
    )


def _rows(
    io: FileIO,
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    chosen: pa.Schema,
    row_filter: RowFilter | None,
) -> Iterator[pa.RecordBatch]:
    asked = {*chosen.names, *(() if row_filter is None else row_filter.columns)}
    reader = FileRows(io, _projected(RowLayout.of(metadata), asked), row_filter)
    pruning = None if row_filter is None else ConditionPruning(row_filter, metadata)
    for task in plan_files(io, metadata, snapshot, pruning=pruning):
        for batch in reader.batches(task):
            found = batch if row_filter is None else row_filter.selected(batch)
            if found.num_rows:
                columns = [found.column(name) for name in chosen.names]
                yield pa.RecordBatch.from_arrays(columns, schema=chosen)


def _projected(layout: RowLayout, names: set[str]) -> RowLayout:
    """The layout of these columns; deletes may still compare the others."""
    fields = tuple(
        nested_field for nested_field in layout.schema.fields if nested_field.name in names
    )
    return replace(
        layout,
        schema=replace(layout.schema, fields=fields),
        older_schemas=(layout.schema, *layout.older_schemas),
        has_lineage=False,
    )
