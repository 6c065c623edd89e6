"""Tasks that find rows by key: given rows and keys of the table meet, divided by their hashes.

1. Given rows, and of the files that may have some of their keys the rows that pass a filter of
   these, go to the bucket of their hash, as blocks of Arrow bytes.
2. A bucket answers with the places of rows that go, file by file, and with the rows that come.

An error is an answer, which the driver raises before a file is written.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from tideline.formats.gathered_rows import gathered
from tideline.formats.row_filter import RowFilter
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.file_rows import FileRows
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.read.table_rows import missing_files_named
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.write.held_rows import held_rows
from tideline.iceberg.write.key_bucket import (
    KeyBucket,
    bucket_numbers,
    columns_of_stored,
    divided,
    ids_are_kept,
)
from tideline.iceberg.write.key_filter import KeyFilter, without_null
from tideline.iceberg.write.keyed_change import KeyedWrite
from tideline.iceberg.write.row_selection import RowNumbers
from tideline.iceberg.write.write_request import RowCounts
from tideline.spark.arrow_blocks import packed, tuples_of, unpacked_rows
from tideline.spark.iceberg.given_frame import BLOCK, FAILED, FIRST, GIVEN, KIND, NUMBER
from tideline.spark.iceberg.tasks import pickled_error

BUCKET, FILE, COUNT = "bucket", "file", "count"
ROUTED = f"{BUCKET} int, {KIND} int, {FIRST} long, {BLOCK} binary"
_ARROW_ROUTED = pa.schema(
    [(BUCKET, pa.int32()), (KIND, pa.int32()), (FIRST, pa.int64()), (BLOCK, pa.binary())]
)
_STORED = 2

ROWS, PLACES, COUNTS = 1, 2, 3
FOUND = f"{KIND} int, {FILE} int, {COUNT} long, {BLOCK} binary"
_ARROW_FOUND = pa.schema(
    [(KIND, pa.int32()), (FILE, pa.int32()), (COUNT, pa.int64()), (BLOCK, pa.binary())]
)
"""What buckets answer: rows that come, places of rows that go in a file, and their `RowCounts`."""

_FILE, _PLACE = "#file", "#place"
_BODY = itemgetter(-1)
_GATHERED_BYTES = 32 * 1024 * 1024
_BLOCK_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RouteGiven:
    """Task function: blocks of given rows in, those of each bucket out."""

    asked: KeyedWrite
    buckets: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            rows = unpacked_rows(block for (block,) in tuples_of(batches))
            yield from _routed(rows, self.asked, self.buckets, GIVEN, NUMBER)
        except Exception as error:
            yield _routed_block(0, FAILED, 0, pickled_error(error))


@dataclass(frozen=True, slots=True)
class ScanKeys:
    """Task function: numbers of packs in, the rows of their files that may have keys of `ranges`,
    and those of the filter, in the columns that decide, out by bucket."""

    io: FileIO
    metadata: TableMetadata
    asked: KeyedWrite
    marked: frozenset[str]
    ranges: RowFilter
    keys: KeyFilter | None
    packs: Sequence[Sequence[tuple[int, FileScanTask]]]
    buckets: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for number in (n for batch in batches for n in batch.column(0).to_pylist()):
                rows = self._rows(self.packs[number])
                yield from _routed(rows, self.asked, self.buckets, _STORED, _FILE)
        except Exception as error:
            yield _routed_block(0, FAILED, 0, pickled_error(error))

    def _rows(self, pack: Sequence[tuple[int, FileScanTask]]) -> Iterator[pa.RecordBatch]:
        names = columns_of_stored(self.asked, self.marked)
        has_ids = ids_are_kept(self.asked, self.metadata)
        layout = RowLayout.of(self.metadata).projected(names, has_lineage=has_ids)
        reader = FileRows(self.io, layout, self.ranges, any_format=True)
        with missing_files_named(self.io):
            for file, task in pack:
                for rows, places in reader.numbered(task):
                    at = self._candidates(rows)
                    if not len(at):
                        continue
                    found = rows.take(pa.array(at))
                    files = pa.array(np.full(len(at), file, np.int32))
                    found = found.append_column(pa.field(_FILE, pa.int32()), files)
                    yield found.append_column(pa.field(_PLACE, pa.int64()), pa.array(places[at]))

    def _candidates(self, rows: pa.RecordBatch) -> RowNumbers:
        """Which rows of the table may have a given key."""
        at = self.ranges.numbers(rows)
        if self.keys is None or not len(at):
            return at
        values = self.asked.key.values(rows)
        if len(at) < rows.num_rows:
            values = [value.take(pa.array(at)) for value in values]
        return at[self.keys.numbers(values)]


@dataclass(frozen=True, slots=True)
class FindRows:
    """Task function: the blocks of buckets in, given rows before those of the table, and what
    becomes of them out."""

    io: FileIO
    metadata: TableMetadata
    asked: KeyedWrite

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for _, of_bucket in groupby(tuples_of(batches), key=itemgetter(0)):
                yield from self._found(of_bucket)
        except Exception as error:
            yield _found_block(FAILED, 0, 0, pickled_error(error))

    def _found(self, blocks: Iterator[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
        kinds = groupby(blocks, key=itemgetter(1))
        kind, first = next(kinds)
        if kind == FAILED:
            raise pickle.loads(_BODY(next(first)))
        if kind != GIVEN:
            return
        schema = arrow_schema(self.asked.fields).append(pa.field(NUMBER, pa.int64()))
        with held_rows(unpacked_rows(map(_BODY, first)), schema) as held:
            bucket = KeyBucket.of(_as_given(held), self.asked, self.metadata)
            for _, stored in kinds:
                for rows in unpacked_rows(map(_BODY, stored)):
                    files, places = rows.column(_FILE), rows.column(_PLACE)
                    bucket.look(
                        rows.drop_columns([_FILE, _PLACE]), files.to_numpy(), places.to_numpy()
                    )
            for file, at in bucket.taken_out():
                yield _found_block(PLACES, file, len(at), at.tobytes())
            yield from self._coming(bucket)

    def _coming(self, bucket: KeyBucket) -> Iterator[pa.RecordBatch]:
        counts: RowCounts = bucket.deleted
        if not self.asked.deletes:
            merge = bucket.merge(self.io)
            for rows in gathered(merge.over(bucket.stored_rows()), _BLOCK_BYTES):
                yield _found_block(ROWS, 0, rows.num_rows, packed(rows))
            counts = merge.counts
        yield _found_block(COUNTS, 0, 0, pickle.dumps(counts))


def _routed(
    batches: Iterable[pa.RecordBatch], asked: KeyedWrite, buckets: int, kind: int, first: str
) -> Iterator[pa.RecordBatch]:
    for table in gathered(batches, _GATHERED_BYTES):
        rows = pa.RecordBatch.from_struct_array(table.to_struct_array().combine_chunks())
        values = asked.key.values(rows)
        if any(value.null_count for value in values) and kind != GIVEN:
            rows = rows.filter(pa.array(without_null(values)))
            values = asked.key.values(rows)
        if any(value.null_count for value in values):
            # Whichever bucket it is says which key is null.
            numbers = np.zeros(rows.num_rows, np.int64)
        else:
            numbers = bucket_numbers(values, buckets)
        for number, part in divided(rows, numbers):
            at = part.column(first)[0].as_py()
            yield _routed_block(number, kind, at, packed(pa.Table.from_batches([part])))


def _as_given(rows: pa.Table) -> pa.Table:
    """The rows in the order in which they came."""
    numbers = rows.column(NUMBER).to_numpy()
    rows = rows.drop_columns([NUMBER])
    is_sorted = bool((numbers[:-1] <= numbers[1:]).all())
    return rows if is_sorted else rows.take(pa.array(np.argsort(numbers, kind="stable")))


def _routed_block(bucket: int, kind: int, first: int, body: bytes) -> pa.RecordBatch:
    row = {BUCKET: bucket, KIND: kind, FIRST: first, BLOCK: body}
    return pa.RecordBatch.from_pylist([row], schema=_ARROW_ROUTED)


def _found_block(kind: int, file: int, count: int, body: bytes) -> pa.RecordBatch:
    row = {KIND: kind, FILE: file, COUNT: count, BLOCK: body}
    return pa.RecordBatch.from_pylist([row], schema=_ARROW_FOUND)
