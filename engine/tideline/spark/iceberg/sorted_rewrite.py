"""Sorting a file group that no task holds in memory.

1. A sample of the sort keys gives the splits: equal parts, several of them to a new file.
2. Tasks read file splits and send the rows of each part on as one block of Arrow bytes. Rows
   never become Spark rows, so that no type is lost.
3. Each new file's task gets its parts in order, sorts one at a time and writes it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tideline.iceberg.data.partitioned_writer import Output, write_data_files
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.data.row_order import RowOrder
from tideline.iceberg.services.rewrite_data_files.execute import RewriteContext, output
from tideline.iceberg.services.rewrite_data_files.file_split import FileSplit, packed_splits
from tideline.iceberg.services.rewrite_data_files.plan import FileGroup
from tideline.iceberg.services.rewrite_data_files.row_routing import (
    SAMPLE_ROWS_PER_PART,
    Routes,
    key_layout,
    sampled_keys,
)
from tideline.iceberg.table.file_io import FileIO
from tideline.spark.arrow_blocks import packed, tuples_of, unpacked, unpacked_rows
from tideline.spark.iceberg.tasks import answer, collected, numbered, of_attempt, pickled_error

_READERS_PER_PART = 4
_ERROR_PART = -1
_FILE, _PART, _BLOCK = "file", "part", "block"
_ROUTED = f"{_FILE} int, {_PART} int, {_BLOCK} binary"
_ARROW_ROUTED = pa.schema([(_FILE, pa.int32()), (_PART, pa.int32()), (_BLOCK, pa.binary())])


class SortedRewrite:
    """One ordered group that is larger than a task's memory."""

    def __init__(
        self,
        spark: SparkSession,
        io: FileIO,
        context: RewriteContext,
        group: FileGroup,
        order: RowOrder,
        part_bytes_max: int,
    ) -> None:
        self._spark, self._io, self._context = spark, io, context
        self._group, self._order = group, order
        self._files = group.outputs_expected
        self._parts = max(1, -(-group.input_bytes // (self._files * part_bytes_max)))
        self._file_splits = packed_splits(group, max(1, part_bytes_max // _READERS_PER_PART))

    def answers(self) -> list[tuple[int, Any]]:
        source = numbered(self._spark, len(self._file_splits))
        keys = key_layout(self._context.rows, self._order)
        parts = self._files * self._parts
        wanted = max(1, SAMPLE_ROWS_PER_PART * parts // len(self._file_splits))
        sampled = collected(source, SampleKeys(self._io, keys, self._file_splits, wanted))
        failed = [(self._group.index, item) for _, item in sampled if isinstance(item, Exception)]
        if failed:
            return failed
        sample = pa.concat_tables([unpacked(block) for _, block in sampled])
        routes = Routes.of(self._order, keys, sample, self._context.rows.schema, parts)
        route = RouteRows(self._io, self._context.rows, self._file_splits, routes, self._parts)
        rows = source.mapInArrow(route, _ROUTED)
        arranged = rows.repartitionById(self._files, F.col(_FILE)).sortWithinPartitions(
            _FILE, _PART
        )
        target = output(self._context, self._group, "sorted")
        return collected(
            arranged,
            WriteSorted(self._io, self._context, self._group.index, target, routes.order),
        )


@dataclass(frozen=True, slots=True)
class SampleKeys:
    """Task function: evenly spaced rows of the key columns of some file splits."""

    io: FileIO
    layout: RowLayout
    file_splits: Sequence[tuple[FileSplit, ...]]
    rows_wanted: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield answer(number, partial(self._sample, self.file_splits[number]))

    def _sample(self, file_splits: tuple[FileSplit, ...]) -> bytes:
        return packed(sampled_keys(self.io, self.layout, file_splits, self.rows_wanted))


@dataclass(frozen=True, slots=True)
class RouteRows:
    """Task function: the rows of some file splits as blocks, one for each part they belong to.

    A file split that cannot be read becomes a block with its error, which the first file's task
    meets before any row.
    """

    io: FileIO
    layout: RowLayout
    file_splits: Sequence[tuple[FileSplit, ...]]
    routes: Routes
    parts: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    routed = self.routes.routed(self.io, self.layout, self.file_splits[number])
                    for place, rows in routed:
                        file, part = divmod(place, self.parts)
                        yield _routed_block(file, part, packed(rows))
                except Exception as error:
                    yield _routed_block(0, _ERROR_PART, pickled_error(error))


@dataclass(frozen=True, slots=True)
class WriteSorted:
    """Task function: blocks sorted by (file, part) -> data files, each part sorted on its own."""

    io: FileIO
    context: RewriteContext
    group: int
    target: Output
    order: RowOrder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file, parts in groupby(tuples_of(batches), key=itemgetter(0)):
            target = of_attempt(self.target)
            named = replace(target, name_prefix=f"{target.name_prefix}-{file:05d}")
            rows = self._sorted(parts)
            yield answer(
                self.group, partial(write_data_files, self.io, self.context.files, named, rows)
            )

    def _sorted(self, blocks: Iterator[tuple[int, int, bytes]]) -> Iterator[pa.RecordBatch]:
        for number, part in groupby(blocks, key=itemgetter(1)):
            bodies = (block for _, _, block in part)
            if number == _ERROR_PART:
                raise pickle.loads(next(bodies))
            ordered = self.order.sorted_parts(unpacked_rows(bodies), self.context.rows.schema)
            for rows in ordered:
                yield from rows


def _routed_block(file: int, part: int, body: bytes) -> pa.RecordBatch:
    arrays = [pa.array([file], pa.int32()), pa.array([part], pa.int32()), pa.array([body])]
    return pa.RecordBatch.from_arrays(
        [array.cast(field.type) for array, field in zip(arrays, _ARROW_ROUTED, strict=True)],
        schema=_ARROW_ROUTED,
    )
