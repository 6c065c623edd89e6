"""`spark.readStream.format("tideline").load(uri)`: the rows or changes of commits, as they come.

1. The offset is a time up to which every commit is there (`newest_readable`): where instants say
   when they completed, the newest completion; else the newest commit that no pending write
   precedes. A stream therefore waits for such a write, and for what died until it is rolled back.
2. A batch is what commits after one offset and up to the next did: all there are, or as many as
   the limits of the stream let in (`BatchLimit`). Spark writes both offsets to its checkpoint
   before the batch runs, so a batch that is run again after a restart is of the same commits.
3. Without `after` it begins with the oldest commit. Spark keeps where batches end, and asks again
   where the first began; `after` may mean another time by then, so the end of the first says it.
4. Rows have the columns of now, also those of older commits: a query that is started again may run
   a batch that ended before a column was added. While it runs it keeps those it began with.

Offsets never go back: of a table that was restored a stream of rows continues with the next commit,
and one of changes is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tideline.errors import ConfigError
from tideline.hudi.read.asked_range import AskedRange, time_meant
from tideline.hudi.read.incremental import newest_readable, plan_between
from tideline.hudi.read.partition_values import PartitionLayout
from tideline.hudi.read.point_in_time import BEGINNING, point_in_time
from tideline.hudi.read.slice_rows import SliceReader, SliceTask
from tideline.hudi.read.table_scan import check_scan
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.spark.arrow_types import spark_to_arrow
from tideline.spark.read.change_source import (
    CommitPartition,
    commit_partitions,
    with_columns_of_now,
)
from tideline.spark.read.file_slice_scan import slice_reader
from tideline.spark.read.source_options import SourceOptions, require_columns
from tideline.spark.task_errors import carried_errors
from tideline.storage.location import StoreLocation

_AFTER, _UNTIL = "after", "until"

Offset = dict[str, str]
"""`until` is where a batch ends, `after` where the first one begins."""


class TidelineStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows one table. Picklable: holds values only."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        for name in ("as_of", "until"):
            if getattr(options, name) is not None:
                raise ConfigError(
                    f"a stream has no `{name}`: it begins `after` a time and continues", value=name
                )
        if options.deletes:
            raise ConfigError("a stream has no `deletes`: deleted rows are in its `changes`")
        self._options = options
        self._schema = schema
        self._newest: InstantTime | None = None
        """What there was when last asked."""
        self._last: InstantTime | None = None
        """Where a query ends that reads what is available when it starts."""

    def initialOffset(self) -> Offset:
        if self._options.after is None:
            return {_AFTER: str(BEGINNING)}
        table = self._options.open()
        after = point_in_time(table, self._options.after)
        return {_AFTER: str(time_meant(table, table.timeline(), after))}

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark has no limit of commits, nor two at the same time. It hands this one back, or
        # ReadAllAvailable where a trigger asks for everything; ours are in the options.
        return ReadMaxFiles(1) if self._options.limit.is_set else ReadAllAvailable()

    def latestOffset(self, start: Mapping[str, str], limit: ReadLimit) -> Offset:
        begin, table = _time(start), self._options.open()
        newest = self._last or newest_readable(table)
        self._newest = newest
        if newest is None or newest <= begin:
            return dict(start)
        if not isinstance(limit, ReadAllAvailable):
            newest = self._options.limit.end_of_batch(table, begin, newest)
        is_first = _UNTIL not in start
        return ({_AFTER: str(begin)} if is_first else {}) | {_UNTIL: str(newest)}

    def reportLatestOffset(self) -> Offset | None:
        """For the progress of the query, which shows by it how far behind it is."""
        return None if self._newest is None else {_UNTIL: str(self._newest)}

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = newest_readable(self._options.open()) or BEGINNING

    def partitions(
        self, start: Mapping[str, str], end: Mapping[str, str]
    ) -> Sequence[InputPartition]:
        begin, until = InstantTime(end[_AFTER]) if _AFTER in end else _time(start), _time(end)
        if begin == until:
            return []
        table = self._options.open()
        if self._options.changes:
            asked = AskedRange(begin, until, is_exact=True)
            return commit_partitions(with_columns_of_now(table, asked), self._schema)
        return _row_partitions(table, begin, until, self._schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark runs one task even when there is nothing to read.
        if isinstance(partition, CommitPartition | RowsPartition):
            yield from partition.rows()


@dataclass(frozen=True, slots=True)
class RowsPartition(InputPartition):
    """One file slice, and which of its rows are read how."""

    location: StoreLocation
    reader: SliceReader
    task: SliceTask
    columns: tuple[str, ...]

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows that commits of the batch wrote."""
        with carried_errors():
            yield from self.reader.rows(self.location.open(), self.task, self.columns)


def _row_partitions(
    table: HoodieTable, begin: InstantTime, until: InstantTime, schema: StructType
) -> Sequence[InputPartition]:
    scan = plan_between(table, begin, until)
    if scan.commits is None or not scan.all_slices():
        return []
    context = scan.slice_context(table, table.timeline())
    columns = context.full_schema
    require_columns(table, columns, schema)
    layout = PartitionLayout.of(table.config, columns)
    check_scan(table, scan, layout)
    reader = slice_reader(context, scan.commits.row_filter(columns), spark_to_arrow(schema))
    return [
        RowsPartition(table.location, reader, SliceTask.of(file_slice, layout), tuple(schema.names))
        for file_slice in scan.all_slices()
    ]


def _time(offset: Mapping[str, str]) -> InstantTime:
    """Up to where a stream has come."""
    return InstantTime(offset[_UNTIL] if _UNTIL in offset else offset[_AFTER])
