"""File slices with logs as a frame: merged in Python workers, planned by Spark.

Which columns and partitions a query needs is known only when Spark plans it; `FileSliceRelation`
hears of it then, and a task is given just its slices and those columns. Rows travel to Java as
Arrow batches.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.util import PythonEvalType

from tideline.formats.row_filter import RowFilter
from tideline.hudi.file_group.file_slice_merge import SliceContext
from tideline.hudi.read.partition_values import PartitionLayout, split_by_certainty
from tideline.hudi.read.slice_rows import SliceReader, SliceTask
from tideline.hudi.table.file_group import FileGroupId, FileSlice
from tideline.spark.arrow_types import arrow_to_spark, spark_to_arrow
from tideline.spark.read.file_index import asked_of, compiled_relation, java_map
from tideline.spark.read.slice_choice import SliceChoice
from tideline.spark.task_errors import carried_errors
from tideline.storage.location import StoreLocation

_TASKS_PER_CORE = 4


@dataclass(frozen=True, slots=True)
class ReadSlices:
    """The task function: (descriptor, columns as JSON) -> the rows of these slices."""

    location: StoreLocation
    reader: SliceReader

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = self.location.open()
        with carried_errors():
            for batch in batches:
                for descriptor, columns in zip(batch.column(0), batch.column(1), strict=True):
                    task: SliceTask = pickle.loads(descriptor.as_py())
                    yield from self.reader.rows(store, task, json.loads(columns.as_py()))


def slice_reader(
    context: SliceContext,
    row_filter: RowFilter | None = None,
    asked: pa.Schema | None = None,
) -> SliceReader:
    """The reader of a context's slices, in the types Spark has for them or asks for."""
    types_ = {field.name: field for field in asked or ()}
    known = spark_to_arrow(arrow_to_spark(context.full_schema))
    target = pa.schema([types_.get(field.name, field) for field in known])
    return SliceReader(context, target, row_filter)


def read_file_slices(
    spark: SparkSession,
    location: StoreLocation,
    slices: Sequence[FileSlice],
    context: SliceContext,
    layout: PartitionLayout | None = None,
    choice: SliceChoice | None = None,
) -> DataFrame:
    """The merged rows of the slices, with the columns of the context's full schema.

    With `layout` filters on partition columns leave slices out; slices of partitions whose values
    are uncertain are always read. `choice` leaves out those without rows of a query.
    """
    by_partition: dict[str, list[FileSlice]] = {}
    for file_slice in slices:
        by_partition.setdefault(file_slice.group.partition, []).append(file_slice)
    certain, uncertain = split_by_certainty(by_partition, layout)
    values: dict[str, Sequence[str | None]] = dict(certain)
    frames = []
    if layout is not None and values:
        frames.append(_frame(spark, location, by_partition, values, context, layout, choice))
    if uncertain:
        values = dict.fromkeys(uncertain, ())
        frames.append(_frame(spark, location, by_partition, values, context, None, choice))
    first, *others = frames
    for other in others:
        first = first.unionAll(other)
    return first


def _frame(
    spark: SparkSession,
    location: StoreLocation,
    slices: dict[str, list[FileSlice]],
    values: dict[str, Sequence[str | None]],
    context: SliceContext,
    layout: PartitionLayout | None,
    choice: SliceChoice | None,
) -> DataFrame:
    """One relation over the slices of the partitions that `values` names."""
    jvm: Any = spark._jvm
    as_java_type = jvm.org.apache.spark.sql.types.DataType.fromJson
    descriptors: dict[str, bytes] = {}
    groups: dict[str, FileGroupId] = {}
    directories = []
    bytes_total = 0
    for partition, texts in values.items():
        names = []
        for file_slice in slices[partition]:
            name = f"slice-{len(descriptors)}"
            groups[name] = file_slice.group
            descriptors[name] = pickle.dumps(SliceTask.of(file_slice, layout))
            names.append((name, 1))
            bytes_total += file_slice.size_bytes
        directories.append(
            {"path": location.spark_uri(partition), "values": list(texts), "files": names}
        )
    schema = arrow_to_spark(context.full_schema)
    known = T.StructType() if layout is None else arrow_to_spark(layout.schema)
    index = compiled_relation(spark, "BaseFileRelation").index(
        spark._jsparkSession,
        json.dumps(directories),
        as_java_type(known.json()),
        java_map(jvm, {}),
        *asked_of(spark, None if choice is None else choice.of(groups, context.full_schema)),
    )
    frame = compiled_relation(spark, "FileSliceRelation").frame(
        spark._jsparkSession,
        as_java_type(schema.json()),
        _smallest(context.full_schema),
        index,
        java_map(jvm, descriptors),
        _java_function(ReadSlices(location, slice_reader(context)), schema),
        bytes_total,
        spark.sparkContext.defaultParallelism * _TASKS_PER_CORE,
    )
    return DataFrame(frame, spark)


def _java_function(function: ReadSlices, schema: T.StructType) -> Any:
    """The Java form of the task function, for `mapInArrow`."""
    wrapped: Any = pandas_udf(  # type: ignore[call-overload]
        function.__call__, returnType=schema, functionType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    return wrapped._unwrapped._judf


def _smallest(schema: pa.Schema) -> str:
    """The column that is cheapest to read when only the number of rows is asked for."""
    flat = [item.name for item in schema if not types.is_nested(item.type)]
    fixed = [name for name in flat if types.is_primitive(schema.field(name).type)]
    return str((fixed or flat or schema.names)[0])
