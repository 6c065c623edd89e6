"""An ingest of a topic on Spark, in a process of its own, whose tasks and driver die."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.operation.operation import Operation
from tideline.ingest.sources.kafka import on_spark
from tideline.ingest.sources.kafka.span_tasks import ReadSpans
from tideline.spark.session.spark_session import spark_session


@dataclass(frozen=True, slots=True)
class DyingSpans(ReadSpans):
    """The first attempt of each task dies with its process, behind its first block."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        for block in ReadSpans.__call__(self, batches):
            yield block
            if task.attemptNumber() == 0:
                os._exit(1)


def ingest_where_tasks_die(
    operation: Operation, environment: Mapping[str, str], logs: Path, dies_before_commit: bool
) -> None:
    """Carry the operation out; the driver dies once everything is read, if it shall. Spark's own
    logs of plans and tasks are in `logs`."""
    os.environ.update(environment)
    vars(on_spark).update(ReadSpans=DyingSpans, BLOCK_RECORDS=5)
    session = spark_session(
        "dying spans",
        master="local[2,4]",
        extra_conf={
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": logs.as_uri(),
        },
    )

    def tell(words: str) -> None:
        if dies_before_commit and words.startswith("writing"):
            os.kill(os.getpid(), signal.SIGKILL)

    result = execute_operation(operation, session_factory=lambda _: session, progress=tell)
    session.stop()
    assert result.exit_code == 0, result.message
