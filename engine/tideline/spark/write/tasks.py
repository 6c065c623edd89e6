"""What runs inside Spark's Python workers during a write: Arrow in, data files and stats out.

A task gets the rows of its buckets sorted by (bucket, key, ordering, arrival), or by (bucket, key,
arrival) where rows of one key fill each other up. It walks through
them batch by batch, hands each bucket to its handle, and returns one JSON write stat per file.
Only a bucket of updates is held in memory; stored rows are streamed by the handle.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.write.create_handle import create_base_files
from tideline.hudi.write.dedupe import keep_last_of_key
from tideline.hudi.write.engine import AppendTarget, CreateTarget, Target
from tideline.hudi.write.handle_context import IS_DELETE, RECORD_KEY, HandleContext
from tideline.hudi.write.merge_handle import merge_base_file
from tideline.hudi.write.partial_append import append_to_slice
from tideline.hudi.write.row_fold import RowFold
from tideline.spark.task_errors import carried_errors
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore

BUCKET = "_tideline_bucket"
ROWS_READ = "tidelineRowsRead"
"""What a task reports with its write stats: how many rows it was given."""
STAT_SCHEMA = pa.schema([("stat", pa.string())])
SPARK_STAT_SCHEMA = "stat string"


@dataclass(frozen=True, slots=True)
class WriteBuckets:
    """The task function of an upsert; picklable."""

    location: StoreLocation
    context: HandleContext
    targets: Mapping[int, Target]
    drops_duplicates: bool
    key: str = RECORD_KEY

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = bind_to_task(self.context)
        store = self.location.open()
        rows_read = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal rows_read
            for batch in batches:
                rows_read += batch.num_rows
                yield batch

        with carried_errors():
            for bucket, rows in split_runs(counted(), BUCKET):
                yield stat_batch(self.write_bucket(context, store, bucket, rows))
        yield pa.record_batch([pa.array([json.dumps({ROWS_READ: rows_read})])], STAT_SCHEMA)

    def write_bucket(
        self,
        context: HandleContext,
        store: ObjectStore,
        bucket: int,
        rows: Iterator[pa.RecordBatch],
    ) -> tuple[WriteStat, ...]:
        """Write one bucket's rows with the handle its target calls for."""
        unique = self._unique(rows) if self.drops_duplicates else rows
        shaped = (handle_columns(context, batch, self.key) for batch in unique)
        target = self.targets[bucket]
        if isinstance(target, CreateTarget):
            return create_base_files(
                context, store, target.partition, target.file_id_prefix, shaped
            )
        incoming = pa.Table.from_batches(list(shaped))
        if isinstance(target, AppendTarget):
            return append_to_slice(context, store, target, incoming)
        return merge_base_file(context, store, target.base_file, incoming)

    def _unique(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fold = RowFold.of(self.context, self.key)
        return keep_last_of_key(rows, self.key) if fold is None else fold.fold_sorted(rows)


def bind_to_task(context: HandleContext) -> HandleContext:
    """The context with this Spark task's write token."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None, "write tasks run inside Spark"
    return context.for_task(task.partitionId(), task.stageId(), task.taskAttemptId())


def stat_batch(stats: Iterable[WriteStat]) -> pa.RecordBatch:
    """Write stats as rows of JSON, the way they travel back to the driver."""
    texts = [json.dumps(stat.to_json_object()) for stat in stats]
    return pa.record_batch([pa.array(texts, pa.string())], schema=STAT_SCHEMA)


def handle_columns(
    context: HandleContext, batch: pa.RecordBatch, key: str = RECORD_KEY
) -> pa.RecordBatch:
    """Just the columns a handle takes, in the types of the target schema.

    `key` is the column to take as the record key.
    """
    names = [key, *context.schema.names]
    types = [pa.string(), *context.schema.types]
    if IS_DELETE in batch.schema.names:
        names.append(IS_DELETE)
        types.append(pa.bool_())
    columns = []
    for name, kind in zip(names, types, strict=True):
        column = batch.column(name)
        columns.append(column if column.type == kind else column.cast(kind))
    return pa.record_batch(columns, names=[RECORD_KEY, *names[1:]])


def split_runs(
    batches: Iterable[pa.RecordBatch], column: str
) -> Iterator[tuple[Any, Iterator[pa.RecordBatch]]]:
    """Cut a stream sorted by `column` into (value, batches of that value), lazily.

    As with itertools.groupby, the batches of a value are gone once the next value is asked for.
    """
    pieces = chain.from_iterable(_pieces(batch, column) for batch in batches if batch.num_rows)
    for value, run in groupby(pieces, key=itemgetter(0)):
        yield value, map(itemgetter(1), run)


def _pieces(batch: pa.RecordBatch, column: str) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """Slices of one batch in which `column` is constant."""
    values = batch.column(column)
    if values[0] == values[-1]:
        yield values[0].as_py(), batch
        return
    encoded = values.dictionary_encode().indices.to_numpy()
    starts = [0, *(np.flatnonzero(np.diff(encoded)) + 1).tolist(), batch.num_rows]
    for start, end in pairwise(starts):
        yield values[start].as_py(), batch.slice(start, end - start)
