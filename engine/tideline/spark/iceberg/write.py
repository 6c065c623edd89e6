"""The rows of a Spark DataFrame as new data files of an Iceberg table, written by tasks.

1. The columns are looked at before a job runs.
2. Rows of a partitioned table are shuffled by partition, as blocks of Arrow bytes, so that a
   partition is one task's; those of another one with a sort order by that, so that files have
   little of it in common. `write.distribution-mode` none leaves rows where they are.
3. A task writes its rows as this process would, under names of its attempt, and answers with the
   files. What an attempt without an answer left is for the service remove_orphan_files.

Rows that are found by key are in keyed_write.py.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tideline.formats.gathered_rows import gathered
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.field_type import NestedField
from tideline.iceberg.write.distribution import Distribution
from tideline.iceberg.write.fitted_rows import fitted_rows
from tideline.iceberg.write.new_files import NewFiles
from tideline.spark.arrow_blocks import packed, tuples_of, unpacked_rows
from tideline.spark.arrow_types import spark_to_arrow
from tideline.spark.iceberg.routes import (
    ROUTED_ROWS,
    ByPartition,
    InOrder,
    Routes,
    at_their_tasks,
    blocks_without_failure,
    routed_blocks,
    samples,
    step_of_sample,
    tasks_in_order,
)
from tideline.spark.iceberg.tasks import answer, attempt_number, collected, pickled_error

_FITTED = "count long, bytes long, error binary, block binary"
_ARROW_FITTED = pa.schema(
    [("count", pa.int64()), ("bytes", pa.int64()), ("error", pa.binary()), ("block", pa.binary())]
)
_BLOCK_BYTES = 8 * 1024 * 1024

PrepareRows = Callable[[pa.RecordBatch], pa.RecordBatch]
"""What rows pass before their columns are fitted to a table's; picklable."""


def write_frame(frame: DataFrame, files: NewFiles, prepare: PrepareRows | None) -> None:
    """Make new files of a frame's rows. Raises InvalidDataError for rows that do not fit, and what
    reading and writing them raise."""
    fit = FitBatch(files.layout.fields, prepare)
    fit(pa.RecordBatch.from_pylist([], schema=spark_to_arrow(frame.schema)))
    match files.distribution:
        case Distribution.IN_PLACE:
            take_answers(files, collected(frame, WriteRows(files, fit)))
        case Distribution.BY_PARTITION:
            routes = ByPartition(files, shuffle_tasks(frame))
            routed = frame.mapInArrow(RouteRows(routes, fit), ROUTED_ROWS)
            take_answers(files, collected(at_their_tasks(routed, routes), WriteBlocks(files)))
        case Distribution.IN_ORDER:
            _write_in_order(frame, files, fit)


def shuffle_tasks(frame: DataFrame) -> int:
    """How many tasks there are at most that have the rows of some partitions."""
    return int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)


def take_answers(files: NewFiles, answers: Sequence[tuple[int, Any]]) -> None:
    """Take up the files that tasks wrote. Raises what ended one of them."""
    files.written += [file for _, given in answers if isinstance(given, list) for file in given]
    for _, given in answers:
        if isinstance(given, Exception):
            raise given


def written_files(files: NewFiles, rows: Iterable[pa.RecordBatch]) -> list[DataFile]:
    """The files that this attempt of a task makes of rows."""
    own = files.of_attempt(attempt_number())
    own.add(rows)
    return own.written


@dataclass(frozen=True, slots=True)
class FitBatch:
    """Rows as a frame has them in, in these columns of a table out."""

    fields: tuple[NestedField, ...]
    prepare: PrepareRows | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Raises InvalidDataError."""
        return fitted_rows(batch if self.prepare is None else self.prepare(batch), self.fields)


@dataclass(frozen=True, slots=True)
class WriteRows:
    """Task function: rows in, the new files out."""

    files: NewFiles
    fit: FitBatch

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (self.fit(batch) for batch in batches if batch.num_rows)
        yield answer(0, partial(written_files, self.files, rows))


@dataclass(frozen=True, slots=True)
class RouteRows:
    """Task function: rows in, blocks of rows out, each for its task."""

    routes: Routes
    fit: FitBatch

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from routed_blocks(self.routes, map(self.fit, batches))


@dataclass(frozen=True, slots=True)
class RouteBlocks:
    """Task function: the same of blocks of rows."""

    routes: Routes

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from routed_blocks(self.routes, _rows_of(batches))


@dataclass(frozen=True, slots=True)
class SampleBlocks:
    """Task function: blocks of rows in, the keys of every so many of them out."""

    order: InOrder
    step: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield answer(0, lambda: packed(self.order.sampled(_rows_of(batches), self.step)))


@dataclass(frozen=True, slots=True)
class WriteBlocks:
    """Task function: blocks of rows in, the new files out."""

    files: NewFiles

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = unpacked_rows(blocks_without_failure(batches))
        yield answer(0, partial(written_files, self.files, rows))


@dataclass(frozen=True, slots=True)
class FitBlocks:
    """Task function: rows in, blocks of rows out, each with its count and bytes, or the error that
    ended them."""

    fit: FitBatch

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            fitted = (self.fit(batch) for batch in batches if batch.num_rows)
            for rows in gathered(fitted, _BLOCK_BYTES):
                yield _fitted(count=rows.num_rows, bytes=rows.nbytes, block=packed(rows))
        except Exception as error:
            yield _fitted(error=pickled_error(error))


def _write_in_order(frame: DataFrame, files: NewFiles, fit: FitBatch) -> None:
    """A frame is computed once: Spark keeps its rows on disk until they are written."""
    fitted = frame.mapInArrow(FitBlocks(fit), _FITTED).persist(StorageLevel.DISK_ONLY)
    try:
        sums = fitted.agg(F.sum("count"), F.sum("bytes"), F.max("error")).first()
        count, size_bytes, error = sums if sums is not None else (0, 0, None)
        if error is not None:
            raise pickle.loads(error)
        if not count:
            return
        blocks = fitted.select("block")
        order, tasks = InOrder.of(files), tasks_in_order(count, size_bytes / count)
        if tasks > 1:
            sample = SampleBlocks(order, step_of_sample(count, tasks))
            order = order.cut(samples(blocks, sample), tasks)
        routed = blocks.mapInArrow(RouteBlocks(order), ROUTED_ROWS)
        take_answers(files, collected(at_their_tasks(routed, order), WriteBlocks(files)))
    finally:
        fitted.unpersist()


def _rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return unpacked_rows(block for (block,) in tuples_of(batches))


def _fitted(**cells: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([cells], schema=_ARROW_FITTED)
