"""Declared columns as an Arrow schema."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tideline.ingest.column_type import Column, ColumnType

_PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The columns as Arrow knows them."""
    return pa.schema(
        [pa.field(column.name, arrow_type(column.type), column.nullable) for column in columns]
    )


def arrow_type(kind: ColumnType) -> pa.DataType:
    """One type; what is nested may be null."""
    match kind.name:
        case "decimal":
            return pa.decimal128(kind.precision, kind.scale)
        case "array":
            return pa.list_(arrow_type(kind.fields[0][1]))
        case "map":
            return pa.map_(pa.string(), arrow_type(kind.fields[0][1]))
        case "struct":
            return pa.struct([pa.field(name, arrow_type(part)) for name, part in kind.fields])
        case primitive:
            return _PRIMITIVES[primitive]
