"""The ranges of columns that a task writes, for the statistics of the metadata table.

1. Of a base file they are those of its footer. Where that has no bounds, for text that is too long
   or for NaN, the column is read back.
2. Of a log file they are those of the rows that went into it; deletes count for nothing.
3. Long bounds are cut, the greatest one up.

Source: Hudi's ParquetUtils.readColumnStatsFromMetadata, HoodieAppendHandle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isnan
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from tideline.formats.text_order import text_after
from tideline.hudi.timeline.column_range import (
    Bound,
    ColumnRange,
    ColumnRanges,
    ValueKind,
    ValueType,
    ordered,
    united,
)
from tideline.parquet.column_encoding import decoded
from tideline.storage.object_store import ObjectStore

BOUND_LENGTH_MAX = 1024
"""Characters of a text, or bytes, that a bound has at most."""

_INT96 = "INT96"
_WITH_NAN = (ValueKind.FLOAT, ValueKind.DOUBLE)
_TIMES = {
    "ms": (ValueKind.TIMESTAMP_MILLIS, ValueKind.LOCAL_TIMESTAMP_MILLIS),
    "us": (ValueKind.TIMESTAMP_MICROS, ValueKind.LOCAL_TIMESTAMP_MICROS),
    "ns": (ValueKind.TIMESTAMP_NANOS, ValueKind.LOCAL_TIMESTAMP_NANOS),
}
_PLAIN_KINDS = (
    (types.is_boolean, ValueKind.BOOLEAN),
    (types.is_int8, ValueKind.INT),
    (types.is_int16, ValueKind.INT),
    (types.is_int32, ValueKind.INT),
    (types.is_int64, ValueKind.LONG),
    (types.is_float32, ValueKind.FLOAT),
    (types.is_float64, ValueKind.DOUBLE),
    (types.is_string, ValueKind.STRING),
    (types.is_binary, ValueKind.BYTES),
    (types.is_fixed_size_binary, ValueKind.FIXED),
    (types.is_date32, ValueKind.DATE),
    (types.is_time32, ValueKind.TIME_MILLIS),
    (types.is_time64, ValueKind.TIME_MICROS),
)


def value_type(data_type: pa.DataType) -> ValueType | None:
    """The type of a column's values; None where they have no order."""
    if types.is_dictionary(data_type):
        return value_type(data_type.value_type)
    if types.is_decimal(data_type):
        return ValueType.decimal(data_type.precision, data_type.scale)
    if types.is_timestamp(data_type):
        zoned, local = _TIMES.get(data_type.unit, (None, None))
        kind = local if data_type.tz is None else zoned
        return None if kind is None else ValueType(kind)
    for matches, kind in _PLAIN_KINDS:
        if matches(data_type):
            return ValueType(kind)
    return None


def ranges_of_base_file(
    store: ObjectStore,
    path: str,
    metadata: pq.FileMetaData,
    columns: Iterable[str],
    *,
    leaves_nan_out: bool = False,
) -> ColumnRanges | None:
    """The ranges of these columns in a base file with this footer, which leaves NaN out of bounds
    where it is another writer's.

    None where the file lacks one of them, or its values have no order. Raises what reading the file
    raises.
    """
    schema = metadata.schema.to_arrow_schema()
    numbers = {
        metadata.schema.column(number).path: number for number in range(metadata.num_columns)
    }
    found = {}
    for name in columns:
        number = numbers.get(name)
        kind = None if number is None else value_type(schema.field(name).type)
        if number is None or kind is None:
            return None
        if metadata.schema.column(number).physical_type == _INT96:
            kind = ValueType(ValueKind.TIMESTAMP_MICROS)
        chunks = [metadata.row_group(at).column(number) for at in range(metadata.num_row_groups)]
        is_hidden = leaves_nan_out and kind.kind in _WITH_NAN
        parts = [
            (None if is_hidden else _known(chunk, kind))
            or _measured(store, path, name, at, chunk, kind)
            for at, chunk in enumerate(chunks)
        ]
        found[name] = united(parts, kind)
    return found


def ranges_of_rows(
    batches: Sequence[pa.RecordBatch], columns: Iterable[str]
) -> ColumnRanges | None:
    """The ranges of these columns in rows. None where they lack one, or it has no order."""
    found = {}
    for name in columns:
        if any(batch.schema.get_field_index(name) < 0 for batch in batches):
            return None
        parts = [_range_of(decoded(batch.column(name))) for batch in batches]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        kind = known[-1].type if known else ValueType(ValueKind.NULL)
        found[name] = united(known, kind)
    return found


def _known(chunk: pq.ColumnChunkMetaData, kind: ValueType) -> ColumnRange | None:
    """The range of a row group's column by its statistics, None where they do not say it."""
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count:
        return None
    least = greatest = None
    if statistics.null_count < chunk.num_values:
        if not statistics.has_min_max:
            return None
        least = _stored_bound(statistics.min_raw, kind)
        greatest = _stored_bound(statistics.max_raw, kind)
        if least is None or greatest is None:
            return None
    return ColumnRange(
        kind,
        *_cut(least, greatest),
        values=chunk.num_values,
        nulls=statistics.null_count,
        size_bytes=chunk.total_compressed_size,
        plain_bytes=chunk.total_uncompressed_size,
    )


def _stored_bound(raw: Any, kind: ValueType) -> Bound | None:
    """A bound as statistics have it; None for a text that is cut within a character."""
    if kind.kind is ValueKind.DECIMAL and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    if kind.kind is ValueKind.STRING:
        try:
            return bytes(raw).decode()
        except UnicodeDecodeError:
            return None
    if isinstance(raw, float) and isnan(raw):
        return None
    found: Bound = raw
    return found


def _measured(
    store: ObjectStore,
    path: str,
    name: str,
    row_group: int,
    chunk: pq.ColumnChunkMetaData,
    kind: ValueType,
) -> ColumnRange:
    """The range of a row group's column by its values."""
    with (
        store.open_reader(path) as stream,
        pq.ParquetFile(stream, coerce_int96_timestamp_unit="us") as file,
    ):
        values = file.read_row_group(row_group, columns=[name]).column(name)
    parts = [_range_of(values_of) for values_of in values.chunks]
    found = united((part for part in parts if part is not None), kind)
    return ColumnRange(
        kind,
        found.least,
        found.greatest,
        found.values,
        found.nulls,
        chunk.total_compressed_size,
        chunk.total_uncompressed_size,
    )


def _range_of(values: pa.Array) -> ColumnRange | None:
    kind = value_type(values.type)
    if kind is None:
        return None
    counts = {"values": len(values), "nulls": values.null_count}
    if values.null_count == len(values):
        return ColumnRange(kind, None, None, **counts)
    bounds = list(_bounds_of(values))
    least, greatest = min(bounds, key=ordered), max(bounds, key=ordered)
    return ColumnRange(kind, *_cut(least, greatest), **counts)


def _bounds_of(values: pa.Array) -> Iterator[Bound]:
    """Values among which are the least and the greatest one, at least one of them."""
    if types.is_floating(values.type):
        nan = pc.is_nan(values)
        if pc.any(nan).as_py():
            yield float("nan")
        values = values.filter(pc.invert(nan))
    found = pc.min_max(_plain(values)).as_py()
    for bound in (found["min"], found["max"]):
        if bound is not None:
            yield int(bound.scaleb(values.type.scale)) if types.is_decimal(values.type) else bound


def _plain(values: pa.Array) -> pa.Array:
    """Times as the numbers that they are stored as."""
    if types.is_date32(values.type) or types.is_time32(values.type):
        return values.cast(pa.int32())
    if types.is_timestamp(values.type) or types.is_time64(values.type):
        return values.cast(pa.int64())
    if types.is_fixed_size_binary(values.type):
        return values.cast(pa.binary())
    return values


def _cut(least: Bound | None, greatest: Bound | None) -> tuple[Bound | None, Bound | None]:
    """Bounds of the same values, with an end to their length."""
    if isinstance(least, str | bytes):
        least = least[:BOUND_LENGTH_MAX]
    if isinstance(greatest, str) and len(greatest) > BOUND_LENGTH_MAX:
        greatest = text_after(greatest[:BOUND_LENGTH_MAX]) or greatest
    elif isinstance(greatest, bytes) and len(greatest) > BOUND_LENGTH_MAX:
        prefix = greatest[:BOUND_LENGTH_MAX].rstrip(b"\xff")
        greatest = prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else greatest
    return least, greatest
