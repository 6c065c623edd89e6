"""Column expressions that turn stored values into the table's type.

They keep every value Hudi would: a float becomes the double, or the decimal, of the same decimal
text, mislabelled timestamps regain their unit. Independent of the session's time zone.
Source: Hudi's HoodieAvroUtils.rewritePrimaryType, AvroSchemaRepair.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
from pyarrow import types
from pyspark.sql import Column
from pyspark.sql import functions as F

from tideline.hudi.table.column_type import is_list_like
from tideline.spark.arrow_types import type_to_spark

_PER_SECOND = {"ms": 1_000, "us": 1_000_000}


def converted(column: Column, stored: pa.DataType, wanted: pa.DataType) -> Column:
    """`column`, read as `stored`, as values of `wanted`; unchanged when the types are equal."""
    if stored == wanted:
        return column
    if types.is_struct(wanted):
        return _struct(column, stored, wanted)
    if is_list_like(wanted):
        return F.transform(
            column, lambda item: converted(item, stored.value_type, wanted.value_type)
        )
    if types.is_map(wanted):
        return F.transform_values(
            column, lambda _, item: converted(item, stored.item_type, wanted.item_type)
        )
    return _leaf(column, stored, wanted)


def _struct(column: Column, stored: pa.StructType, wanted: pa.StructType) -> Column:
    children = [
        converted(column.getField(have.name), have.type, want.type).alias(want.name)
        for have, want in zip(stored, wanted, strict=True)
    ]
    return F.when(column.isNotNull(), F.struct(*children))


def _leaf(column: Column, stored: pa.DataType, wanted: pa.DataType) -> Column:
    if types.is_float32(stored) and types.is_float64(wanted):
        return column.cast("string").cast("double")
    if types.is_float32(stored) and types.is_decimal(wanted):
        # Spark uses the double, whose further digits are not the column's.
        return column.cast("string").cast(type_to_spark(wanted))
    if types.is_timestamp(wanted) and types.is_timestamp(stored):
        return F.timestamp_millis(F.unix_micros(column))
    if types.is_timestamp(wanted) and wanted.tz is None and types.is_int64(stored):
        return _local_timestamp(column, _PER_SECOND[wanted.unit])
    if types.is_timestamp(wanted) and types.is_int64(stored):
        make = F.timestamp_millis if wanted.unit == "ms" else F.timestamp_micros
        return make(column)
    return column.cast(type_to_spark(wanted))


def _local_timestamp(column: Column, per_second: int) -> Column:
    seconds = (column.cast("decimal(20,0)") / F.lit(Decimal(per_second))).cast("decimal(18,6)")
    epoch = F.lit("1970-01-01").cast("timestamp_ntz")
    return epoch + F.make_dt_interval(F.lit(0), F.lit(0), F.lit(0), seconds)
