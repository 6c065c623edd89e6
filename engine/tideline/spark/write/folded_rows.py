"""Rows of one key in a batch become one by a task of their own, where rows fill each other up.

Only for keys whose rows do not meet in one write task anyway; see `tideline.hudi.write.row_fold`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tideline.hudi.write.row_fold import RowFold
from tideline.spark.task_errors import carried_errors
from tideline.spark.write.batch import ARRIVAL


def folded_rows(rows: DataFrame, fold: RowFold) -> DataFrame:
    """One row per key; the frame as it is where no key occurs twice."""
    key = list(fold.key)
    if rows.groupBy(*key).count().where(F.col("count") > 1).limit(1).isEmpty():
        return rows
    arranged = rows.repartition(*key).sortWithinPartitions(*key, ARRIVAL)
    return arranged.mapInArrow(FoldRows(fold), rows.schema)


@dataclass(frozen=True, slots=True)
class FoldRows:
    """Task function: rows sorted by key and arrival -> one row per key."""

    fold: RowFold

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried_errors():
            yield from self.fold.fold_sorted(batches)
