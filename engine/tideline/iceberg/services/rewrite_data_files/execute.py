"""Rewriting one file group: its live rows, in new files under the output spec.

1. `split_group` cuts the group's files at their row groups and packs these splits, each pack
   about one new file.
2. `write_file_splits` streams a pack into new files, row group by row group: those that need no
   change as they are stored, the others as rows. Or it sorts the pack in memory.

Source: Iceberg's `SparkBinPackFileRewriteRunner`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tideline.iceberg.data.file_layout import FileLayout
from tideline.iceberg.data.file_rows import FileRows
from tideline.iceberg.data.metrics_mode import MetricsConfig
from tideline.iceberg.data.parquet_settings import ParquetSettings
from tideline.iceberg.data.partitioned_writer import Output, write_data_files
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.data.row_order import RowOrder
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.data_locations import DataLocations
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.services.rewrite_data_files.file_split import FileSplit
from tideline.iceberg.services.rewrite_data_files.plan import FileGroup
from tideline.iceberg.services.rewrite_data_files.stored_file_splits import StoredFileSplits
from tideline.iceberg.table.file_io import FileIO


@dataclass(frozen=True, slots=True)
class RewriteContext:
    """What tasks need to know of the table; picklable.

    `write_id` is unique to the rewrite and part of every new file's name.
    """

    rows: RowLayout
    files: FileLayout
    locations: DataLocations
    write_id: str
    order: RowOrder | None

    @classmethod
    def of(
        cls,
        metadata: TableMetadata,
        *,
        write_id: str,
        order: RowOrder | None = None,
    ) -> RewriteContext:
        """For a table as it is now.

        Raises ConfigError, UnsupportedTableError, CorruptTableError.
        """
        rows, schema = RowLayout.of(metadata), metadata.schema()
        files = FileLayout(
            schema_id=schema.schema_id,
            fields=rows.fields,
            parquet=ParquetSettings.of(metadata.properties, schema),
            metrics=MetricsConfig.of(metadata.properties, schema, metadata.sort_order()),
            sort_order_id=0 if order is None else order.id_among(metadata.sort_orders),
        )
        return cls(rows, files, DataLocations.of(metadata), write_id, order)


def write_file_splits(
    io: FileIO,
    context: RewriteContext,
    target: Output,
    file_splits: Sequence[FileSplit],
    order: RowOrder | None,
    files: int,
) -> tuple[DataFile, ...]:
    """Rewrite some file splits of a group; ordered ones into `files` equal files, sorted in memory.

    When it fails none of the new files remains. Raises CorruptTableError, UnsupportedTableError,
    ObjectNotFoundError, StorageUnavailableError.
    """
    if order is None and target.partition is not None:
        stored = StoredFileSplits(io, context.rows, context.files, file_splits)
        return write_data_files(io, context.files, target, stored.rows(), copies=stored.copies())
    rows = read_file_splits(io, context.rows, file_splits)
    if order is None:
        return write_data_files(io, context.files, target, rows)
    written: list[DataFile] = []
    try:
        parts = files if target.partition is not None else 1
        for number, part in enumerate(order.sorted_parts(rows, context.rows.schema, parts)):
            of_part = replace(target, name_prefix=f"{target.name_prefix}-{number:05d}")
            written += write_data_files(io, context.files, of_part, part)
    except BaseException:
        io.remove_written(file.file_path for file in written)
        raise
    return tuple(written)


def group_order(context: RewriteContext, group: FileGroup) -> RowOrder | None:
    """The order of a group's rows: that of the rewrite, within partitions where there are many."""
    spec = context.rows.specs[group.output_spec_id]
    if known_partition(group, spec) is not None:
        return context.order
    return (context.order or RowOrder(())).within(spec)


def read_file_splits(
    io: FileIO, layout: RowLayout, file_splits: Sequence[FileSplit]
) -> Iterator[pa.RecordBatch]:
    """The live rows of the file splits, one after another."""
    reader = FileRows(io, layout)
    for file_split in file_splits:
        yield from reader.batches(file_split.task, file_split.part)


def known_partition(group: FileGroup, spec: PartitionSpec) -> tuple[Any, ...] | None:
    """The partition of all new files under their `spec`, when the group's files share it already
    or there is only one."""
    if spec.is_unpartitioned:
        return (None,) * len(spec.fields)
    partitions = {(task.spec_id, task.data_file.partition) for task in group.tasks}
    spec_id, partition = next(iter(partitions))
    return partition if len(partitions) == 1 and spec_id == group.output_spec_id else None


def output(context: RewriteContext, group: FileGroup, name_prefix: str) -> Output:
    """Where a group's new files go."""
    rows = sum(task.data_file.record_count for task in group.tasks)
    spec = context.rows.specs[group.output_spec_id]
    return Output(
        schema=context.rows.schema,
        spec=spec,
        partition=known_partition(group, spec),
        locations=context.locations,
        name_prefix=f"{group.index:05d}-{name_prefix}-{context.write_id}",
        row_bytes=group.input_bytes / max(1, rows),
        size_bytes_max=group.write_size_bytes_max,
    )
