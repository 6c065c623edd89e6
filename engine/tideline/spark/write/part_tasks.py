"""Parts of a write whose batch the driver holds, done by Spark's tasks.

1. Work that moves little is done by the driver's own threads: a job costs more than it saves.
2. Else a task gets one part, with just the rows of its bucket, and nothing is shuffled.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from tideline.hudi.write.work_parts import TaskNumbers, ThreadRunner, WorkPart
from tideline.spark.task_errors import carried_errors, raised_errors
from tideline.storage.location import StoreLocation

Answer = TypeVar("Answer")

DRIVER_BYTES_MAX = 64 * 1024 * 1024
"""What the driver's threads may read and be given in one go."""


@dataclass(frozen=True, slots=True)
class SparkPartRunner:
    """See `tideline.hudi.write.work_parts.PartRunner`; `here` does small work."""

    spark: SparkSession
    location: StoreLocation
    here: ThreadRunner

    @property
    def parallelism(self) -> int:
        """Tasks."""
        return self.spark.sparkContext.defaultParallelism

    def run(
        self, make: Callable[[int], WorkPart[Answer]], sizes_bytes: Sequence[int]
    ) -> list[Answer]:
        """See `PartRunner.run`."""
        if not sizes_bytes or sum(sizes_bytes) <= DRIVER_BYTES_MAX:
            return self.here.run(make, sizes_bytes)
        parts = [pickle.dumps(make(number)) for number in range(len(sizes_bytes))]
        tasks = self.spark.sparkContext.parallelize(parts, len(parts))
        with raised_errors():
            found: list[Answer] = tasks.mapPartitions(RunParts(self.location)).collect()
        return found


@dataclass(frozen=True, slots=True)
class RunParts:
    """The task function: pickled parts -> what they give."""

    location: StoreLocation

    def __call__(self, parts: Iterable[bytes]) -> Iterator[Any]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None, "parts run inside Spark"
        numbers = TaskNumbers(task.partitionId(), task.stageId(), task.taskAttemptId())
        store = self.location.open()
        with carried_errors():
            for part in parts:
                yield from pickle.loads(part).run(store, numbers)
