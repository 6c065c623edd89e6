"""The rows of a Spark DataFrame as new data files of an Iceberg table, written by tasks.

1. The columns are looked at before a job runs.
2. Rows of a partitioned table are shuffled by partition, as blocks of Arrow bytes, so that a
   partition is one task's; `write.distribution-mode` none leaves them where they are.
3. A task writes its rows as this process would, under names of its attempt, and answers with the
   files. What an attempt without an answer left is for the service remove_orphan_files.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tideline.errors import ConfigError
from tideline.iceberg.data.partition_values import PartitionSplitter
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.write.fitted_rows import fitted_rows
from tideline.iceberg.write.new_files import NewFiles
from tideline.spark.arrow_types import spark_to_arrow
from tideline.spark.iceberg.arrow_blocks import packed, unpacked
from tideline.spark.iceberg.tasks import answer, attempt_number, collected, pickled_error

_TASK, _FAILED, _BLOCK = "task", "failed", "block"
_ROUTED = f"{_TASK} int, {_FAILED} boolean, {_BLOCK} binary"
_ARROW_ROUTED = pa.schema([(_TASK, pa.int32()), (_FAILED, pa.bool_()), (_BLOCK, pa.binary())])


@dataclass(frozen=True, slots=True)
class FrameRows:
    """See `GivenRows`."""

    frame: DataFrame

    def streams(self) -> Iterable[pa.RecordBatchReader]:
        message = (
            "rows are looked up by key in this process: give those of a Spark DataFrame as "
            "`frame.toArrow()`, or write them by Iceberg's Spark runtime"
        )
        raise ConfigError(message)

    def write_into(self, files: NewFiles) -> None:
        none = pa.RecordBatch.from_pylist([], schema=spark_to_arrow(self.frame.schema))
        fitted_rows(none, files.layout.fields)
        if not files.is_distributed:
            answers = collected(self.frame, WriteRows(files))
        else:
            tasks = int(self.frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
            routed = self.frame.mapInArrow(RouteRows(files, tasks), _ROUTED)
            arranged = routed.repartitionById(tasks, F.col(_TASK))
            answers = collected(arranged, WriteBlocks(files))
        errors = [given for _, given in answers if isinstance(given, Exception)]
        files.written += [file for _, given in answers if isinstance(given, list) for file in given]
        if errors:
            raise errors[0]


@dataclass(frozen=True, slots=True)
class WriteRows:
    """Task function: rows in, the new files out."""

    files: NewFiles

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fields = self.files.layout.fields
        rows = (fitted_rows(batch, fields) for batch in batches if batch.num_rows)
        yield answer(0, partial(_written, self.files, rows))


@dataclass(frozen=True, slots=True)
class RouteRows:
    """Task function: rows in, blocks of rows out, each for the task that has their partition.

    Rows that do not fit become a block with the error, which that task meets.
    """

    files: NewFiles
    tasks: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        splitter = PartitionSplitter(self.files.spec, self.files.metadata.schema())
        try:
            for batch in batches:
                rows = fitted_rows(batch, self.files.layout.fields)
                for partition, part in splitter.split(rows):
                    task = zlib.crc32(repr(partition).encode()) % self.tasks
                    yield _block(task, packed(pa.Table.from_batches([part])))
        except Exception as error:
            yield _block(0, pickled_error(error), failed=True)


@dataclass(frozen=True, slots=True)
class WriteBlocks:
    """Task function: blocks of rows in, the new files out."""

    files: NewFiles

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield answer(0, partial(_written, self.files, _rows(batches)))


def _written(files: NewFiles, rows: Iterable[pa.RecordBatch]) -> list[DataFile]:
    own = files.of_attempt(attempt_number())
    own.add(rows)
    return own.written


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for failed, block in zip(batch.column(1), batch.column(2), strict=True):
            if failed.as_py():
                raise pickle.loads(block.as_py())
            yield from unpacked(block.as_py()).to_batches()


def _block(task: int, body: bytes, *, failed: bool = False) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{_TASK: task, _FAILED: failed, _BLOCK: body}], schema=_ARROW_ROUTED
    )
