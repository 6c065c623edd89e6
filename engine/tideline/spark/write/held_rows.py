"""The rows of a DataFrame in the driver's memory, where they are few enough to be held.

1. Spark's own estimate says whether they may be; of more than that not a row is computed.
2. The columns that a write reads are computed once and come over in Arrow, in the frame's order.
3. What turns out to be more is given up, and Spark's tasks read the frame.

A driver with executors of its own holds less: its memory is mostly Java's, and rows that others
write are held once more on their way.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession

from tideline.errors import TidelineError
from tideline.hudi.keys.key_generator import KeyGenerator, key_columns
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import is_meta_column
from tideline.hudi.write.work_parts import PartRunner, ThreadRunner
from tideline.hudi.write.write_operation import WriteOperation
from tideline.spark.quoting import column_named
from tideline.spark.session.spark_session import is_local
from tideline.spark.task_errors import raised_errors
from tideline.spark.write.batch import arrow_schema, nullable_voids
from tideline.spark.write.part_tasks import SparkPartRunner

CLUSTER_BYTES_MAX = 128 * 1024 * 1024
"""In Arrow, in a driver that has executors."""
_GROWTH = 4
"""How much larger rows may be in Arrow than Spark's estimate, which is that of their files."""
_TOO_LARGE = "spark.driver.maxResultSize"


def part_runner(spark: SparkSession, table: HoodieTable) -> PartRunner:
    """Who writes held rows: threads here where Spark has this machine alone, else its tasks."""
    here = ThreadRunner.of(table.store)
    return here if runs_here(spark) else SparkPartRunner(spark, table.location, here)


def runs_here(spark: SparkSession) -> bool:
    """Whether the session's tasks run on this process' own machine."""
    return is_local(spark.sparkContext.master or "")


def held_rows(
    frame: DataFrame,
    table: HoodieTable,
    operation: WriteOperation,
    bytes_max: int,
    *,
    has_stored_keys: bool = False,
) -> pa.Table | None:
    """The rows, with the columns that the operation reads; None where they are more than that.

    `has_stored_keys`: they are the table's own, by their keys and partition paths.
    None as well where names of columns are ambiguous: preparing such a frame says which. Raises
    InvalidDataError for a column that no table can store, and as Spark does when a row cannot be
    computed.
    """
    wanted = [name for name in frame.columns if has_stored_keys or not is_meta_column(name)]
    if len({name.lower() for name in wanted}) < len(wanted):
        return None
    if not operation.writes_rows and not has_stored_keys:
        wanted = key_columns(wanted, KeyGenerator.from_config(table.config))
    chosen = frame.select(*[_in_arrow(frame, name) for name in wanted])
    if not runs_here(frame.sparkSession):
        bytes_max = min(bytes_max, CLUSTER_BYTES_MAX)
    if not may_be_held(chosen, bytes_max):
        return None
    try:
        schema = arrow_schema(chosen.schema)
    except TidelineError as error:
        error.table = error.table or table.uri
        raise
    try:
        with raised_errors():
            rows = chosen.toArrow()
    except PySparkException as error:
        if _TOO_LARGE in str(error):
            return None
        raise
    return None if rows.nbytes > bytes_max else rows.cast(schema)


def may_be_held(frame: DataFrame, bytes_max: int) -> bool:
    """Whether rows of this frame are worth asking for, by Spark's estimate of their size."""
    estimate = int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    return estimate * _GROWTH <= bytes_max


def _in_arrow(frame: DataFrame, name: str) -> Column:
    """The column in a type that Arrow has."""
    column, found = column_named(name), frame.schema[name].dataType
    wanted = nullable_voids(found)
    return column if wanted == found else column.cast(wanted).alias(name)
