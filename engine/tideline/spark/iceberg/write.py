"""The rows of a Spark DataFrame as new data files of an Iceberg table, written by tasks.

1. The columns are looked at before a job runs.
2. Rows of a partitioned table are shuffled by partition, as blocks of Arrow bytes, so that a
   partition is one task's; `write.distribution-mode` none leaves them where they are.
3. A task writes its rows as this process would, under names of its attempt, and answers with the
   files. What an attempt without an answer left is for the service remove_orphan_files.

Rows that are found by key are in keyed_write.py.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tideline.iceberg.data.partition_values import PartitionSplitter
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.field_type import NestedField
from tideline.iceberg.write.fitted_rows import fitted_rows
from tideline.iceberg.write.new_files import NewFiles
from tideline.spark.arrow_blocks import packed, tuples_of, unpacked_rows
from tideline.spark.arrow_types import spark_to_arrow
from tideline.spark.iceberg.tasks import answer, attempt_number, collected, pickled_error

_TASK, _FAILED, _BLOCK = "task", "failed", "block"
ROUTED_ROWS = f"{_TASK} int, {_FAILED} boolean, {_BLOCK} binary"
_ARROW_ROUTED = pa.schema([(_TASK, pa.int32()), (_FAILED, pa.bool_()), (_BLOCK, pa.binary())])


PrepareRows = Callable[[pa.RecordBatch], pa.RecordBatch]
"""What rows pass before their columns are fitted to a table's; picklable."""


def write_frame(frame: DataFrame, files: NewFiles, prepare: PrepareRows | None) -> None:
    """Make new files of a frame's rows. Raises InvalidDataError for rows that do not fit, and what
    reading and writing them raise."""
    fit = FitBatch(files.layout.fields, prepare)
    fit(pa.RecordBatch.from_pylist([], schema=spark_to_arrow(frame.schema)))
    if not files.is_distributed:
        take_answers(files, collected(frame, WriteRows(files, fit)))
        return
    tasks = shuffle_tasks(frame)
    routed = frame.mapInArrow(RouteRows(files, tasks, fit), ROUTED_ROWS)
    take_answers(files, collected(by_partition(routed, tasks), WriteBlocks(files)))


def shuffle_tasks(frame: DataFrame) -> int:
    """How many tasks there are at most that have the rows of some partitions."""
    return int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)


def by_partition(routed: DataFrame, tasks: int) -> DataFrame:
    """Blocks of `ROUTED_ROWS`, each at its task."""
    return routed.repartitionById(tasks, F.col(_TASK))


def take_answers(files: NewFiles, answers: Sequence[tuple[int, Any]]) -> None:
    """Take up the files that tasks wrote. Raises what ended one of them."""
    files.written += [file for _, given in answers if isinstance(given, list) for file in given]
    for _, given in answers:
        if isinstance(given, Exception):
            raise given


def routed_blocks(
    files: NewFiles, tasks: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Blocks of `ROUTED_ROWS`, of rows in the columns of the files. What reading the rows raises
    becomes a block too, which a task meets."""
    splitter = PartitionSplitter(files.spec, files.metadata.schema())
    try:
        for rows in batches:
            for partition, part in splitter.split(rows):
                task = zlib.crc32(repr(partition).encode()) % tasks
                yield _block(task, packed(pa.Table.from_batches([part])))
    except Exception as error:
        yield _block(0, pickled_error(error), failed=True)


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
    """Task function: rows in, blocks of rows out, each for the task that has their partition."""

    files: NewFiles
    tasks: int
    fit: FitBatch

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from routed_blocks(self.files, self.tasks, map(self.fit, batches))


@dataclass(frozen=True, slots=True)
class RouteBlocks:
    """Task function: the same of blocks of rows."""

    files: NewFiles
    tasks: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = unpacked_rows(block for (block,) in tuples_of(batches))
        yield from routed_blocks(self.files, self.tasks, rows)


@dataclass(frozen=True, slots=True)
class WriteBlocks:
    """Task function: blocks of rows in, the new files out."""

    files: NewFiles

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = unpacked_rows(_without_failure(batches))
        yield answer(0, partial(written_files, self.files, rows))


def _without_failure(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    for _, failed, block in tuples_of(batches):
        if failed:
            raise pickle.loads(block)
        yield block


def _block(task: int, body: bytes, *, failed: bool = False) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{_TASK: task, _FAILED: failed, _BLOCK: body}], schema=_ARROW_ROUTED
    )
