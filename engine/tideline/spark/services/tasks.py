"""What runs inside Spark's Python workers during a service: numbers of items in, JSON stats out.

A job has one Spark partition per item; what the items are travels with the task function.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tideline.hudi.file_group.slice_rewrite import RewriteContext
from tideline.hudi.services.engine import ServiceWork
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.spark.task_errors import carried_errors
from tideline.spark.write.tasks import bound_to_task, stat_batch
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore

_CANCEL_INTERVAL_S = 0.1

Work = Callable[[RewriteContext, ObjectStore, Any], Iterable[WriteStat]]


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Task function: does `work`, a function of a module, with every item of its partition."""

    location: StoreLocation
    context: RewriteContext
    items: Sequence[Any]
    work: Work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context, store = bound_to_task(self.context), self.location.open()
        with carried_errors():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield stat_batch(self.work(context, store, self.items[number]))


def numbered(spark: SparkSession, count: int) -> DataFrame:
    """The numbers below `count`, each in a Spark partition of its own."""
    return spark.range(0, count, 1, count)


@contextmanager
def time_limit(spark: SparkSession, work: ServiceWork) -> Iterator[None]:
    """Cancel the jobs of this thread after the seconds that the work may take.

    Raises ConflictError when that happened.
    """
    seconds_max = work.seconds_max
    if seconds_max is None:
        yield
        return
    context, group = spark.sparkContext, f"tideline-{work.instant}-{uuid4()}"
    expired, over = threading.Event(), threading.Event()

    def cancel() -> None:
        if over.wait(seconds_max):
            return
        expired.set()
        # A job that starts between two cancellations is not met by the first.
        while not over.wait(_CANCEL_INTERVAL_S):
            context.cancelJobGroup(group)

    canceller = threading.Thread(target=cancel, name=group, daemon=True)
    context.setJobGroup(group, f"tideline service {work.instant}", interruptOnCancel=True)
    canceller.start()
    try:
        yield
    except Exception as error:
        if not expired.is_set():
            raise
        raise work.took_too_long() from error
    finally:
        over.set()
        canceller.join()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
