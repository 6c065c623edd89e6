"""Arrow schemas of tables as Spark's, and Spark's as Arrow.

Columns come out nullable at every level, regardless of the table's schema: a file written before a
column was added has no values for it, and Spark would drop the filters that look for nulls.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from tideline.errors import UnsupportedTableError
from tideline.hudi.table.column_type import is_list_like

UTC = "UTC"

_DECIMAL_PRECISION_MAX = 38


def arrow_to_spark(schema: pa.Schema) -> T.StructType:
    """The Spark schema of a table's columns.

    Timestamps without a zone are TIMESTAMP_NTZ. Times of day are the integers that store them, as
    Hudi reads them. Raises UnsupportedTableError naming a column whose type Spark cannot read.
    """
    return _struct(schema, "")


def type_to_spark(data_type: pa.DataType, name: str = "") -> T.DataType:
    """The Spark type of one Arrow type; `name` is the column's, for the message."""
    return _type(data_type, name)


def spark_to_arrow(schema: T.StructType) -> pa.Schema:
    """The Arrow schema of a Spark schema; timestamps are microseconds, those with a zone UTC."""
    return to_arrow_schema(schema, error_on_duplicated_field_names_in_struct=True, timezone=UTC)


def _struct(fields: pa.Schema | pa.StructType, path: str) -> T.StructType:
    return T.StructType(
        [
            T.StructField(item.name, _type(item.type, f"{path}{item.name}"), nullable=True)
            for item in fields
        ]
    )


def _type(data_type: pa.DataType, name: str) -> T.DataType:
    if types.is_struct(data_type):
        return _struct(data_type, f"{name}.")
    if is_list_like(data_type):
        return T.ArrayType(_type(data_type.value_type, f"{name}.element"), containsNull=True)
    if types.is_map(data_type):
        key = _type(data_type.key_type, f"{name}.key")
        value = _type(data_type.item_type, f"{name}.value")
        return T.MapType(key, value, valueContainsNull=True)
    if types.is_decimal(data_type) and data_type.precision <= _DECIMAL_PRECISION_MAX:
        return T.DecimalType(data_type.precision, data_type.scale)
    if types.is_timestamp(data_type):
        return T.TimestampType() if data_type.tz else T.TimestampNTZType()
    if types.is_dictionary(data_type):
        return _type(data_type.value_type, name)
    for matches, spark_type in _SCALARS:
        if matches(data_type):
            return spark_type
    raise UnsupportedTableError(f"column {name}: Spark cannot read type {data_type}", value=name)


_SCALARS = (
    (types.is_boolean, T.BooleanType()),
    (types.is_int8, T.ByteType()),
    (types.is_int16, T.ShortType()),
    (types.is_int32, T.IntegerType()),
    (types.is_int64, T.LongType()),
    (types.is_float32, T.FloatType()),
    (types.is_float64, T.DoubleType()),
    (types.is_string, T.StringType()),
    (types.is_large_string, T.StringType()),
    (types.is_binary, T.BinaryType()),
    (types.is_large_binary, T.BinaryType()),
    (types.is_fixed_size_binary, T.BinaryType()),
    (types.is_date32, T.DateType()),
    (types.is_time32, T.IntegerType()),
    (types.is_time64, T.LongType()),
)
