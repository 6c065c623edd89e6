"""The rows of an Iceberg table's snapshot as a Spark DataFrame, read by tasks as they are here.

Files are planned when the DataFrame is made, in packs of some size, each for one task, which leaves
out what delete files delete, and the rows for which a condition does not hold. Spark's own filters
come after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tideline.formats.row_filter import RowFilter
from tideline.iceberg.bin_pack import pack
from tideline.iceberg.data.arrow_schema import readable_schema, refuse_unread
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.read.snapshot_choice import SnapshotChoice
from tideline.iceberg.read.table_rows import SelectedRows, missing_files_named, selected_files
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.table.file_io import FileIO
from tideline.spark.arrow_types import arrow_to_spark, spark_to_arrow
from tideline.spark.iceberg.tasks import numbered

PACK_BYTES = 128 * 1024 * 1024


def snapshot_frame(
    spark: SparkSession,
    io: FileIO,
    choice: SnapshotChoice,
    columns: Sequence[str],
    condition: Any = None,
) -> DataFrame:
    """The rows of a snapshot for which a condition holds, in some columns.

    Raises ConfigError for what is no condition, UnsupportedTableError naming a column whose type
    Spark does not have; reading raises CorruptTableError for files that are missing.
    """
    stored, unread = readable_schema(choice.metadata.schema().fields)
    chosen = pa.schema([stored.field(name) for name in columns])
    row_filter = None if condition is None else RowFilter.of(condition, stored)
    refuse_unread((*columns, *(row_filter.columns if row_filter else ())), unread)
    schema = arrow_to_spark(chosen)
    with missing_files_named(io):
        tasks = list(selected_files(io, choice, row_filter))
    packs = tuple(map(tuple, pack(tasks, _size, PACK_BYTES)))
    read = ReadPacks(io, choice.metadata, chosen, row_filter, spark_to_arrow(schema), packs)
    return numbered(spark, max(1, len(packs))).mapInArrow(read, schema)


def _size(task: FileScanTask) -> int:
    return task.data_file.file_size_bytes


@dataclass(frozen=True, slots=True)
class ReadPacks:
    """Task function: numbers of packs in, the selected rows of their files out."""

    io: FileIO
    metadata: TableMetadata
    chosen: pa.Schema
    row_filter: RowFilter | None
    schema: pa.Schema
    packs: Sequence[Sequence[FileScanTask]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = SelectedRows.of(self.io, self.metadata, self.chosen, self.row_filter)
        with missing_files_named(self.io):
            for number in (n for batch in batches for n in batch.column(0).to_pylist()):
                for task in self.packs[number] if self.packs else ():
                    for rows in reader.of_file(task):
                        yield self._fitted(rows)

    def _fitted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [rows.column(item.name).cast(item.type, safe=False) for item in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
