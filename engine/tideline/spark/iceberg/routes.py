"""Rows on their way to the task that makes files of them, as blocks of Arrow bytes.

1. By partition: a partition is one task's.
2. In the table's sort order: a task has the rows between two keys of it. A sample of the rows
   says which; one task has all of them where they are few.
"""

from __future__ import annotations

import math
import pickle
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tideline.formats.gathered_rows import gathered
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.partition_values import PartitionSplitter
from tideline.iceberg.data.row_order import RowOrder
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.write.key_bucket import divided
from tideline.iceberg.write.new_files import NewFiles
from tideline.spark.arrow_blocks import packed, tuples_of, unpacked
from tideline.spark.iceberg.tasks import collected, pickled_error

TASK, _FAILED, _BLOCK = "task", "failed", "block"
ROUTED_ROWS = f"{TASK} int, {_FAILED} boolean, {_BLOCK} binary"
_ARROW_ROUTED = pa.schema([(TASK, pa.int32()), (_FAILED, pa.bool_()), (_BLOCK, pa.binary())])
WRITTEN_BYTES = 256 * 1024 * 1024
"""Of rows in Arrow, in one task, where no partition says which task has them."""
_ROUTED_BYTES = 32 * 1024 * 1024
_SAMPLED_PER_TASK = 1000
_KEY_LENGTH = 256
"""Of texts and bytes among sampled keys: the driver has all of the sample."""


class Routes(Protocol):
    """Which of so many tasks has which rows; picklable."""

    @property
    def tasks(self) -> int: ...

    def parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of each task, many at once. Raises what reading the rows raises."""


@dataclass(frozen=True, slots=True)
class ByPartition:
    """Rows by the partitions of new files."""

    files: NewFiles
    tasks: int

    def parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        splitter = PartitionSplitter(self.files.spec, self.files.metadata.schema())
        for rows in batches:
            for partition, part in splitter.split(rows):
                yield zlib.crc32(repr(partition).encode()) % self.tasks, part


@dataclass(frozen=True, slots=True)
class InOrder:
    """Rows by the keys of an order, which `splits` cut into a part for each task."""

    order: RowOrder
    schema: Schema
    splits: pa.Table | None = None

    @classmethod
    def of(cls, files: NewFiles) -> InOrder:
        """One task for all rows of new files."""
        metadata = files.metadata
        return cls(RowOrder(metadata.sort_order().fields), metadata.schema())

    @property
    def tasks(self) -> int:
        return 1 if self.splits is None else self.splits.num_rows + 1

    def cut(self, sample: Iterable[pa.Table], tasks: int) -> InOrder:
        """The same for so many tasks, or fewer, by what `sampled` has of the rows."""
        splits = self.order.split_keys(pa.concat_tables(sample), tasks)
        return replace(self, splits=splits if splits.num_rows else None)

    def sampled(self, batches: Iterable[pa.RecordBatch], step: int) -> pa.Table:
        """The key of every so many rows."""
        skipped, keys = 0, [self._keys(arrow_schema(self.schema.fields).empty_table())]
        for rows in batches:
            at = np.arange(-skipped % step, rows.num_rows, step)
            skipped += rows.num_rows
            if len(at):
                keys.append(self._keys(pa.Table.from_batches([rows.take(pa.array(at))])))
        return pa.concat_tables(keys)

    def parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        for table in gathered(batches, _ROUTED_BYTES):
            rows = pa.RecordBatch.from_struct_array(table.to_struct_array().combine_chunks())
            if self.splits is None:
                yield 0, rows
                continue
            keys = self.order.keys(pa.Table.from_batches([rows]), self.schema)
            yield from divided(rows, self.order.part_numbers(keys, self.splits))

    def _keys(self, rows: pa.Table) -> pa.Table:
        found = self.order.keys(rows, self.schema)
        return pa.table([_cut(column) for column in found.columns], names=found.column_names)


def step_of_sample(rows: int, tasks: int) -> int:
    """Of every so many rows one is looked at."""
    return max(1, rows // (_SAMPLED_PER_TASK * tasks))


def tasks_in_order(rows: int, row_bytes: float) -> int:
    """How many tasks write so many rows."""
    return max(1, math.ceil(rows * row_bytes / WRITTEN_BYTES))


def samples(frame: DataFrame, task: Any) -> list[pa.Table]:
    """The tables that a task function answers with. Raises what ended one of them."""
    found = [given for _, given in collected(frame, task)]
    for given in found:
        if isinstance(given, Exception):
            raise given
    return [unpacked(given) for given in found]


def routed_blocks(routes: Routes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Blocks of `ROUTED_ROWS`, of rows in the columns of the files. What reading the rows raises
    becomes a block too, which a task meets."""
    try:
        for task, rows in routes.parts(batches):
            yield _block(task, packed(pa.Table.from_batches([rows])))
    except Exception as error:
        yield _block(0, pickled_error(error), failed=True)


def at_their_tasks(routed: DataFrame, routes: Routes) -> DataFrame:
    """Blocks of `ROUTED_ROWS`, each where it is written."""
    return routed.repartitionById(routes.tasks, F.col(TASK))


def blocks_without_failure(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """The blocks of `ROUTED_ROWS`. Raises what one of them says."""
    for _, failed, block in tuples_of(batches):
        if failed:
            raise pickle.loads(block)
        yield block


def _block(task: int, body: bytes, *, failed: bool = False) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{TASK: task, _FAILED: failed, _BLOCK: body}], schema=_ARROW_ROUTED
    )


def _cut(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Shorter values, in the same order: where the rows are cut need be no key of theirs."""
    if types.is_string(column.type):
        return pc.utf8_slice_codeunits(column, 0, _KEY_LENGTH)
    if types.is_binary(column.type):
        return pc.binary_slice(column, 0, _KEY_LENGTH)
    return column
