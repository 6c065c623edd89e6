"""The rows of a DataFrame in the columns of a write by key, kept by Spark as blocks of Arrow bytes.

The frame is computed once: what a write looks at again, after a conflict as well, are the blocks.
What all rows have in common comes to the driver: how many they are, the ranges of their keys, and
the hashes of the distinct ones of each task where these are few.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tideline.formats.gathered_rows import gathered
from tideline.formats.marked_values import marked_values
from tideline.iceberg.write.fitted_rows import fitted_rows
from tideline.iceberg.write.key_codes import Codes, key_codes
from tideline.iceberg.write.key_filter import FILTERED_KEYS_MAX, KeyFilter, without_null
from tideline.iceberg.write.key_ranges import KeyRange
from tideline.iceberg.write.keyed_change import KeyedWrite
from tideline.spark.arrow_blocks import packed
from tideline.spark.arrow_types import spark_to_arrow
from tideline.spark.iceberg.tasks import pickled_error
from tideline.spark.iceberg.write import PrepareRows

NUMBER = "#number"
"""A column of given rows: ascending as they came."""
KIND, FIRST, BLOCK = "kind", "first", "block"
FAILED, GIVEN, SUMMARY, KEYS = 0, 1, 2, 3
_BLOCKS = f"{KIND} int, {FIRST} long, {BLOCK} binary"
_ARROW_BLOCKS = pa.schema([(KIND, pa.int32()), (FIRST, pa.int64()), (BLOCK, pa.binary())])
_BLOCK_BYTES = 8 * 1024 * 1024
_TASK_BITS = 40


@dataclass(frozen=True, slots=True)
class GivenSummary:
    """What given rows have in common; `marked` are the columns in which some lack their values.
    `keys` is how many distinct keys the tasks have, None where there are too many for a filter."""

    rows: int = 0
    size_bytes: int = 0
    keys: int | None = 0
    ranges: tuple[KeyRange, ...] = ()
    marked: frozenset[str] = frozenset()

    def joined(self, other: GivenSummary) -> GivenSummary:
        """That of both."""
        if not (self.rows and other.rows):
            return self if self.rows else other
        pairs = zip(self.ranges, other.ranges, strict=True)
        return GivenSummary(
            self.rows + other.rows,
            self.size_bytes + other.size_bytes,
            _few(self.keys, other.keys),
            tuple(ours.joined(theirs) for ours, theirs in pairs),
            self.marked | other.marked,
        )


def given_blocks(
    frame: DataFrame, asked: KeyedWrite, arrival: str | None, prepare: PrepareRows | None
) -> DataFrame:
    """The rows as blocks, and a summary of each task. Raises InvalidDataError for columns that do
    not fit."""
    none = pa.RecordBatch.from_pylist([], schema=spark_to_arrow(frame.schema))
    fit = FitRows(asked, arrival, prepare)
    fit.fitted(none, 0)
    return frame.mapInArrow(fit, _BLOCKS)


def summary_of(blocks: DataFrame) -> GivenSummary:
    """Of all blocks, which are then computed. Raises InvalidDataError for rows that do not fit."""
    answers = blocks.where(F.col(KIND).isin(FAILED, SUMMARY)).select(BLOCK).collect()
    found = [pickle.loads(row[0]) for row in answers]
    for summary in found:
        if isinstance(summary, Exception):
            raise summary
    return reduce(GivenSummary.joined, found, GivenSummary())


def filter_of(blocks: DataFrame) -> KeyFilter:
    """Of the keys of all blocks, where their summary counts them."""
    answers = blocks.where(F.col(KIND) == KEYS).select(BLOCK).collect()
    return KeyFilter.of(np.frombuffer(block, np.uint64) for (block,) in answers)


@dataclass(frozen=True, slots=True)
class FitRows:
    """Task function: rows in, blocks out, and at last the hashes of their keys and their summary,
    or why there is none."""

    asked: KeyedWrite
    arrival: str | None
    prepare: PrepareRows | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        summary, codes = GivenSummary(), np.zeros(0, np.uint64)
        try:
            for table in gathered(self._numbered(batches), _BLOCK_BYTES):
                rows = table.combine_chunks()
                summary = summary.joined(self._summary(rows))
                if summary.keys is not None:
                    codes = np.union1d(codes, self._codes(rows))
                    keys = _few(len(codes), 0)
                    summary = replace(summary, keys=keys)
                first = pc.min(rows.column(NUMBER)).as_py()
                yield _block(GIVEN, first, packed(rows))
            if summary.keys:
                yield _block(KEYS, 0, codes.tobytes())
            yield _block(SUMMARY, 0, pickle.dumps(summary))
        except Exception as error:
            yield _block(FAILED, 0, pickled_error(error))

    def fitted(self, batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
        """Rows with their numbers, from this one on where they have none of their own."""
        numbers = pa.array(np.arange(number, number + batch.num_rows, dtype=np.int64))
        if self.arrival is not None and self.arrival in batch.schema.names:
            numbers = batch.column(self.arrival).cast(pa.int64())
            batch = batch.select([name for name in batch.schema.names if name != self.arrival])
        if self.prepare is not None:
            batch = self.prepare(batch)
        batch = batch.select(self.asked.of_rows(batch.schema.names))
        fitted = fitted_rows(batch, self.asked.fields)
        return fitted.append_column(pa.field(NUMBER, pa.int64()), numbers)

    def _numbered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None, "rows of a frame are fitted in its tasks"
        number = task.partitionId() << _TASK_BITS
        for batch in batches:
            if batch.num_rows:
                yield self.fitted(batch, number)
                number += batch.num_rows

    def _codes(self, rows: pa.Table) -> Codes:
        """Those of keys without null: another one is refused where rows are looked at."""
        columns = self.asked.key.values(rows)
        known = without_null(columns)
        if not known.all():
            columns = [column.filter(pa.array(known)) for column in columns]
        return key_codes(columns)

    def _summary(self, rows: pa.Table) -> GivenSummary:
        key, rules = self.asked.key, self.asked.rules
        values = key.values(rows)
        ranges = tuple(
            KeyRange.of(name, pc.unique(values[at].drop_null())) for at, name in key.whole_columns()
        )
        marked: frozenset[str] = frozenset()
        if rules.unavailable is not None and not self.asked.deletes:
            names = (item.name for item in self.asked.schema.fields)
            marker = rules.unavailable
            marked = frozenset(n for n in names if marked_values(rows.column(n), marker).any())
        return GivenSummary(rows.num_rows, rows.nbytes, 0, ranges, marked)


def _few(keys: int | None, others: int | None) -> int | None:
    if keys is None or others is None or keys + others > FILTERED_KEYS_MAX:
        return None
    return keys + others


def _block(kind: int, first: int, body: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{KIND: kind, FIRST: first, BLOCK: body}], schema=_ARROW_BLOCKS
    )
