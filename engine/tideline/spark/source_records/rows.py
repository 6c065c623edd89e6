"""Rows of records that several tasks have read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tideline.hudi.write.batch_rules import ARRIVAL, DELETED_FLAG
from tideline.spark.quoting import column_named

_LAST = "_tideline_last_delete"


def read_once(frame: DataFrame) -> DataFrame:
    """The same, kept in memory and on disks until it is let go; what is lost is read again."""
    return frame.persist(StorageLevel.MEMORY_AND_DISK)


def without_deleted(rows: DataFrame, key: Sequence[str], ordering: Sequence[str]) -> DataFrame:
    """The rows that no later delete without ordering values names. They have ARRIVAL and
    DELETED_FLAG."""
    if not set(key).issubset(rows.columns):
        return rows
    nothing = [column_named(name).isNull() for name in ordering if name in rows.columns]
    names = {name: f"{_LAST}_{place}" for place, name in enumerate(key)}
    last = (
        rows.where(_all([F.col(DELETED_FLAG), *nothing]))
        .groupBy(*[column_named(name).alias(other) for name, other in names.items()])
        .agg(F.max(ARRIVAL).alias(_LAST))
    )
    same = [column_named(name).eqNullSafe(F.col(other)) for name, other in names.items()]
    joined = rows.join(last, _all(same), "left")
    kept = joined.where(F.col(_LAST).isNull() | (F.col(ARRIVAL) >= F.col(_LAST)))
    return kept.select(*map(column_named, rows.columns))


def _all(conditions: Sequence[Column]) -> Column:
    return reduce(lambda left, right: left & right, conditions)
