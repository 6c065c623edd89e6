"""A planned read as a frame: Parquet files by Spark's native reader, slices with logs, or of base
files in another format or in two parts, by `file_slice_scan`."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tideline.hudi.read.partition_values import PartitionLayout
from tideline.hudi.read.table_scan import CommitRange, TableScan, check_scan
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import COMMIT_TIME
from tideline.spark.arrow_types import arrow_to_spark
from tideline.spark.quoting import quoted
from tideline.spark.read.conversions import converted
from tideline.spark.read.file_index import read_base_files
from tideline.spark.read.file_slice_scan import read_file_slices
from tideline.spark.read.slice_choice import SliceChoice
from tideline.spark.read.stored_types import StoredFiles, group_by_stored_types


def execute_scan(spark: SparkSession, table: HoodieTable, scan: TableScan) -> DataFrame:
    """The scan's rows. Nothing is read before Spark runs the query, and then only the slices that
    may have rows of it (`slice_choice`).

    Raises UnsupportedTableError for what Spark's reader cannot make of the files.
    """
    return execute_choice(spark, SliceChoice(table, scan))


def execute_choice(spark: SparkSession, choice: SliceChoice) -> DataFrame:
    """The same for a scan whose choice of slices is wanted as well."""
    table, scan, layout = choice.table, choice.scan, choice.layout
    check_scan(table, scan, layout)
    history = scan.history(table)
    groups = group_by_stored_types(table, scan.timeline, scan.schema, scan.files, history)
    frames = [_read_group(spark, choice, group) for group in groups]
    if scan.slices:
        context = scan.slice_context(table)
        frames.append(read_file_slices(spark, table.location, scan.slices, context, layout, choice))
    if not frames:
        return spark.createDataFrame([], arrow_to_spark(scan.schema))
    first, *others = frames
    for other in others:
        first = first.unionAll(other)
    return first.where(_within(scan.commits)) if scan.commits else first


def _read_group(spark: SparkSession, choice: SliceChoice, group: StoredFiles) -> DataFrame:
    schema, layout = choice.scan.schema, choice.layout
    frame = read_base_files(
        spark,
        choice.table.location,
        group.files,
        arrow_to_spark(group.schema),
        layout if layout and _keeps_types(layout, group.schema) else None,
        choice.of({file.name: file.group for file in group.files}, group.schema),
    )
    if group.schema == schema:
        return frame
    columns = [
        converted(frame[quoted(have.name)], have.type, want.type).alias(want.name)
        for have, want in zip(group.schema, schema, strict=True)
    ]
    return frame.select(*columns)


def _keeps_types(layout: PartitionLayout, schema: pa.Schema) -> bool:
    """Whether the files of a group store the partition columns in the table's types."""
    return all(schema.field(item.name).type == item.type for item in layout.schema)


def _within(commits: CommitRange) -> Column:
    time = F.col(COMMIT_TIME)
    if commits.times is not None:
        return time.isin([str(instant_time) for instant_time in sorted(commits.times)])
    # Instant times are ordered as text.
    return (time > commits.after.value) & (time <= commits.until.value)
