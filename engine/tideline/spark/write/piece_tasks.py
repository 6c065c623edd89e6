"""Pieces of a write whose batch the driver holds, done by Spark's tasks.

1. Work that moves little is done by the driver's own threads: a job costs more than it saves.
2. Else a task gets one piece, with just the rows of its bucket, and nothing is shuffled.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from tideline.hudi.write.pieces import Piece, TaskNumbers, ThreadRunner
from tideline.spark.task_errors import carried_errors, raised_errors
from tideline.storage.location import StoreLocation

Answer = TypeVar("Answer")

DRIVER_BYTES_MAX = 64 * 1024 * 1024
"""What the driver's threads may read and be given in one go."""


@dataclass(frozen=True, slots=True)
class SparkPieceRunner:
    """See `tideline.hudi.write.pieces.PieceRunner`; `here` does small work."""

    spark: SparkSession
    location: StoreLocation
    here: ThreadRunner

    @property
    def parallelism(self) -> int:
        """Tasks."""
        return self.spark.sparkContext.defaultParallelism

    def run(self, make: Callable[[int], Piece[Answer]], sizes_bytes: Sequence[int]) -> list[Answer]:
        """See `PieceRunner.run`."""
        if not sizes_bytes or sum(sizes_bytes) <= DRIVER_BYTES_MAX:
            return self.here.run(make, sizes_bytes)
        pieces = [pickle.dumps(make(number)) for number in range(len(sizes_bytes))]
        tasks = self.spark.sparkContext.parallelize(pieces, len(pieces))
        with raised_errors():
            found: list[Answer] = tasks.mapPartitions(RunPieces(self.location)).collect()
        return found


@dataclass(frozen=True, slots=True)
class RunPieces:
    """The task function: pickled pieces -> what they give."""

    location: StoreLocation

    def __call__(self, pieces: Iterable[bytes]) -> Iterator[Any]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None, "pieces run inside Spark"
        numbers = TaskNumbers(task.partitionId(), task.stageId(), task.taskAttemptId())
        store = self.location.open()
        with carried_errors():
            for piece in pieces:
                yield from pickle.loads(piece).run(store, numbers)
