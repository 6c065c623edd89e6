"""The types of a table's columns in Hive's words, and as the schema that Spark keeps in JSON. Pure.

Hive keeps names in lower case, those of fields in structs too. Spark reads its own schema, whose
names are the table's.

Source: Hudi's HiveSchemaUtil and SparkSchemaUtils.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from pyarrow import types

from tideline.errors import UnsupportedTableError

_INTEGER_TIME = pa.time32("ms")
_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], str, str], ...] = (
    (types.is_boolean, "boolean", "boolean"),
    (types.is_int32, "int", "integer"),
    (types.is_int64, "bigint", "long"),
    (types.is_float32, "float", "float"),
    (types.is_float64, "double", "double"),
    (types.is_date32, "date", "date"),
    (types.is_string, "string", "string"),
    (types.is_binary, "binary", "binary"),
    (types.is_fixed_size_binary, "binary", "binary"),
    (_INTEGER_TIME.equals, "int", "integer"),
    (types.is_time, "bigint", "long"),
)


def hive_type(kind: pa.DataType, name: str) -> str:
    """A type in Hive's words. Raises UnsupportedTableError naming the column it has none for."""
    if types.is_struct(kind):
        inner = (f"{part.name}:{hive_type(part.type, f'{name}.{part.name}')}" for part in kind)
        return f"struct<{','.join(inner)}>".lower()
    if types.is_list(kind):
        return f"array<{hive_type(kind.value_type, name)}>"
    if types.is_map(kind):
        return f"map<{hive_type(kind.key_type, name)},{hive_type(kind.item_type, name)}>"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return "timestamp"
    return _plain(kind, name)[0]


def spark_schema(columns: Iterable[pa.Field]) -> dict[str, Any]:
    """The columns as Spark's JSON has them. Raises as `hive_type`."""
    return {"type": "struct", "fields": [_spark_field(column, column.name) for column in columns]}


def _spark_field(column: pa.Field, name: str) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": _spark_type(column.type, name),
        "nullable": column.nullable,
        "metadata": {},
    }


def _spark_type(kind: pa.DataType, name: str) -> Any:
    if types.is_struct(kind):
        inner = [_spark_field(part, f"{name}.{part.name}") for part in kind]
        return {"type": "struct", "fields": inner}
    if types.is_list(kind):
        element = kind.value_field
        return {
            "type": "array",
            "elementType": _spark_type(element.type, name),
            "containsNull": element.nullable,
        }
    if types.is_map(kind):
        return {
            "type": "map",
            "keyType": _spark_type(kind.key_type, name),
            "valueType": _spark_type(kind.item_type, name),
            "valueContainsNull": kind.item_field.nullable,
        }
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    return _plain(kind, name)[1]


def _plain(kind: pa.DataType, name: str) -> tuple[str, str]:
    for matches, hive, spark in _PLAIN:
        if matches(kind):
            return hive, spark
    message = f"column {name}: Hive has no type for {kind}; tables with it cannot be registered"
    raise UnsupportedTableError(message, value=name)
