"""Files with rows that go, and the rows that come, written by tasks: one attempt of a write by key.

Rows that come go to the task of their partition, or to that of their place in the sort order of a
table without partitions, with the rows that stay where these are copied (see `Distribution`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import itemgetter
from typing import Any, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tideline.iceberg.bin_pack import pack
from tideline.iceberg.commit.file_identity import partition_key
from tideline.iceberg.data.position_deletes import NO_POSITIONS
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.write.attempt import WriteAttempt
from tideline.iceberg.write.changed_files import ChangedFile
from tideline.iceberg.write.distribution import Distribution
from tideline.iceberg.write.write_request import RowCounts
from tideline.spark.iceberg.changed_tasks import (
    DeleteRows,
    KeepRows,
    Packs,
    RouteKept,
    RoutePlaces,
    SampleKept,
    Taken,
)
from tideline.spark.iceberg.given_frame import BLOCK, KIND, GivenSummary
from tideline.spark.iceberg.keyed_tasks import FILE, PLACES, ROWS
from tideline.spark.iceberg.routes import (
    ROUTED_ROWS,
    TASK,
    ByPartition,
    InOrder,
    Routes,
    at_their_tasks,
    samples,
    step_of_sample,
    tasks_in_order,
)
from tideline.spark.iceberg.tasks import collected, numbered
from tideline.spark.iceberg.write import (
    RouteBlocks,
    SampleBlocks,
    WriteBlocks,
    shuffle_tasks,
    take_answers,
)

Numbered = TypeVar("Numbered", bound=tuple[Any, ...])
_SCANNED_BYTES = 128 * 1024 * 1024
_PACK_FILES_MAX, _PACK_PLACES_MAX = 1000, 8_000_000


@dataclass(frozen=True, slots=True)
class ComingRows:
    """Rows that come, as blocks: how many they are, and what one takes in Arrow."""

    blocks: DataFrame
    count: int
    row_bytes: float

    @classmethod
    def of(cls, found: DataFrame, counts: RowCounts, summary: GivenSummary) -> ComingRows:
        blocks = found.where(F.col(KIND) == ROWS).select(BLOCK)
        count = counts.inserted + counts.updated
        return cls(blocks, count, summary.size_bytes / summary.rows)

    def in_place(self) -> DataFrame:
        """Blocks of `ROUTED_ROWS` in as many partitions as write them where they are."""
        rows = self.blocks.select(F.lit(0).alias(TASK), F.lit(False).alias("failed"), F.col(BLOCK))
        return rows.coalesce(tasks_in_order(self.count, self.row_bytes))


@dataclass(frozen=True, slots=True)
class ChangingFiles:
    """Files with rows that go, each with their number, in one attempt."""

    attempt: WriteAttempt
    found: DataFrame
    going: Sequence[tuple[int, FileScanTask, int]]

    def make(self, coming: ComingRows | None) -> None:
        """Write what stays, or what goes, and the rows that come."""
        attempt = self.attempt
        attempt.changed = [
            ChangedFile(task, count, is_whole=False, positions=NO_POSITIONS)
            for _, task, count in self.going
        ]
        packs = () if attempt.merges_on_read else packs_of_files(self.going)
        routes = self._routes(packs, coming)
        if routes is None:
            self._write_in_place(packs, coming)
        else:
            self._write_at(routes, packs, coming)
        if self.going and attempt.merges_on_read:
            self._delete()

    def _routes(self, packs: Packs, coming: ComingRows | None) -> Routes | None:
        """Which tasks write which rows; None: those that have them."""
        files = self.attempt.files
        match files.distribution:
            case Distribution.BY_PARTITION:
                return ByPartition(files, shuffle_tasks(self.found))
            case Distribution.IN_ORDER if coming is not None:
                order = self._order(packs, coming)
                return order if packs or order.tasks > 1 else None
        return None

    def _write_in_place(self, packs: Packs, coming: ComingRows | None) -> None:
        attempt, files = self.attempt, self.attempt.files
        if packs:
            kept = KeepRows(attempt.table.io, attempt.metadata, packs, files)
            take_answers(files, collected(self._places(packs), kept))
        if coming is not None:
            take_answers(files, collected(coming.in_place(), WriteBlocks(files)))

    def _write_at(self, routes: Routes, packs: Packs, coming: ComingRows | None) -> None:
        attempt, files = self.attempt, self.attempt.files
        routed = []
        if packs:
            kept = RouteKept(attempt.table.io, attempt.metadata, packs, routes)
            routed.append(self._places(packs).mapInArrow(kept, ROUTED_ROWS))
        if coming is not None:
            routed.append(coming.blocks.mapInArrow(RouteBlocks(routes), ROUTED_ROWS))
        if routed:
            arranged = at_their_tasks(reduce(DataFrame.unionAll, routed), routes)
            take_answers(files, collected(arranged, WriteBlocks(files)))

    def _order(self, packs: Packs, coming: ComingRows) -> InOrder:
        """The tasks of the rows that come and of those that stay, by a sample of both."""
        attempt, order = self.attempt, InOrder.of(self.attempt.files)
        kept = sum(task.data_file.record_count - count for of in packs for _, task, count in of)
        count = coming.count + kept
        tasks = tasks_in_order(count, coming.row_bytes)
        if tasks == 1:
            return order
        step = step_of_sample(count, tasks)
        sample = samples(coming.blocks, SampleBlocks(order, step))
        if packs:
            work = SampleKept(attempt.table.io, attempt.metadata, packs, order, step)
            sample += samples(numbered(self.found.sparkSession, len(packs)), work)
        return order.cut(sample, tasks)

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


def packs_of_files(files: Sequence[Numbered]) -> tuple[tuple[Numbered, ...], ...]:
    """Files, each behind its number, as tasks read them."""
    return tuple(map(tuple, pack(files, _size, _SCANNED_BYTES)))


def _deleted_packs(going: Sequence[tuple[int, FileScanTask, int]]) -> Packs:
    by_partition: dict[Any, list[tuple[int, FileScanTask, int]]] = {}
    for file in going:
        by_partition.setdefault(partition_key(file[1].data_file), []).append(file)
    arranged = chain.from_iterable(by_partition.values())
    return pack(arranged, itemgetter(2), _PACK_PLACES_MAX, items_max=_PACK_FILES_MAX)


def _size(item: tuple[Any, ...]) -> int:
    task: FileScanTask = item[1]
    return task.data_file.file_size_bytes
