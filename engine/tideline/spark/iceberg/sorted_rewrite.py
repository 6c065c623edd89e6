"""Sorting a file group that no task holds in memory.

1. A sample of the sort keys gives the splits: equal parts, several of them to a new file.
2. Tasks read pieces of files and send the rows of each part on as one block of Arrow bytes. Rows
   never become Spark rows, so that no type is lost.
3. Each new file's task gets its parts in order, sorts one at a time and writes it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.partitioned_writer import Output, write_data_files
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.data.row_order import RowOrder
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.rewrite.execute import RewriteContext, output, read_pieces
from tideline.iceberg.rewrite.file_piece import FilePiece, packed_pieces
from tideline.iceberg.rewrite.plan import FileGroup
from tideline.iceberg.table.file_io import FileIO
from tideline.spark.iceberg.tasks import answer, collected, numbered, of_attempt, pickled_error

_SAMPLE_ROWS_PER_PART = 2_000
_READERS_PER_PART = 4
_ROUTED_BYTES = 32 * 1024 * 1024
_ERROR_PART = -1
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")
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
        self._pieces = packed_pieces(group, max(1, part_bytes_max // _READERS_PER_PART))

    def answers(self) -> list[tuple[int, Any]]:
        source = numbered(self._spark, len(self._pieces))
        keys = _key_layout(self._context.rows, self._order)
        wanted = max(1, _SAMPLE_ROWS_PER_PART * self._files * self._parts // len(self._pieces))
        sampled = collected(source, SampleKeys(self._io, keys, self._pieces, wanted))
        failed = [(self._group.index, item) for _, item in sampled if isinstance(item, Exception)]
        if failed:
            return failed
        sample = pa.concat_tables([_unpacked(block) for _, block in sampled])
        order = self._order.sampled(sample, keys.schema)
        splits = order.split_keys(order.keys(sample, keys.schema), self._files * self._parts)
        route = RouteRows(self._io, self._context, self._pieces, order, splits, self._parts)
        rows = source.mapInArrow(route, _ROUTED)
        arranged = rows.repartitionById(self._files, F.col(_FILE)).sortWithinPartitions(
            _FILE, _PART
        )
        target = output(self._context, self._group, "sorted")
        return collected(
            arranged, WriteSorted(self._io, self._context, self._group.index, target, order)
        )


@dataclass(frozen=True, slots=True)
class SampleKeys:
    """Task function: evenly spaced rows of the key columns of some pieces."""

    io: FileIO
    layout: RowLayout
    pieces: Sequence[tuple[FilePiece, ...]]
    rows_wanted: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield answer(number, partial(self._sample, self.pieces[number]))

    def _sample(self, pieces: tuple[FilePiece, ...]) -> bytes:
        rows_known = sum(piece.task.data_file.record_count for piece in pieces)
        step = max(1, rows_known // self.rows_wanted)
        schema = arrow_schema(self.layout.fields)
        thinned = [
            rows.take(pa.array(np.arange(0, rows.num_rows, step)))
            for rows in read_pieces(self.io, self.layout, pieces)
        ]
        return _packed(pa.Table.from_batches(thinned, schema=schema))


@dataclass(frozen=True, slots=True)
class RouteRows:
    """Task function: the rows of some pieces as blocks, one for each part they belong to.

    A piece that cannot be read becomes a block with its error, which the first file's task meets
    before any row.
    """

    io: FileIO
    context: RewriteContext
    pieces: Sequence[tuple[FilePiece, ...]]
    order: RowOrder
    splits: pa.Table
    parts: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    batches = read_pieces(self.io, self.context.rows, self.pieces[number])
                    for rows in _gathered(batches):
                        yield from self._routed(rows)
                except Exception as error:
                    yield _routed_block(0, _ERROR_PART, pickled_error(error))

    def _routed(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        keys = self.order.keys(rows, self.context.rows.schema)
        numbers = self.order.part_numbers(keys, self.splits)
        order = np.argsort(numbers, kind="stable")
        arranged, ordered = rows.take(pa.array(order)), numbers[order]
        starts = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), rows.num_rows]
        for start, end in pairwise(starts):
            if start < end:
                file, part = divmod(int(ordered[start]), self.parts)
                yield _routed_block(file, part, _packed(arranged.slice(start, end - start)))


@dataclass(frozen=True, slots=True)
class WriteSorted:
    """Task function: blocks sorted by (file, part) -> data files, each part sorted by itself."""

    io: FileIO
    context: RewriteContext
    group: int
    target: Output
    order: RowOrder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blocks = (row for batch in batches for row in _rows(batch))
        for file, parts in groupby(blocks, key=itemgetter(0)):
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
            batches = (batch for body in bodies for batch in _unpacked(body).to_batches())
            for rows in self.order.sorted_parts(batches, self.context.rows.schema):
                yield from rows


def _key_layout(layout: RowLayout, order: RowOrder) -> RowLayout:
    """The columns that an order compares, and nothing else."""
    ids = set(order.source_ids)
    fields = tuple(
        field
        for field in layout.schema.fields
        if ids & set(Schema(0, (field,)).leaves()) or field.field_id in ids
    )
    return replace(
        layout,
        schema=Schema(layout.schema.schema_id, fields),
        older_schemas=(layout.schema, *layout.older_schemas),
        has_lineage=False,
    )


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together until it is worth while to cut them by part."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.nbytes for one in held) >= _ROUTED_BYTES:
            yield pa.Table.from_batches(held).combine_chunks()
            held = []
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def _routed_block(file: int, part: int, body: bytes) -> pa.RecordBatch:
    arrays = [pa.array([file], pa.int32()), pa.array([part], pa.int32()), pa.array([body])]
    return pa.RecordBatch.from_arrays(
        [array.cast(field.type) for array, field in zip(arrays, _ARROW_ROUTED, strict=True)],
        schema=_ARROW_ROUTED,
    )


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as writer:
        writer.write_table(rows.combine_chunks())
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _unpacked(block: bytes) -> pa.Table:
    with pa.ipc.open_stream(block) as reader:
        return reader.read_all()


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)
