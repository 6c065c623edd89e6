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
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from tideline.hudi.file_group.handle_context import RECORD_KEY, HandleContext
from tideline.hudi.file_group.slice_rewrite import RewriteContext
from tideline.hudi.placement.targets import Target
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.write.bucket_write import write_bucket
from tideline.spark.task_errors import carried_errors
from tideline.storage.location import StoreLocation

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
        context = bound_to_task(self.context)
        store = self.location.open()
        rows_read = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal rows_read
            for batch in batches:
                rows_read += batch.num_rows
                yield batch

        with carried_errors():
            for bucket, rows in split_runs(counted(), BUCKET):
                stats = write_bucket(
                    context,
                    store,
                    self.targets[bucket],
                    rows,
                    drops_duplicates=self.drops_duplicates,
                    key=self.key,
                )
                yield stat_batch(stats)
        yield pa.record_batch([pa.array([json.dumps({ROWS_READ: rows_read})])], STAT_SCHEMA)


Bound = TypeVar("Bound", HandleContext, RewriteContext)


def bound_to_task(context: Bound) -> Bound:
    """The context with this Spark task's write token."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None, "tasks run inside Spark"
    return context.for_task(task.partitionId(), task.stageId(), task.taskAttemptId())


def stat_batch(stats: Iterable[WriteStat]) -> pa.RecordBatch:
    """Write stats as rows of JSON, the way they travel back to the driver."""
    texts = [json.dumps(stat.to_report()) for stat in stats]
    return pa.record_batch([pa.array(texts, pa.string())], schema=STAT_SCHEMA)


def split_runs(
    batches: Iterable[pa.RecordBatch], column: str
) -> Iterator[tuple[Any, Iterator[pa.RecordBatch]]]:
    """Cut a stream sorted by `column` into (value, batches of that value), lazily.

    As with itertools.groupby, the batches of a value are gone once the next value is asked for.
    """
    runs = chain.from_iterable(_runs(batch, column) for batch in batches if batch.num_rows)
    for value, found in groupby(runs, key=itemgetter(0)):
        yield value, map(itemgetter(1), found)


def _runs(batch: pa.RecordBatch, column: str) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """Slices of one batch in which `column` is constant."""
    values = batch.column(column)
    if values[0] == values[-1]:
        yield values[0].as_py(), batch
        return
    encoded = values.dictionary_encode().indices.to_numpy()
    starts = [0, *(np.flatnonzero(np.diff(encoded)) + 1).tolist(), batch.num_rows]
    for start, end in pairwise(starts):
        yield values[start].as_py(), batch.slice(start, end - start)
