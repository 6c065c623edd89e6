"""What a read of a table comes down to: base files, slices to merge, columns, a range of commits.

`snapshot` and `incremental` make such a plan from the timeline and the file-system view; it is
executed here, Parquet files by Spark's native reader and slices with logs, or of base files in
another format or in two parts, by `file_slice_scan`; or all by `data_source` in Python workers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tideline.errors import UnsupportedTableError
from tideline.formats.base_file import is_read
from tideline.hudi.nature.guard import require_by_properties
from tideline.hudi.nature.permission import Permission
from tideline.hudi.table.file_group import BaseFile, FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import COMMIT_TIME, with_meta_fields, without_meta_fields
from tideline.hudi.table.schema_history import SchemaHistory
from tideline.hudi.table.schema_history_reader import schema_history
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.file_slice_merge import SliceContext
from tideline.spark.arrow_types import arrow_to_spark
from tideline.spark.quoting import quoted
from tideline.spark.read.conversions import converted
from tideline.spark.read.file_index import read_base_files
from tideline.spark.read.file_slice_scan import read_file_slices
from tideline.spark.read.partition_values import PartitionLayout, split_by_certainty
from tideline.spark.read.stored_types import StoredFiles, group_by_stored_types


@dataclass(frozen=True, slots=True)
class CommitRange:
    """Commit times later than `after` and not later than `until`.

    Where these are times of completion, rows are selected by `times`, the requested times of the
    commits, which rows carry.
    """

    after: InstantTime
    until: InstantTime
    times: frozenset[InstantTime] | None = None


@dataclass(frozen=True, slots=True)
class TableScan:
    """The rows of `files` and `slices`, or those of them whose commit time is in `commits`.

    `files` are Parquet. `schema` has the meta columns, where the table has them, and the user's, in
    order. `timeline` is the one the plan was made from. Of the logs in `slices` what is later than
    `until` is left out.
    """

    timeline: ActiveTimeline
    schema: pa.Schema
    files: tuple[BaseFile, ...]
    commits: CommitRange | None = None
    slices: tuple[FileSlice, ...] = ()
    until: InstantTime | None = None

    def history(self, table: HoodieTable) -> SchemaHistory | None:
        """The versions of the schema, read as the scan's columns; None without any."""
        timeline = self.timeline if self.until is None else self.timeline.up_to(self.until)
        history = schema_history(table, timeline)
        return history and history.reading(without_meta_fields(self.schema))

    def slice_context(self, table: HoodieTable) -> SliceContext:
        """What merging the slices needs to know.

        Raises UnsupportedTableError where the rows cannot be merged here.
        """
        if any(piece.log_files for piece in self.slices):
            require_by_properties(table, Permission.MERGE_LOGS)
        return SliceContext.of(table, self.timeline, self.schema, self.until)


def scan_schema(table: HoodieTable, timeline: ActiveTimeline) -> pa.Schema:
    """The columns a read has: of a table without any schema yet, the meta columns only."""
    user_columns = table.table_schema(timeline)
    schema = user_columns if user_columns is not None else pa.schema([])
    return with_meta_fields(schema) if table.config.populate_meta_fields else schema


def split_slices(
    slices: Iterable[FileSlice],
) -> tuple[tuple[BaseFile, ...], tuple[FileSlice, ...]]:
    """The base files that are whole slices for Spark to read, and the slices that Arrow reads.

    These have logs to merge, or a base file in another format than Parquet or in two parts.
    """
    files, merged = [], []
    for piece in slices:
        base = piece.base_file
        if piece.log_files or (base is not None and not base.is_plain):
            merged.append(piece)
        elif base is not None:
            files.append(base)
    return tuple(files), tuple(merged)


def check_scan(table: HoodieTable, scan: TableScan, layout: PartitionLayout | None) -> None:
    """Raise UnsupportedTableError for files that no reader makes the table's columns of."""
    for piece in scan.slices:
        if piece.base_file and not is_read(piece.base_file.extension):
            raise UnsupportedTableError(
                "base files of this format are not read",
                table=table.uri,
                path=piece.base_file.path,
            )
    if layout and layout.is_dropped:
        partitions = {file.partition for file in scan.files}
        partitions |= {piece.group.partition for piece in scan.slices}
        _, uncertain = split_by_certainty(partitions, layout)
        if uncertain:
            raise UnsupportedTableError(
                "the files leave the partition columns out and the path does not give their values",
                table=table.uri,
                path=uncertain[0],
            )


def execute_scan(spark: SparkSession, table: HoodieTable, scan: TableScan) -> DataFrame:
    """The scan's rows. Nothing is read before Spark runs the query.

    Raises UnsupportedTableError for what Spark's reader cannot make of the files.
    """
    layout = PartitionLayout.of(table.config, scan.schema)
    check_scan(table, scan, layout)
    history = scan.history(table)
    groups = group_by_stored_types(table, scan.timeline, scan.schema, scan.files, history)
    frames = [_read_group(spark, table, group, scan.schema, layout) for group in groups]
    if scan.slices:
        context = scan.slice_context(table)
        frames.append(read_file_slices(spark, table.location, scan.slices, context, layout))
    if not frames:
        return spark.createDataFrame([], arrow_to_spark(scan.schema))
    first, *others = frames
    for other in others:
        first = first.unionAll(other)
    return first.where(_within(scan.commits)) if scan.commits else first


def _read_group(
    spark: SparkSession,
    table: HoodieTable,
    group: StoredFiles,
    schema: pa.Schema,
    layout: PartitionLayout | None,
) -> DataFrame:
    frame = read_base_files(
        spark,
        table.location,
        group.files,
        arrow_to_spark(group.schema),
        layout if layout and _keeps_types(layout, group.schema) else None,
    )
    if group.schema == schema:
        return frame
    columns = [
        converted(frame[_quoted(have.name)], have.type, want.type).alias(want.name)
        for have, want in zip(group.schema, schema, strict=True)
    ]
    return frame.select(*columns)


def _keeps_types(layout: PartitionLayout, schema: pa.Schema) -> bool:
    """Whether the files of a group store the partition columns in the table's types."""
    return all(schema.field(item.name).type == item.type for item in layout.schema)


def _within(commits: CommitRange) -> Column:
    time = F.col(COMMIT_TIME)
    if commits.times is not None:
        return time.isin([str(one) for one in sorted(commits.times)])
    # Instant times are ordered as text.
    return (time > commits.after.value) & (time <= commits.until.value)


def _quoted(name: str) -> str:
    return quoted(name)
