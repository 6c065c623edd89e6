"""How many rows match a condition: of a table, and by the file that holds them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.spark.arrow_frame import frame_of
from tideline.spark.read.frames import find_rows
from tideline.spark.read.query import refusals_named, silence_refusals
from tideline.spark.session.spark_session import spark_session
from tideline.storage.location import StoreLocation

_PATH = "_tideline_path"
_RECORD = "_tideline_record"
_ROW = "_tideline_row"
_PART_BYTES = 64 * 1024 * 1024
_PART_ROWS = 1_000_000


def count_in_table(spark: SparkSession | None, table: HoodieTable, where: str | Column) -> int:
    """The rows of the table, as it is now, that match. Raises ConfigError as `count_matching`."""
    return find_rows(spark, table, where).frame.count()


def columns_of_condition(
    spark: SparkSession | None, location: StoreLocation, where: str | Column, schema: pa.Schema
) -> list[str]:
    """The columns that a condition asks for: those without which Spark refuses it, and those whose
    names are in its text.

    All of them where it may ask for all by a star, or asks for none. Raises ConfigError for a
    condition that is refused with all.
    """
    names: list[str] = schema.names
    if not names:
        return []
    silence_refusals()
    spark = spark or spark_session(locations=[location])

    def refusal(names: Collection[str]) -> AnalysisException | None:
        """Why Spark refuses it in a table without these columns."""
        # A frame that they were dropped from would still give them to a condition.
        rest = [column for column in schema if column.name not in names]
        made = pa.schema([*rest, pa.field(_ROW, pa.int64())]).empty_table()
        try:
            frame_of(spark, made).filter(where)
        except AnalysisException as error:
            return error
        return None

    with refusals_named("condition", where):
        error = refusal(())
        if error is not None:
            raise error

    def needed(some: list[str]) -> list[str]:
        if refusal(some) is None:
            return []
        if len(some) == 1:
            return some
        half = len(some) // 2
        return [*needed(some[:half]), *needed(some[half:])]

    text = str(where).lower()
    if "*" in text or "unresolvedstar" in text:
        return names
    # Without a column `user` Spark takes the name for a function.
    found = {*needed(names), *(name for name in names if name.lower() in text)}
    return [name for name in names if name in found] or names


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
        with refusals_named("condition", where):
            counts = frame_of(spark, part).filter(where).groupBy(_PATH).count().toArrow()
        for path, count in zip(*(column.to_pylist() for column in counts.columns), strict=True):
            found[path] = found.get(path, 0) + count
    return found


def matching_rows(spark: SparkSession, where: str | Column, rows: pa.Table) -> list[int]:
    """The numbers of the rows that match. Raises as `count_matching`."""
    numbered = rows.append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))
    with refusals_named("condition", where):
        found = frame_of(spark, numbered).filter(where).select(_ROW).toArrow()
    return [int(number) for number in found.column(0).to_pylist()]


def count_in_records(
    spark: SparkSession,
    where: str | Column,
    schema: pa.Schema,
    records: Sequence[tuple[str, str]],
) -> dict[str, int]:
    """The same of rows as JSON objects, each with its path. Raises as `count_matching`."""
    if not records:
        return {}
    paths, texts = (pa.array(values, pa.string()) for values in zip(*records, strict=True))
    rows = frame_of(spark, pa.table({_PATH: paths, _RECORD: texts}))
    kind = frame_of(spark, schema.empty_table()).schema
    read = rows.select(_PATH, F.from_json(_RECORD, kind).alias(_RECORD))
    with refusals_named("condition", where):
        counts = read.select(_PATH, f"{_RECORD}.*").filter(where).groupBy(_PATH).count().collect()
    return {row[_PATH]: row["count"] for row in counts}


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
