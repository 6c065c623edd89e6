"""Rows that fill each other up but do not meet in a write task: folded by a task of their own.

- Rows of one key in a batch, where a global index or a bulk insert writes them.
- A row that a global index finds in another partition, and the stored row. Which partition it
  belongs to is known once it is filled up, for its partition column may be among what it lacks.

See `tideline.hudi.file_group.row_fold`.
Source: Hudi's HoodieIndexUtils.mergeIncomingWithExistingRecord.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tideline.hudi.file_group.file_slice_merge import SliceContext, read_file_slice
from tideline.hudi.file_group.handle_context import IS_DELETE, RECORD_KEY
from tideline.hudi.file_group.row_fold import RowFold
from tideline.hudi.keys.key_generator import KeyGenerator
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.write.batch_rules import ARRIVAL
from tideline.spark.arrow_types import spark_to_arrow
from tideline.spark.quoting import column_named
from tideline.spark.task_errors import carried_errors
from tideline.spark.write.batch import PARTITION_PATH
from tideline.spark.write.keys import partition_path_column, record_key_column
from tideline.storage.location import StoreLocation

_BEFORE_ALL_ARRIVALS = -(2**63)


def folded_rows(rows: DataFrame, fold: RowFold) -> DataFrame:
    """One row per key; the frame as it is where no key occurs twice."""
    key = list(fold.key)
    if rows.groupBy(*key).count().where(F.col("count") > 1).limit(1).isEmpty():
        return rows
    return _folded(rows, fold)


def filled_from_stored(
    rows: DataFrame,
    found: DataFrame,
    fold: RowFold,
    keys: KeyGenerator,
    slices: Sequence[FileSlice],
    reading: SliceContext,
    location: StoreLocation,
) -> DataFrame:
    """Incoming rows; those with a key in `found` are merged with their stored rows.

    These are in `slices`. A row that is left gets the partition path of its own columns, a delete
    keeps the one it came with. `fold` tells rows apart by the record key.
    """
    has_key = reading.populate_meta_fields
    names = [*([RECORD_KEY] if has_key else []), *fold.columns]
    schema = T.StructType([rows.schema[name] for name in names])
    read = ReadSlices(location, tuple(slices), reading, spark_to_arrow(schema))
    numbers = pa.table({"slice": pa.array(range(len(slices)), pa.int32())})
    frame = rows.sparkSession.createDataFrame(numbers)
    stored = frame.repartitionById(len(slices), F.col("slice")).mapInArrow(read, schema)
    key = column_named(RECORD_KEY) if has_key else record_key_column(keys, stored.schema)
    as_incoming = {
        RECORD_KEY: key,
        PARTITION_PATH: F.lit(""),
        ARRIVAL: F.lit(_BEFORE_ALL_ARRIVALS),
        IS_DELETE: F.lit(False),
    }
    given = [as_incoming.get(name, column_named(name)).alias(name) for name in rows.columns]
    older = stored.select(*given).join(found, RECORD_KEY, "left_semi")
    meets = rows.join(found, RECORD_KEY, "left_semi")
    merged = _folded(meets.unionByName(older), fold)
    path = partition_path_column(keys, merged.schema)
    if IS_DELETE in rows.columns:
        path = F.when(F.col(IS_DELETE), F.col(PARTITION_PATH)).otherwise(path)
    merged = merged.withColumn(PARTITION_PATH, path)
    return rows.join(found, RECORD_KEY, "left_anti").unionByName(merged)


def _folded(rows: DataFrame, fold: RowFold) -> DataFrame:
    arranged = rows.repartition(*fold.key).sortWithinPartitions(*fold.key, ARRIVAL)
    return arranged.mapInArrow(FoldRows(fold), rows.schema)


@dataclass(frozen=True, slots=True)
class FoldRows:
    """Task function: rows sorted by key and arrival -> one row per key."""

    fold: RowFold

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried_errors():
            yield from self.fold.fold_sorted(batches)


@dataclass(frozen=True, slots=True)
class ReadSlices:
    """Task function: numbers of slices -> `columns` of their merged rows, in Spark's types."""

    location: StoreLocation
    slices: tuple[FileSlice, ...]
    reading: SliceContext
    columns: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = self.location.open()
        wanted = self.columns.names
        with carried_errors():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    for rows in read_file_slice(store, self.slices[number], self.reading, wanted):
                        yield self._as_spark_has_them(rows)

    def _as_spark_has_them(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            column if column.type == field.type else column.cast(field.type)
            for field, column in zip(self.columns, rows.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.columns)
