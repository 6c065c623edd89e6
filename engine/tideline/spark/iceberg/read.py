"""The rows of an Iceberg table's snapshot as a Spark DataFrame, read by tasks as they are here.

Files are planned when the DataFrame is made, in packs of some size, each for one task, which leaves
out what delete files delete. All columns are read: Spark's filters come after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tideline.iceberg.bin_pack import pack
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.file_rows import FileRows
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.read.snapshot_choice import SnapshotChoice
from tideline.iceberg.read.table_rows import missing_files_named
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.table.file_io import FileIO
from tideline.spark.arrow_types import arrow_to_spark, spark_to_arrow
from tideline.spark.iceberg.tasks import numbered

PACK_BYTES = 128 * 1024 * 1024


def snapshot_frame(spark: SparkSession, io: FileIO, choice: SnapshotChoice) -> DataFrame:
    """The rows of a snapshot in the columns of the choice.

    Raises UnsupportedTableError naming a column whose type Spark does not have; reading raises
    CorruptTableError for files that are missing.
    """
    schema = arrow_to_spark(arrow_schema(choice.metadata.schema().fields))
    with missing_files_named(io):
        tasks = list(plan_files(io, choice.metadata, choice.snapshot))
    packs = pack(tasks, _size, PACK_BYTES)
    layout = RowLayout.of(choice.metadata)
    read = ReadPacks(io, layout, spark_to_arrow(schema), tuple(map(tuple, packs)))
    return numbered(spark, max(1, len(packs))).mapInArrow(read, schema)


def _size(task: FileScanTask) -> int:
    return task.data_file.file_size_bytes


@dataclass(frozen=True, slots=True)
class ReadPacks:
    """Task function: numbers of packs in, the rows of their files out."""

    io: FileIO
    layout: RowLayout
    schema: pa.Schema
    packs: Sequence[Sequence[FileScanTask]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = FileRows(self.io, self.layout, any_format=True)
        with missing_files_named(self.io):
            for number in (n for batch in batches for n in batch.column(0).to_pylist()):
                for task in self.packs[number] if self.packs else ():
                    for rows in reader.batches(task):
                        yield self._fitted(rows)

    def _fitted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [rows.column(item.name).cast(item.type, safe=False) for item in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
