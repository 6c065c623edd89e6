"""From landed rows to rows a table takes: transform, mark deletes, cast to the table's types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from tideline.errors import ConfigError
from tideline.hudi.keys.key_generator import KeyGenerator
from tideline.hudi.write.batch_rules import ARRIVAL, DELETED_FLAG
from tideline.spark.quoting import column_named
from tideline.spark.source_files.bad_rows import RowFault
from tideline.spark.source_files.sources import failure_reason, types_of
from tideline.spark.write.keys import record_key_column

SOURCE_VIEW = "source"

# What a failed job says when the machinery is at fault and not the bytes of a file.
_INFRASTRUCTURE = re.compile(
    r"software\.amazon\.awssdk|com\.amazonaws|hadoop\.fs\.s3a\.(AWS|NoAuth)"
    r"|java\.nio\.file\.AccessDeniedException|java\.net\.|UnknownHostException"
    r"|No space left on device|OutOfMemoryError|ExecutorLostFailure|SparkContext (was|has been)"
    r"|[Jj]ob \S* ?cancelled|Py4JNetworkError|Answer from Java side is empty"
)


def transform_rows(session: SparkSession, rows: DataFrame, query: str) -> DataFrame:
    """The result of a Spark SQL query over the view `source`.

    Raises ConfigError when the query does not fit the rows.
    """
    rows.createOrReplaceTempView(SOURCE_VIEW)
    try:
        return session.sql(query)
    except PySparkException as error:
        raise ConfigError(f"the transform fails: {failure_reason(error)}", value=query) from error
    finally:
        session.catalog.dropTempView(SOURCE_VIEW)


def mark_deletes(rows: DataFrame, condition: str) -> DataFrame:
    """Add `_hoodie_is_deleted`, true where the SQL `condition` holds.

    Raises ConfigError when the condition does not fit the rows.
    """
    try:
        return rows.withColumn(
            DELETED_FLAG, F.coalesce(F.expr(condition).cast("boolean"), F.lit(False))
        )
    except PySparkException as error:
        raise ConfigError(f"deleteWhen fails: {failure_reason(error)}", value=condition) from error


def check_sql(
    session: SparkSession,
    transform: str | None,
    delete_when: str | None,
    columns: T.StructType | None,
) -> None:
    """Raise ConfigError for SQL that Spark cannot parse and, where the `columns` of the files are
    declared, for what it cannot find in them."""
    if columns is not None:
        own = T.StructType([*columns, T.StructField(ARRIVAL, T.LongType())])
        rows = session.createDataFrame([], own)
        if transform is not None:
            rows = transform_rows(session, rows, transform)
        if delete_when is not None:
            mark_deletes(rows, delete_when)
        return
    # Spark's public API parses no query without looking for its tables.
    parser: Any = session._jsparkSession.sessionState().sqlParser()
    for what, text, parse in (
        ("the transform", transform, parser.parsePlan),
        ("deleteWhen", delete_when, parser.parseExpression),
    ):
        try:
            _ = text is not None and parse(text)
        except PySparkException as error:
            raise ConfigError(f"{what} fails: {failure_reason(error)}", value=text) from error


def cast_text(rows: DataFrame, table_schema: pa.Schema) -> DataFrame:
    """Rows of text files, which have no types of their own, with strings and long numbers cast to
    the table's types; a value that does not fit fails the write."""
    known = types_of(table_schema)
    columns = []
    for item in rows.schema:
        column, wanted = column_named(item.name), known.get(item.name.lower())
        if wanted is not None and _is_cast(item.dataType, wanted):
            column = column.cast(wanted).alias(item.name)
        columns.append(column)
    return rows.select(*columns)


def cast_faults(rows: DataFrame, table_schema: pa.Schema) -> list[RowFault]:
    """Values of text files that `cast_text` cannot cast."""
    known = types_of(table_schema)
    faults = []
    for item in rows.schema:
        wanted = known.get(item.name.lower())
        if wanted is None or not _is_cast(item.dataType, wanted):
            continue
        column = column_named(item.name)
        is_bad = column.isNotNull() & column.try_cast(wanted).isNull()
        reason = f"is not of type {wanted.simpleString()}"
        faults.append(RowFault(is_bad, item.name, reason, column.cast("string")))
    return faults


def count_rows_and_keys(rows: DataFrame, keys: KeyGenerator) -> tuple[int, int]:
    """How many rows there are, and how many record keys."""
    key = record_key_column(keys, rows.schema)
    (found,) = rows.agg(F.count("*"), F.count_distinct(key)).collect()
    return found[0], found[1]


def count_rows_and_values(rows: DataFrame, columns: Sequence[str]) -> tuple[int, int]:
    """How many rows there are, and how many values these columns have together; without columns
    each row counts."""
    parts = [column_named(name) for name in columns]
    counted = F.count_distinct(F.struct(*parts)) if parts else F.count("*")
    (found,) = rows.agg(F.count("*"), counted).collect()
    return found[0], found[1]


def not_deleted(rows: DataFrame) -> DataFrame:
    """The rows that delete none, without the flag."""
    flag = column_named(DELETED_FLAG)
    return rows.where(~F.coalesce(flag, F.lit(False))).drop(DELETED_FLAG)


def computed_columns(rows: DataFrame) -> pa.Schema:
    """The columns in Arrow, once every row was computed. Raises what Spark raises for a row."""
    rows.write.format("noop").mode("overwrite").save()
    return to_arrow_schema(rows.schema, timezone="UTC")


@contextmanager
def once_computed(rows: DataFrame) -> Iterator[tuple[DataFrame, pa.Schema]]:
    """The rows, each computed once and kept on the executors' disks for as long as this is open,
    with their columns in Arrow. Raises as `computed_columns`."""
    if rows.storageLevel.useDisk or rows.storageLevel.useMemory:
        yield rows, computed_columns(rows)
        return
    kept = rows.persist(StorageLevel.DISK_ONLY)
    try:
        yield kept, computed_columns(kept)
    finally:
        kept.unpersist()


def column_types(rows: DataFrame) -> tuple[tuple[str, str], ...]:
    """Names and Spark types of the columns, as `known_types` reads them."""
    return tuple(
        (item.name, item.dataType.simpleString()) for item in rows.schema if item.name != ARRIVAL
    )


def new_columns(
    columns: Iterable[tuple[str, str]], known: Iterable[tuple[str, str]]
) -> tuple[tuple[str, str], ...]:
    """Those of the columns, as `column_types` gives them, that are not among the known."""
    names = {name.lower() for name, _ in known}
    return tuple((name, kind) for name, kind in columns if name.lower() not in names)


def known_types(columns: Iterable[tuple[str, str]]) -> dict[str, T.DataType]:
    """Types by name in lower case, from what `column_types` gave. Needs a session."""
    return {name.lower(): T.DataType.fromDDL(kind) for name, kind in columns}


def struct_of(schema: pa.Schema) -> T.StructType:
    """An Arrow schema as Spark's."""
    types = types_of(schema)
    return T.StructType(
        [T.StructField(item.name, types[item.name.lower()], item.nullable) for item in schema]
    )


def is_infrastructure_failure(error: Exception) -> bool:
    """Whether a failed Spark job says more about the machinery than about the data."""
    said = [line for line in str(error).splitlines() if not line.lstrip().startswith("at ")]
    return _INFRASTRUCTURE.search("\n".join((type(error).__name__, *said))) is not None


def is_alive(session: SparkSession) -> bool:
    """Whether the session's Java process answers and its context runs."""
    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except Exception:
        return False


def _is_cast(found: T.DataType, wanted: T.DataType | None) -> bool:
    if wanted is None or found == wanted:
        return False
    if isinstance(found, T.StringType):
        return isinstance(wanted, T.AtomicType) and not isinstance(wanted, T.BinaryType)
    return isinstance(found, T.LongType) and isinstance(wanted, T.IntegerType)
