"""What rewrites of Iceberg tables have in common on Spark: numbers of items in, answers out.

An answer is the result of an item's work, or the error that ended it, pickled: the processes of one
Spark application trust each other.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from tideline.errors import TidelineError
from tideline.iceberg.data.partitioned_writer import Output

_ANSWER = "number int, body binary"
_ARROW_ANSWER = pa.schema([("number", pa.int32()), ("body", pa.binary())])


def numbered(spark: SparkSession, count: int) -> DataFrame:
    """The numbers below `count`, each in a Spark partition of its own."""
    return spark.range(0, count, 1, count)


def collected(frame: DataFrame, task: Any) -> list[tuple[int, Any]]:
    """The answers of a task function that yields `answer` for each item."""
    answers = frame.mapInArrow(task, _ANSWER).collect()
    return [(row[0], pickle.loads(row[1])) for row in answers]


def answer(number: int, work: Callable[[], Any]) -> pa.RecordBatch:
    """What the work gives, or why it failed."""
    try:
        body = pickle.dumps(work())
    except Exception as error:
        body = pickled_error(error)
    arrays = [pa.array([number], pa.int32()), pa.array([body], pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW_ANSWER)


def pickled_error(error: Exception) -> bytes:
    """Errors of ours keep their kind; of others the driver gets the traceback."""
    if isinstance(error, TidelineError):
        return pickle.dumps(error)
    return pickle.dumps(RuntimeError("".join(traceback.format_exception(error))))


def of_attempt(target: Output) -> Output:
    """Names that no other attempt of this task gives."""
    return replace(target, name_prefix=f"{target.name_prefix}-{attempt_number()}")


def attempt_number() -> int:
    """A number that no other task, and no other attempt of this one, has."""
    task = TaskContext.get()
    assert task is not None, "rewrites on Spark run in its tasks"
    return task.taskAttemptId()
