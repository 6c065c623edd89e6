"""What columns of Postgres are in Arrow, where nobody declares them."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa

from tideline.ingest.sources.postgres.server_table import ServerColumn

_DECIMAL = re.compile(r"numeric\((\d+),(\d+)\)")
_DIGITS_MAX = 38
_TYPES = {
    "boolean": pa.bool_(),
    "smallint": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "date": pa.date32(),
    "bytea": pa.binary(),
}


def inferred_schema(columns: Iterable[ServerColumn], required: Iterable[str]) -> pa.Schema:
    """Text where Arrow has no such type, or none that has all values."""
    needed = set(required)
    fields = []
    for item in columns:
        kind = inferred_type(item.type_sql)
        if item.name in needed and pa.types.is_list(kind):
            # No key of the lake is a list.
            kind = pa.string()
        fields.append(pa.field(item.name, kind, item.name not in needed))
    return pa.schema(fields)


def inferred_type(type_sql: str) -> pa.DataType:
    """The type of one column: `numeric(10,2)`, `integer[]`."""
    if type_sql.endswith("[]"):
        return pa.list_(inferred_type(type_sql.removesuffix("[]")))
    if type_sql.startswith("timestamp"):
        return pa.timestamp("us", tz="UTC" if type_sql.endswith("with time zone") else None)
    decimal = _DECIMAL.fullmatch(type_sql)
    if decimal is not None:
        # One of more places than digits has zeros behind the point.
        digits, scale = max(int(decimal[1]), int(decimal[2])), int(decimal[2])
        return pa.decimal128(digits, scale) if digits <= _DIGITS_MAX else pa.string()
    return _TYPES.get(type_sql, pa.string())
