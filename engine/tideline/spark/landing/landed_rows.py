"""From landed rows to rows a table takes: transform, mark deletes, fit the table's columns."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tideline.errors import ConfigError
from tideline.hudi.write.batch_rules import ARRIVAL, DELETED_FLAG
from tideline.spark.landing.bad_rows import RowFault
from tideline.spark.landing.sources import failure_reason, types_of
from tideline.spark.quoting import column_named

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


def fit_to_table(
    rows: DataFrame, table_schema: pa.Schema, *, is_text: bool, adds_columns: bool = True
) -> DataFrame:
    """Rows with every column of the table: nullable ones that are absent become null, unless
    `adds_columns` is false, and so do absent fields of structs, at any depth.

    Text files have no types of their own: their strings and long numbers are cast to the table's
    type, and a value that does not fit fails the write. Everything else is left for the write to
    judge.
    """
    known = types_of(table_schema)
    spelled = {name.lower(): name for name in rows.columns}
    columns = [
        column_named(item.name).cast(known[item.name.lower()]).alias(item.name)
        if is_text and _is_cast(item.dataType, known.get(item.name.lower()))
        else _filled(column_named(item.name), item.dataType, known.get(item.name.lower())).alias(
            item.name
        )
        for item in rows.schema
    ]
    for column in table_schema:
        if column.name.lower() in spelled or not adds_columns:
            continue
        if column.name == DELETED_FLAG:
            columns.append(F.lit(False).alias(DELETED_FLAG))
        elif column.nullable:
            columns.append(F.lit(None).cast(known[column.name.lower()]).alias(column.name))
    return rows.select(*columns)


def cast_faults(rows: DataFrame, table_schema: pa.Schema) -> list[RowFault]:
    """Values of text files that `fit_to_table` cannot cast."""
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


def column_types(rows: DataFrame) -> tuple[tuple[str, str], ...]:
    """Names and Spark types of the columns, as `known_types` reads them."""
    return tuple(
        (item.name, item.dataType.simpleString()) for item in rows.schema if item.name != ARRIVAL
    )


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


def _filled(column: Column, found: T.DataType, wanted: T.DataType | None) -> Column:
    """The column with null in the optional fields that its structs lack."""
    if not _lacks_fields(found, wanted):
        return column
    match found, wanted:
        case T.StructType(), T.StructType():
            known = {item.name.lower(): item for item in wanted}
            fields = [
                _filled(
                    column.getField(item.name),
                    item.dataType,
                    known[item.name.lower()].dataType if item.name.lower() in known else None,
                ).alias(item.name)
                for item in found
            ]
            absent = [F.lit(None).cast(item.dataType).alias(item.name)
                      for item in _absent_fields(found, wanted)]  # fmt: skip
            return F.when(column.isNotNull(), F.struct(*fields, *absent))
        case T.ArrayType(), T.ArrayType():
            kinds = found.elementType, wanted.elementType
            return F.transform(column, lambda item: _filled(item, *kinds))
        case T.MapType(), T.MapType():
            kinds = found.valueType, wanted.valueType
            return F.transform_values(column, lambda _, item: _filled(item, *kinds))
    return column


def _lacks_fields(found: T.DataType, wanted: T.DataType | None) -> bool:
    """Whether a struct somewhere in `found` lacks an optional field that `wanted` has there."""
    match found, wanted:
        case T.StructType(), T.StructType():
            parts = {item.name.lower(): item.dataType for item in wanted}
            return bool(_absent_fields(found, wanted)) or any(
                _lacks_fields(item.dataType, parts.get(item.name.lower())) for item in found
            )
        case T.ArrayType(), T.ArrayType():
            return _lacks_fields(found.elementType, wanted.elementType)
        case T.MapType(), T.MapType():
            return _lacks_fields(found.valueType, wanted.valueType)
    return False


def _absent_fields(found: T.StructType, wanted: T.StructType) -> list[T.StructField]:
    present = {item.name.lower() for item in found}
    return [item for item in wanted if item.nullable and item.name.lower() not in present]


def _is_cast(found: T.DataType, wanted: T.DataType | None) -> bool:
    if wanted is None or found == wanted:
        return False
    if isinstance(found, T.StringType):
        return isinstance(wanted, T.AtomicType) and not isinstance(wanted, T.BinaryType)
    return isinstance(found, T.LongType) and isinstance(wanted, T.IntegerType)
