"""Rewriting the file groups of an Iceberg table on Spark.

1. Groups without an order, and those whose rows a task can sort in memory, need no shuffle: each
   pack of files is one task, which answers with its new data files.
2. Of a larger ordered group a sample of the keys gives the splits; tasks read pieces of files and
   send the rows of each part on as one block of Arrow bytes; each new file's task gets its parts in
   order, sorts one at a time and writes it. Rows never become Spark rows, so that no type is lost.

A group that fails is an answer, not an error: its new files are deleted, other groups go on.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tideline.errors import TidelineError
from tideline.iceberg.data.partitioned_writer import Output, write_data_files
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.data.row_order import RowOrder
from tideline.iceberg.file_io import FileIO
from tideline.iceberg.manifest import DataFile
from tideline.iceberg.rewrite.execute import (
    FilePiece,
    RewriteContext,
    group_order,
    output,
    read_pieces,
    split_group,
    whole_files,
    write_pieces,
)
from tideline.iceberg.rewrite.plan import FileGroup
from tideline.iceberg.schema import Schema

PART_BYTES_MAX = 96 * 1024 * 1024
"""Stored bytes that a task sorts at once; in memory they are several times as many."""

_SAMPLE_ROWS_PER_PART = 2_000
_GROUP, _FILE, _PART, _BLOCK = "group", "file", "part", "block"
_ANSWER = f"{_GROUP} int, {_BLOCK} binary"
_ARROW_ANSWER = pa.schema([(_GROUP, pa.int32()), (_BLOCK, pa.binary())])
_ROUTED = f"{_FILE} int, {_PART} int, {_BLOCK} binary"
_ARROW_ROUTED = pa.schema([(_FILE, pa.int32()), (_PART, pa.int32()), (_BLOCK, pa.binary())])


@dataclass(frozen=True, slots=True)
class GroupResult:
    """A group is written: these files hold its rows."""

    index: int
    added: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class GroupFailed:
    """A group could not be written; none of its new files remains, unless its process died."""

    index: int
    error: Exception


def execute_groups(
    spark: SparkSession,
    io: FileIO,
    context: RewriteContext,
    groups: Sequence[FileGroup],
    *,
    groups_per_job: int | None = None,
    part_bytes_max: int = PART_BYTES_MAX,
) -> Iterator[GroupResult | GroupFailed]:
    """Write the groups anew, so many in one Spark job; each is answered once its job is done."""
    size = groups_per_job or max(1, len(groups))
    for start in range(0, len(groups), size):
        some = groups[start : start + size]
        orders = [group_order(context, group) for group in some]
        is_large = [
            order is not None and group.input_bytes > part_bytes_max
            for group, order in zip(some, orders, strict=True)
        ]
        small = [group for group, large in zip(some, is_large, strict=True) if not large]
        yield from _answered(io, small, lambda small=small: _write_packs(spark, io, context, small))
        for group, order, large in zip(some, orders, is_large, strict=True):
            if large and order is not None:
                shuffle = _Shuffle(spark, io, context, group, order, part_bytes_max)
                yield from _answered(io, [group], shuffle.answers)


def _answered(
    io: FileIO, groups: Sequence[FileGroup], run: Callable[[], list[tuple[int, Any]]]
) -> Iterator[GroupResult | GroupFailed]:
    if not groups:
        return
    try:
        answers = run()
    except (PySparkException, Py4JError) as error:
        for group in groups:
            yield GroupFailed(group.index, error)
        return
    for group in groups:
        found = [answer for index, answer in answers if index == group.index]
        added = tuple(file for answer in found if isinstance(answer, tuple) for file in answer)
        failed = next((answer for answer in found if isinstance(answer, Exception)), None)
        if failed is None:
            yield GroupResult(group.index, added)
        else:
            io.delete_many(file.file_path for file in added)
            yield GroupFailed(group.index, failed)


@dataclass(frozen=True, slots=True)
class _Pack:
    """What one task writes."""

    group: int
    target: Output
    pieces: tuple[FilePiece, ...]
    order: RowOrder | None
    files: int

    @property
    def size_bytes(self) -> int:
        return sum(piece.size_bytes for piece in self.pieces)


def _write_packs(
    spark: SparkSession, io: FileIO, context: RewriteContext, groups: Sequence[FileGroup]
) -> list[tuple[int, Any]]:
    packs: list[_Pack] = []
    for group in groups:
        order = group_order(context, group)
        pieces = split_group(group) if order is None else [whole_files(group)]
        packs += [
            _Pack(group.index, output(context, group, f"{number:05d}"), pack, order,
                  group.outputs_expected)
            for number, pack in enumerate(pieces)
        ]  # fmt: skip
    packs.sort(key=lambda pack: pack.size_bytes, reverse=True)
    return _collected(_numbered(spark, len(packs)), WritePacks(io, context, packs))


@dataclass(frozen=True, slots=True)
class WritePacks:
    """Task function: numbers of packs in, their new data files out."""

    io: FileIO
    context: RewriteContext
    packs: Sequence[_Pack]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                pack = self.packs[number]
                target = _of_attempt(pack.target)
                yield _answer(
                    pack.group,
                    lambda pack=pack, target=target: write_pieces(
                        self.io, self.context, target, pack.pieces, pack.order, pack.files
                    ),
                )


class _Shuffle:
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
        self._pieces = [(piece,) for piece in whole_files(group)]

    def answers(self) -> list[tuple[int, Any]]:
        source = _numbered(self._spark, len(self._pieces))
        keys = _key_layout(self._context.rows, self._order)
        wanted = max(1, _SAMPLE_ROWS_PER_PART * self._files * self._parts // len(self._pieces))
        sampled = _collected(source, SampleKeys(self._io, keys, self._pieces, wanted))
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
        return _collected(
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
                yield _answer(number, lambda number=number: self._sample(self.pieces[number]))

    def _sample(self, pieces: tuple[FilePiece, ...]) -> bytes:
        rows_known = sum(piece.task.data_file.record_count for piece in pieces)
        step = max(1, rows_known // self.rows_wanted)
        schema = _arrow_schema(self.layout)
        thinned = [
            rows.take(pa.array(np.arange(0, rows.num_rows, step)))
            for rows in read_pieces(self.io, self.layout, pieces)
        ]
        return _packed(pa.Table.from_batches(thinned, schema=schema))


@dataclass(frozen=True, slots=True)
class RouteRows:
    """Task function: the rows of some pieces as blocks, one for each part they belong to.

    A piece that cannot be read becomes a block with its error, for every file's task to find.
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
                    for rows in read_pieces(self.io, self.context.rows, self.pieces[number]):
                        yield from self._routed(pa.Table.from_batches([rows]))
                except Exception as error:
                    yield _routed_block(0, -1, _pickled_error(error))

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
            target = _of_attempt(self.target)
            target = replace(target, name_prefix=f"{target.name_prefix}-{file:05d}")
            yield _answer(
                self.group,
                lambda target=target, parts=parts: write_data_files(
                    self.io, self.context.files, target, self._sorted(parts)
                ),
            )

    def _sorted(self, blocks: Iterator[tuple[int, int, bytes]]) -> Iterator[pa.RecordBatch]:
        for number, part in groupby(blocks, key=itemgetter(1)):
            if number < 0:
                raise pickle.loads(next(part)[2])
            tables = [_unpacked(block) for _, _, block in part]
            batches = (batch for table in tables for batch in table.to_batches())
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


def _arrow_schema(layout: RowLayout) -> pa.Schema:
    from tideline.iceberg.data.arrow_schema import arrow_schema

    return arrow_schema(layout.fields)


def _of_attempt(target: Output) -> Output:
    """Names that no other attempt of this task gives."""
    task = TaskContext.get()
    assert task is not None, "rewrites on Spark run in its tasks"
    return replace(target, name_prefix=f"{target.name_prefix}-{task.taskAttemptId()}")


def _answer(group: int, work: Callable[[], Any]) -> pa.RecordBatch:
    """What the work gives, or why it failed."""
    try:
        body = pickle.dumps(work())
    except Exception as error:
        body = _pickled_error(error)
    arrays = [pa.array([group], pa.int32()), pa.array([body], pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW_ANSWER)


def _pickled_error(error: Exception) -> bytes:
    """Errors of ours keep their kind; of others the driver gets the traceback."""
    if isinstance(error, TidelineError):
        return pickle.dumps(_PortableError.of(error))
    return pickle.dumps(RuntimeError("".join(traceback.format_exception(error))))


def _collected(frame: DataFrame, task: Any) -> list[tuple[int, Any]]:
    answers = frame.mapInArrow(task, _ANSWER).collect()
    return [(row[0], pickle.loads(row[1])) for row in answers]


def _numbered(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(0, count, 1, count)


def _routed_block(file: int, part: int, body: bytes) -> pa.RecordBatch:
    arrays = [pa.array([file], pa.int32()), pa.array([part], pa.int32()), pa.array([body])]
    return pa.RecordBatch.from_arrays(
        [array.cast(field.type) for array, field in zip(arrays, _ARROW_ROUTED, strict=True)],
        schema=_ARROW_ROUTED,
    )


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _unpacked(block: bytes) -> pa.Table:
    with pa.ipc.open_stream(block) as reader:
        return reader.read_all()


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)
