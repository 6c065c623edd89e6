"""The rows of a Spark DataFrame written into an Iceberg table by key, in tasks.

1. The frame is computed once, into blocks that Spark keeps on disk (given_frame.py).
2. The files that may have the keys are planned here, by the ranges of the keys. Tasks read the
   columns that decide, and keys meet given rows in buckets (keyed_tasks.py). Where the given keys
   are few, the tasks have a filter of them, and only rows that pass it are shuffled.
3. Tasks write what stays of the files, or what of them is deleted, and the rows that come
   (changed_write.py). Here are names of files, and how many rows of each go.
4. After a conflict 2 and 3 are done again on what the table has become.

A process that dies, and a task that fails, leave files that no snapshot lists; the service
remove_orphan_files takes them away.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.condition_pruning import ConditionPruning
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.write.attempt import WriteAttempt
from tideline.iceberg.write.key_filter import KeyFilter
from tideline.iceberg.write.key_ranges import ranges_filter
from tideline.iceberg.write.keyed_change import KeyedWrite
from tideline.iceberg.write.row_change import RowChange
from tideline.iceberg.write.row_selection import MatchingRows
from tideline.iceberg.write.write_request import RowCounts
from tideline.spark.iceberg.changed_write import ChangingFiles, ComingRows, packs_of_files
from tideline.spark.iceberg.given_frame import (
    BLOCK,
    FAILED,
    GIVEN,
    KIND,
    GivenSummary,
    filter_of,
    given_blocks,
    summary_of,
)
from tideline.spark.iceberg.keyed_tasks import (
    BUCKET,
    COUNT,
    COUNTS,
    FILE,
    FOUND,
    PLACES,
    ROUTED,
    FindRows,
    RouteGiven,
    ScanKeys,
)
from tideline.spark.iceberg.tasks import numbered
from tideline.spark.iceberg.write import PrepareRows

_BUCKET_BYTES, _SHARED_BYTES = 64 * 1024 * 1024, 4 * 1024 * 1024
_BUCKETS_MAX = 8192
_STORED_KEY_BYTES = 24
_FILTERED = 64
"""Of so many rows one is taken to pass a filter of keys."""


@contextmanager
def frame_by_key(
    frame: DataFrame, asked: KeyedWrite, arrival: str | None, prepare: PrepareRows | None
) -> Iterator[FrameChange]:
    """The rows, kept by Spark for as long as this is open. Raises InvalidDataError for rows that do
    not fit, and as Spark does when a row cannot be computed."""
    blocks = given_blocks(frame, asked, arrival, prepare).persist(StorageLevel.DISK_ONLY)
    try:
        yield FrameChange(blocks, asked, summary_of(blocks))
    finally:
        blocks.unpersist()


@dataclass(slots=True)
class FrameChange:
    """See `ChangeByKey`."""

    blocks: DataFrame
    asked: KeyedWrite
    summary: GivenSummary
    _filter: KeyFilter | None = None

    def change(self, attempt: WriteAttempt) -> RowChange:
        metadata = attempt.metadata
        self.asked.require_schema(metadata)
        within = ranges_filter(self.summary.ranges, arrow_schema(metadata.schema().fields))
        selection = MatchingRows(within, ConditionPruning(within, metadata))
        if not self.summary.rows:
            return attempt.change(RowCounts(), selection)
        tasks = list(
            plan_files(attempt.table.io, metadata, attempt.files.head, pruning=selection.pruning)
        )
        found = self._found(attempt, selection, tasks).persist(StorageLevel.DISK_ONLY)
        try:
            counts, going = _looked_at(found)
            changed = [(n, tasks[n], count) for n, count in going]
            coming = None if self.asked.deletes else ComingRows.of(found, counts, self.summary)
            ChangingFiles(attempt, found, changed).make(coming)
        finally:
            found.unpersist()
        return attempt.change(counts, selection)

    def _found(
        self, attempt: WriteAttempt, selection: MatchingRows, tasks: Sequence[FileScanTask]
    ) -> DataFrame:
        io, metadata, spark = attempt.table.io, attempt.metadata, self.blocks.sparkSession
        keys = self._keys(tasks)
        buckets = self._buckets(tasks, keys)
        given = self.blocks.where(F.col(KIND) == GIVEN).select(BLOCK)
        routed = given.mapInArrow(RouteGiven(self.asked, buckets), ROUTED)
        if tasks:
            packs = packs_of_files(list(enumerate(tasks)))
            marked, within = self.summary.marked, selection.row_filter
            scan = ScanKeys(io, metadata, self.asked, marked, within, keys, packs, buckets)
            routed = routed.unionAll(numbered(spark, len(packs)).mapInArrow(scan, ROUTED))
        arranged = routed.repartitionById(buckets, F.col(BUCKET))
        ordered = arranged.sortWithinPartitions(BUCKET, KIND, "first")
        return ordered.mapInArrow(FindRows(io, metadata, self.asked), FOUND)

    def _keys(self, tasks: Sequence[FileScanTask]) -> KeyFilter | None:
        """The filter of rows of these files; None where it says no more than the ranges do, or the
        keys are more than their rows, or too many."""
        count, ranges = self.summary.keys, self.summary.ranges
        is_known = len(ranges) == len(self.asked.key.numbers) == 1 and ranges[0].are_all
        if count is None or is_known or count >= _records(tasks):
            return None
        if self._filter is None:
            self._filter = filter_of(self.blocks)
        return self._filter

    def _buckets(self, tasks: Sequence[FileScanTask], keys: KeyFilter | None) -> int:
        """As many as tasks work on at once, so that none has much to hold."""
        records = _records(tasks)
        if keys is not None:
            # A key may be that of many rows: how many pass is not known here.
            records = min(records, max(2 * (self.summary.keys or 0), records // _FILTERED))
        size_bytes = self.summary.size_bytes + records * _STORED_KEY_BYTES
        at_once = self.blocks.sparkSession.sparkContext.defaultParallelism
        wanted = max(-(-size_bytes // _BUCKET_BYTES), min(at_once, -(-size_bytes // _SHARED_BYTES)))
        return max(1, min(wanted, _BUCKETS_MAX))


def _looked_at(found: DataFrame) -> tuple[RowCounts, list[tuple[int, int]]]:
    """What becomes of rows, and of how many in which file."""
    answers = found.where(F.col(KIND).isin(FAILED, COUNTS)).select(KIND, BLOCK).collect()
    total = RowCounts()
    for kind, block in answers:
        given = pickle.loads(block)
        if kind == FAILED:
            raise given
        total = total.plus(given)
    by_file = found.where(F.col(KIND) == PLACES).groupBy(FILE).agg(F.sum(COUNT))
    return total, sorted((file, count) for file, count in by_file.collect())


def _records(tasks: Sequence[FileScanTask]) -> int:
    return sum(task.data_file.record_count for task in tasks)
