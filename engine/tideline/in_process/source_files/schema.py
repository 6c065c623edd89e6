"""Which parquet files of others are read here as Spark reads them, and as what. Pure.

1. `source_schema` gives the columns of a file in the types that Spark gives them: nullable at every
   level, times in microseconds, those that are moments in UTC.
2. `why_spark` names what Arrow reads otherwise: kinds of values without a counterpart, lists and
   maps in older forms, days and times in the old calendar, names that differ by case only.
3. `memory_bytes` estimates from the footer how much memory the rows take.

Source: Spark's ParquetToSparkSchemaConverter; Arrow's SchemaManifest.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from tideline.bounded.read_limits import too_many_columns
from tideline.hudi.table.column_type import ELEMENT, KEY, VALUE
from tideline.parquet.calendar import FileCalendar

UTC = "UTC"
_INT96 = "INT96"
_PLAIN = frozenset({"NONE", "STRING", "INT", "DECIMAL", "DATE", "TIMESTAMP"})
"""Annotations that both read alike; Arrow shows an unsigned one in its type."""
_SAME = frozenset(
    {
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.date32(),
        pa.string(),
        pa.binary(),
    }
)
_TEXTS = frozenset({pa.large_string(), pa.string_view()})
_BYTES = frozenset({pa.large_binary(), pa.binary_view()})
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8}
_TEXT_OVERHEAD = 4
"""The offset of a value of variable size; decimals of sixteen bytes are stored in fewer."""
_DECIMAL_WIDTH = 16


@dataclass(frozen=True, slots=True)
class SourceFooter:
    """What the footer of one file says."""

    path: str
    metadata: pq.FileMetaData
    arrow_schema: pa.Schema


def source_schema(footer: SourceFooter) -> pa.Schema | None:
    """The file's columns as Spark gives them; None where one has no such type."""
    moments = {name for name, is_moment in _moments(footer).items() if is_moment}
    fields = []
    for item in footer.arrow_schema:
        kind = _spark_type(item.type)
        if kind is None:
            return None
        if types.is_timestamp(kind) and item.name in moments:
            kind = pa.timestamp("us", UTC)
        fields.append(pa.field(item.name, kind))
    return pa.schema(fields)


def why_spark(footer: SourceFooter) -> str | None:
    """Why Spark reads the file; None where it is read here to the same rows."""
    names = footer.arrow_schema.names
    if too_many_columns(footer.metadata.num_columns) is not None:
        return "it has more columns than are read"
    if len({name.lower() for name in names}) < len(names):
        return "names of its columns differ by case only"
    if not names or any("." in name for name in names):
        return "its columns have names that are no column's"
    if FileCalendar.of(footer.metadata).is_old:
        return "its days and times may be in the calendar that Spark had before 3.0"
    unlike = next((item.name for item in footer.arrow_schema if not _is_alike(item)), None)
    if unlike is not None:
        return f"column {unlike} is of a type that Spark reads in its own way"
    wanted = Counter(
        path for item in footer.arrow_schema for path in _leaf_paths(item.type, item.name)
    )
    schema = footer.metadata.schema
    found = Counter(_standard(schema.column(n).path) for n in range(footer.metadata.num_columns))
    if wanted != found:
        return "its lists or maps are in an older form"
    for number in range(footer.metadata.num_columns):
        leaf = schema.column(number)
        if leaf.logical_type.type not in _PLAIN:
            return f"column {leaf.path} has values of kind {leaf.logical_type.type}"
    moments = (path for path, is_moment in _moments(footer).items() if is_moment)
    nested = next((path for path in moments if "." in path), None)
    return None if nested is None else f"column {nested} has times in an older form"


def memory_bytes(metadata: pq.FileMetaData) -> int:
    """About how many bytes the file's rows take in memory, before any is read."""
    total = 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        for number in range(group.num_columns):
            chunk = group.column(number)
            width = _WIDTHS.get(chunk.physical_type, _TEXT_OVERHEAD)
            if metadata.schema.column(number).logical_type.type == "DECIMAL":
                width = _DECIMAL_WIDTH
            total += max(chunk.num_values * width, chunk.total_uncompressed_size)
    return total


def _is_alike(item: pa.Field) -> bool:
    return _spark_type(item.type) is not None and not _holds_nanos(item.type, is_nested=False)


def _holds_nanos(kind: pa.DataType, *, is_nested: bool) -> bool:
    """Whether times in nanoseconds are inside a list, map or struct."""
    if types.is_timestamp(kind):
        return is_nested and kind.unit == "ns"
    parts = (kind.field(number).type for number in range(kind.num_fields))
    return any(_holds_nanos(part, is_nested=True) for part in parts)


def _spark_type(kind: pa.DataType) -> pa.DataType | None:
    """The type as Spark gives it, in Arrow; None where it has none of its own."""
    if types.is_dictionary(kind):
        return _spark_type(kind.value_type)
    if kind in _SAME:
        return kind
    if kind in _TEXTS:
        return pa.string()
    if kind in _BYTES:
        return pa.binary()
    if types.is_timestamp(kind):
        return pa.timestamp("us", UTC if kind.tz else None)
    if types.is_decimal128(kind) and kind.scale >= 0:
        return kind
    if types.is_list(kind) or types.is_large_list(kind):
        item = _spark_type(kind.value_type)
        return None if item is None else pa.list_(pa.field(ELEMENT, item))
    if types.is_map(kind) and kind.key_type in {pa.string(), *_TEXTS}:
        value = _spark_type(kind.item_type)
        return None if value is None else pa.map_(pa.string(), pa.field(VALUE, value))
    if types.is_struct(kind) and kind.num_fields:
        names = [part.name for part in kind]
        parts = [_spark_type(part.type) for part in kind]
        if None in parts or len({name.lower() for name in names}) < len(names):
            return None
        return pa.struct([pa.field(name, part) for name, part in zip(names, parts, strict=True)])
    return None


def _leaf_paths(kind: pa.DataType, path: str) -> Iterator[str]:
    """Where the single values of a column are in a file that nests in the standard form."""
    if types.is_struct(kind):
        for part in kind:
            yield from _leaf_paths(part.type, f"{path}.{part.name}")
    elif types.is_list(kind) or types.is_large_list(kind):
        yield from _leaf_paths(kind.value_type, f"{path}.list.{ELEMENT}")
    elif types.is_map(kind):
        yield f"{path}.key_value.{KEY}"
        yield from _leaf_paths(kind.item_type, f"{path}.key_value.{VALUE}")
    else:
        yield path


def _standard(path: str) -> str:
    """Older Arrow called the element of a list `item`."""
    return path.replace(".list.item", f".list.{ELEMENT}")


def _moments(footer: SourceFooter) -> dict[str, bool]:
    """Columns, by path, of times that Arrow gives without a zone: whether they are moments.

    INT96 are, and so are times annotated by older writers.
    """
    schema = footer.metadata.schema
    found = {}
    for number in range(footer.metadata.num_columns):
        leaf = schema.column(number)
        if leaf.physical_type == _INT96:
            found[leaf.path] = True
        elif leaf.logical_type.type == "TIMESTAMP":
            said = json.loads(leaf.logical_type.to_json())
            found[leaf.path] = said["isAdjustedToUTC"] and said["is_from_converted_type"]
    return found
