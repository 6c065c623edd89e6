"""How many rows match a condition: of a table, and by the file that holds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, SparkSession

from tideline.errors import ConfigError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.spark.arrow_frame import frame_of
from tideline.spark.read.frames import rows_matching
from tideline.spark.session.spark_session import spark_session
from tideline.storage.location import StoreLocation

_PATH = "_tideline_path"
_PART_BYTES = 64 * 1024 * 1024
_PART_ROWS = 1_000_000


def count_in_table(spark: SparkSession | None, table: HoodieTable, where: str | Column) -> int:
    """The rows of the table, as it is now, that match. Raises ConfigError as `count_matching`."""
    with _refusals_named(where):
        return rows_matching(spark, table, where).count()


def count_matching(
    spark: SparkSession | None,
    location: StoreLocation,
    where: str | Column,
    schema: pa.Schema,
    rows: Iterable[tuple[str, pa.RecordBatch]],
) -> dict[str, int]:
    """The number of rows that match, by path; paths without any are left out.

    Raises ConfigError for a condition that Spark refuses, also where there are no rows.
    """
    spark = spark or spark_session(locations=[location])
    with_path = schema.append(pa.field(_PATH, pa.string()))
    found: dict[str, int] = {}
    if not schema.names:
        return found
    for part in _parts(rows, with_path):
        with _refusals_named(where):
            counts = frame_of(spark, part).filter(where).groupBy(_PATH).count().toArrow()
        for path, count in zip(*(column.to_pylist() for column in counts.columns), strict=True):
            found[path] = found.get(path, 0) + count
    return found


def _parts(rows: Iterable[tuple[str, pa.RecordBatch]], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows with their paths, in tables that fit in memory; one at least."""
    held: list[pa.RecordBatch] = []
    size = count = parts = 0
    for path, batch in rows:
        paths = pa.repeat(path, batch.num_rows)
        held.append(pa.RecordBatch.from_arrays([*batch.columns, paths], schema=schema))
        size, count = size + batch.nbytes, count + batch.num_rows
        if size >= _PART_BYTES or count >= _PART_ROWS:
            yield pa.Table.from_batches(held, schema)
            held, size, count, parts = [], 0, 0, parts + 1
    if held or not parts:
        yield pa.Table.from_batches(held, schema)


@contextmanager
def _refusals_named(where: str | Column) -> Iterator[None]:
    try:
        yield
    except (AnalysisException, ParseException) as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), "")
        raise ConfigError(f"Spark refuses the condition: {reason}", value=where) from error
