"""The rows of a Spark DataFrame written into an Iceberg table by key, in tasks.

1. The frame is computed once, into blocks that Spark keeps on disk (given_frame.py).
2. The files that may have the keys are planned here, by the ranges of the keys. Tasks read the
   columns that decide, and keys meet given rows in buckets (keyed_tasks.py). Where the given keys
   are few, the tasks have a filter of them, and only rows that pass it are shuffled.
3. Tasks write what stays of the files, or what of them is deleted, and the rows that come
   (changed_tasks.py). Here are names of files, and how many rows of each go.
4. After a conflict 2 and 3 are done again on what the table has become.

A process that dies, and a task that fails, leave files that no snapshot lists; the service
remove_orphan_files takes them away.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import itemgetter
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tideline.iceberg.bin_pack import pack
from tideline.iceberg.commit.file_identity import partition_key
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.condition_pruning import ConditionPruning
from tideline.iceberg.data.position_deletes import NO_POSITIONS
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.write.attempt import WriteAttempt
from tideline.iceberg.write.changed_files import ChangedFile
from tideline.iceberg.write.key_filter import KeyFilter
from tideline.iceberg.write.key_ranges import ranges_filter
from tideline.iceberg.write.keyed_change import KeyedWrite
from tideline.iceberg.write.row_change import RowChange
from tideline.iceberg.write.row_selection import MatchingRows
from tideline.iceberg.write.write_request import RowCounts
from tideline.spark.iceberg.changed_tasks import (
    DeleteRows,
    KeepRows,
    Packs,
    RouteKept,
    RoutePlaces,
    Taken,
)
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
    ROWS,
    FindRows,
    RouteGiven,
    ScanKeys,
)
from tideline.spark.iceberg.tasks import collected, numbered
from tideline.spark.iceberg.write import (
    ROUTED_ROWS,
    PrepareRows,
    RouteBlocks,
    WriteBlocks,
    by_partition,
    shuffle_tasks,
    take_answers,
)

_SCANNED_BYTES = 128 * 1024 * 1024
_BUCKET_BYTES, _SHARED_BYTES = 64 * 1024 * 1024, 4 * 1024 * 1024
_BUCKETS_MAX = 8192
_STORED_KEY_BYTES = 24
_FILTERED = 64
"""Of so many rows one is taken to pass a filter of keys."""
_WRITTEN_BYTES = 256 * 1024 * 1024
"""Of rows in Arrow, in one task, where no shuffle says which task has them."""
_PACK_FILES_MAX, _PACK_PLACES_MAX = 1000, 8_000_000


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
            changing = _Changing(attempt, found, [(n, tasks[n], count) for n, count in going])
            rows = None if self.asked.deletes else self._coming(found)
            changing.make(rows)
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
            packs = tuple(map(tuple, pack(list(enumerate(tasks)), _size, _SCANNED_BYTES)))
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

    def _coming(self, found: DataFrame) -> DataFrame:
        """The rows that come, in as many partitions as write them where they are."""
        rows = found.where(F.col(KIND) == ROWS).select(
            F.lit(0).alias("task"), F.lit(False).alias("failed"), F.col(BLOCK)
        )
        return rows.coalesce(max(1, -(-self.summary.size_bytes // _WRITTEN_BYTES)))


@dataclass(frozen=True, slots=True)
class _Changing:
    """Files with rows that go, each with their number, in one attempt."""

    attempt: WriteAttempt
    found: DataFrame
    going: Sequence[tuple[int, FileScanTask, int]]

    def make(self, rows: DataFrame | None) -> None:
        """Write what stays, or what goes, and the rows that come."""
        attempt, files = self.attempt, self.attempt.files
        attempt.changed = [
            ChangedFile(task, count, is_whole=False, positions=NO_POSITIONS)
            for _, task, count in self.going
        ]
        if files.is_distributed:
            self._write_by_partition(rows)
        else:
            self._write_in_place(rows)
        if self.going and attempt.merges_on_read:
            self._delete()

    def _write_in_place(self, rows: DataFrame | None) -> None:
        attempt, files = self.attempt, self.attempt.files
        if packs := self._kept_packs():
            kept = KeepRows(attempt.table.io, attempt.metadata, packs, files)
            take_answers(files, collected(self._places(packs), kept))
        if rows is not None:
            take_answers(files, collected(rows, WriteBlocks(files)))

    def _write_by_partition(self, rows: DataFrame | None) -> None:
        attempt, files = self.attempt, self.attempt.files
        tasks = shuffle_tasks(self.found)
        routed = []
        if packs := self._kept_packs():
            kept = RouteKept(attempt.table.io, attempt.metadata, packs, files, tasks)
            routed.append(self._places(packs).mapInArrow(kept, ROUTED_ROWS))
        if rows is not None:
            routed.append(rows.select(BLOCK).mapInArrow(RouteBlocks(files, tasks), ROUTED_ROWS))
        if routed:
            arranged = by_partition(reduce(DataFrame.unionAll, routed), tasks)
            take_answers(files, collected(arranged, WriteBlocks(files)))

    def _kept_packs(self) -> Packs:
        """Files with rows that stay, to be written again; none where rows are deleted in place."""
        if self.attempt.merges_on_read:
            return ()
        return pack(self.going, _size, _SCANNED_BYTES)

    def _delete(self) -> None:
        """Deletes of a partition are written together, as long as these are not too many."""
        attempt = self.attempt
        packs = _deleted_packs(self.going)
        work = DeleteRows(attempt.table.io, attempt.deletes.metadata, packs)
        answers = collected(self._places(packs), work)
        taken = [given for _, given in answers if isinstance(given, Taken)]
        attempt.deletes.written += [file for given in taken for file in given.written]
        attempt.deletes.removed += [file for given in taken for file in given.removed]
        for _, given in answers:
            if isinstance(given, Exception):
                raise given
        whole = {path for given in taken for path in given.whole}
        attempt.changed = [
            ChangedFile(task, count, task.data_file.file_path in whole, NO_POSITIONS)
            for _, task, count in self.going
        ]

    def _places(self, packs: Packs) -> DataFrame:
        """Where rows go that go, each pack in a Spark partition of its own."""
        number_of = {file: at for at, files in enumerate(packs) for file, _, _ in files}
        places = self.found.where(F.col(KIND) == PLACES).select(FILE, BLOCK)
        routed = places.mapInArrow(RoutePlaces(number_of), RoutePlaces.SCHEMA)
        return routed.repartitionById(len(packs), F.col("pack")).sortWithinPartitions("pack", FILE)


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


def _deleted_packs(going: Sequence[tuple[int, FileScanTask, int]]) -> Packs:
    by_partition: dict[Any, list[tuple[int, FileScanTask, int]]] = {}
    for file in going:
        by_partition.setdefault(partition_key(file[1].data_file), []).append(file)
    arranged = chain.from_iterable(by_partition.values())
    return pack(arranged, itemgetter(2), _PACK_PLACES_MAX, items_max=_PACK_FILES_MAX)


def _records(tasks: Sequence[FileScanTask]) -> int:
    return sum(task.data_file.record_count for task in tasks)


def _size(item: tuple[Any, ...]) -> int:
    task: FileScanTask = item[1]
    return task.data_file.file_size_bytes
