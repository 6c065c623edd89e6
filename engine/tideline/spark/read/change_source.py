"""What commits did to rows, as a Spark data source: `changes=true`, `deletes=true`.

The driver finds the commits of the range and refuses it when files are gone. Of changes each commit
is one task, which finds those of that commit alone as `LakeTable.changes` does: rows that moved are
paired within a commit only. Order rows by `_change_instant` to apply them.

What changes come down to (`deletes`) is found by some partitions of the table a task, or all in one
where a row may move from one to another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tideline.hudi.open_table import open_table
from tideline.hudi.read.asked_range import AskedRange
from tideline.hudi.read.changes import ChangeFeed, change_schema
from tideline.hudi.read.incremental import effective_time
from tideline.hudi.read.net_changes import NetChanges
from tideline.hudi.read.point_in_time import BEGINNING, Point
from tideline.hudi.read.table_scan import scan_schema
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.stored_value import converted_array
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.spark.arrow_types import arrow_to_spark, spark_to_arrow
from tideline.spark.read.source_options import SourceOptions, require_columns
from tideline.spark.task_errors import carried_errors
from tideline.storage.location import StoreLocation

_NET_TASKS_MAX = 64
"""Each reads what every commit of the range says of itself."""


def changes_schema(table: HoodieTable, options: SourceOptions) -> StructType:
    """`_change_type`, `_change_instant` and the table's columns at `until`, else of now.

    Without `until` nothing is planned: a stream that continues needs no older changes any more.
    """
    if options.until is None:
        return arrow_to_spark(_columns_of_now(table, table.timeline()))
    return arrow_to_spark(_feed(table, options).schema)


class ChangesReader(DataSourceReader):
    """Reads the changes of one commit a task, or what those of some partitions come down to."""

    def __init__(self, table: HoodieTable, options: SourceOptions, schema: StructType) -> None:
        split = net_partitions if options.deletes else commit_partitions
        self._partitions = split(_feed(table, options), schema)

    def partitions(self) -> Sequence[InputPartition]:
        return self._partitions

    def __getstate__(self) -> dict[str, object]:
        """What goes to every task: not the other tasks' commits."""
        return {"_partitions": []}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, CommitPartition):
            yield from partition.rows()


@dataclass(frozen=True, slots=True)
class CommitPartition(InputPartition):
    """One commit; or with `is_net` a range of them, in partitions of the table or all of it.

    `full` is what the table's columns are at the end of the whole range, `asked` what Spark asks
    for of these.
    """

    location: StoreLocation
    after: InstantTime
    until: InstantTime
    full: pa.Schema
    asked: pa.Schema
    is_net: bool = False
    only: tuple[str, ...] | None = None

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The changes, in Spark's types."""
        with carried_errors():
            table = open_table(self.location)
            asked = AskedRange(self.after, self.until, is_exact=True)
            feed = replace(ChangeFeed.of_range(table, asked, self.only), schema=self.full)
            whole = NetChanges(feed).read_all().to_batches() if self.is_net else feed.batches()
            for batch in whole:
                arrays = [
                    converted_array(batch.column(field.name), field.type) for field in self.asked
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=self.asked)


def with_columns_of_now(table: HoodieTable, asked: AskedRange) -> ChangeFeed:
    """The changes of a range, as rows with the columns that the table has now."""
    feed = ChangeFeed.of_range(table, asked)
    return replace(feed, schema=_columns_of_now(table, feed.plan.timeline))


def commit_partitions(feed: ChangeFeed, schema: StructType) -> list[CommitPartition]:
    """The commits of a feed that changed something, oldest first.

    Raises ConfigError for columns that the table does not have.
    """
    require_columns(feed.table, feed.schema, schema)
    asked = spark_to_arrow(schema)
    found, after = [], feed.plan.after
    for step in feed.plan.steps:
        until = effective_time(step.instant)
        if step.before or step.after:
            commit_partition = CommitPartition(
                feed.table.location, after, until, feed.schema, asked
            )
            found.append(commit_partition)
        after = until
    return found


def net_partitions(feed: ChangeFeed, schema: StructType) -> list[CommitPartition]:
    """The same for what a feed comes down to."""
    require_columns(feed.table, feed.schema, schema)
    touched = sorted(
        {group.partition for step in feed.plan.steps for group in {*step.before, *step.after}}
    )
    if not touched:
        return []
    location, asked = feed.table.location, spark_to_arrow(schema)
    whole = CommitPartition(location, feed.plan.after, feed.until, feed.schema, asked, is_net=True)
    if feed.keys_are_global():
        return [whole]
    tasks = min(len(touched), _NET_TASKS_MAX)
    return [replace(whole, only=tuple(touched[number::tasks])) for number in range(tasks)]


def _feed(table: HoodieTable, options: SourceOptions) -> ChangeFeed:
    after: Point = BEGINNING if options.after is None else options.after
    if options.until is None:
        return with_columns_of_now(table, AskedRange.of(table, after))
    return ChangeFeed.of(table, after, options.until)


def _columns_of_now(table: HoodieTable, timeline: ActiveTimeline) -> pa.Schema:
    return change_schema(table, scan_schema(table, timeline))
