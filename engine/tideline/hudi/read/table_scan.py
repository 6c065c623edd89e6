"""What a read of a table comes down to: base files, slices to merge, columns, a range of commits.

`snapshot` and `incremental` make such a plan from the timeline and the file-system view. It is
executed in Arrow by `arrow_scan`, or by Spark (tideline.spark.read).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tideline.errors import UnsupportedTableError
from tideline.formats.base_file import is_read
from tideline.formats.row_filter import RowFilter
from tideline.hudi.capabilities.guard import require_by_properties
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.file_group.file_slice_merge import SliceContext
from tideline.hudi.read.partition_values import PartitionLayout, split_by_certainty
from tideline.hudi.table.file_group import BaseFile, FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import COMMIT_TIME, with_meta_fields, without_meta_fields
from tideline.hudi.table.schema_history import SchemaHistory
from tideline.hudi.table.schema_history_reader import schema_history
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant_time import InstantTime


@dataclass(frozen=True, slots=True)
class CommitRange:
    """Commit times later than `after` and not later than `until`.

    Where these are times of completion, rows are selected by `times`, the requested times of the
    commits, which rows carry.
    """

    after: InstantTime
    until: InstantTime
    times: frozenset[InstantTime] | None = None

    def row_filter(self, schema: pa.Schema) -> RowFilter:
        """What rows of these commits meet, with these columns."""
        time = pc.field(COMMIT_TIME)
        if self.times is not None:
            condition = time.isin([str(instant_time) for instant_time in sorted(self.times)])
        else:
            # Instant times are ordered as text.
            condition = (time > self.after.value) & (time <= self.until.value)
        return RowFilter(condition, frozenset({COMMIT_TIME}), schema)


@dataclass(frozen=True, slots=True)
class TableScan:
    """The rows of `files` and `slices`, or those of them whose commit time is in `commits`.

    `files` are Parquet. `schema` has the meta columns, where the table has them, and the user's, in
    order. `timeline` is the one the plan was made from. Of the logs in `slices` what is later than
    `until` is left out. `is_snapshot`: these are the newest rows, logs merged in.
    """

    timeline: ActiveTimeline
    schema: pa.Schema
    files: tuple[BaseFile, ...]
    commits: CommitRange | None = None
    slices: tuple[FileSlice, ...] = ()
    until: InstantTime | None = None
    is_snapshot: bool = False

    @property
    def newest(self) -> ActiveTimeline | None:
        """The timeline, where the scan has all newest rows of it."""
        return self.timeline if self.is_snapshot else None

    def without_indexes(self) -> TableScan:
        """The same scan for rows that are about to be changed: a key that is stored twice has one
        record in an index, and has to be seen."""
        return replace(self, is_snapshot=False)

    def all_slices(self) -> tuple[FileSlice, ...]:
        """`files` and `slices` alike, in the order of partitions and file groups."""
        whole = (FileSlice(file.group, file.instant, file) for file in self.files)
        return tuple(
            sorted(
                (*whole, *self.slices),
                key=lambda file_slice: (file_slice.group.partition, file_slice.group.file_id),
            )
        )

    def history(self, table: HoodieTable) -> SchemaHistory | None:
        """The versions of the schema, read as the scan's columns; None without any."""
        timeline = self.timeline if self.until is None else self.timeline.up_to(self.until)
        history = schema_history(table, timeline)
        return history and history.reading(without_meta_fields(self.schema))

    def slice_context(
        self, table: HoodieTable, newest: ActiveTimeline | None = None
    ) -> SliceContext:
        """What merging the slices needs to know; with `newest` their rows are given the columns
        that the table has at its end.

        Raises UnsupportedTableError where the rows cannot be merged here.
        """
        merges = any(file_slice.log_files for file_slice in self.slices)
        if merges:
            require_by_properties(table, Permission.MERGE_LOGS)
        schema = self.schema if newest is None else scan_schema(table, newest)
        return SliceContext.of(
            table, self.timeline, schema, self.until, schemas=newest, merges=merges
        )


def scan_schema(table: HoodieTable, timeline: ActiveTimeline) -> pa.Schema:
    """The columns a read has: of a table without any schema yet, the meta columns only."""
    user_columns = table.schemas.newest(timeline)
    schema = user_columns if user_columns is not None else pa.schema([])
    return with_meta_fields(schema) if table.config.populate_meta_fields else schema


def split_slices(
    slices: Iterable[FileSlice],
) -> tuple[tuple[BaseFile, ...], tuple[FileSlice, ...]]:
    """The base files that are whole slices for Spark to read, and the slices that Arrow reads.

    These have logs to merge, or a base file in another format than Parquet or in two parts.
    """
    files, merged = [], []
    for file_slice in slices:
        base = file_slice.base_file
        if file_slice.log_files or (base is not None and not base.is_plain):
            merged.append(file_slice)
        elif base is not None:
            files.append(base)
    return tuple(files), tuple(merged)


def check_scan(table: HoodieTable, scan: TableScan, layout: PartitionLayout | None) -> None:
    """Raise UnsupportedTableError for files that no reader makes the table's columns of."""
    for file_slice in scan.slices:
        if file_slice.base_file and not is_read(file_slice.base_file.extension):
            raise UnsupportedTableError(
                "base files of this format are not read",
                table=table.uri,
                path=file_slice.base_file.path,
            )
    if layout and layout.is_dropped:
        partitions = {file.partition for file in scan.files}
        partitions |= {file_slice.group.partition for file_slice in scan.slices}
        _, uncertain = split_by_certainty(partitions, layout)
        if uncertain:
            raise UnsupportedTableError(
                "the files leave the partition columns out and the path does not give their values",
                table=table.uri,
                path=uncertain[0],
            )
