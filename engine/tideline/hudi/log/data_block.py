"""Rows as the content of a log block, and back: Avro records or a Parquet file; HFiles are read.

Avro values pass as plain numbers and bytes, and Arrow makes dates, times, decimals and maps of
them, column by column; records are written and read as columns, too, where `avro_columns` and
`avro_column_reader` take their schema, and by fastavro elsewhere. A Parquet block is read and
written by Arrow alone.
Source: Hudi's HoodieAvroDataBlock, HoodieParquetDataBlock, HoodieHFileDataBlock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from tideline.bounded.parsing import faults_named
from tideline.errors import CorruptTableError, InvalidDataError, UnsupportedTableError
from tideline.formats.avro import (
    decode_foreign_records,
    decode_records,
    encode_records,
    physical_schema,
)
from tideline.formats.avro_column_reader import decode_columns
from tideline.formats.avro_columns import encode_framed_rows, takes
from tideline.formats.avro_types import has_several_types
from tideline.formats.hfile import decode_hfile
from tideline.formats.log_block import (
    BlockKind,
    HeaderKey,
    avro_content,
    encode_avro_content,
    encode_block,
    split_avro_content,
)
from tideline.hudi.log.log_format import LogFormat
from tideline.hudi.table.avro_schema import avro_to_arrow
from tideline.hudi.table.column_type import is_list_like
from tideline.hudi.table.stored_value import converted_array, list_offsets
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.parquet.calendar import GREGORIAN_FOOTER, FileCalendar
from tideline.parquet.encoding import ParquetCodec, ParquetEncoding
from tideline.parquet.sink import EncodedSink

_DECIMAL_BYTES = 16
_HFILE_KEY = "key"


def encode_data_block(
    log_format: LogFormat,
    rows: pa.Table,
    schema_json: str,
    instant: InstantTime,
    *,
    codec: ParquetCodec = ParquetCodec.SNAPPY,
    headers: Mapping[HeaderKey, str] | None = None,
) -> bytes:
    """A whole data block of `rows`, which have the columns of the Avro record `schema_json`.

    That schema has the meta columns too, where the table has them. `headers` are further ones;
    `codec` is Parquet's. Raises InvalidDataError for values that do not fit the schema.
    """
    all_headers = {
        HeaderKey.INSTANT_TIME: str(instant),
        HeaderKey.SCHEMA: schema_json,
        **(headers or {}),
    }
    schema = avro_to_arrow(schema_json)
    if log_format is LogFormat.AVRO:
        content = _avro_content(_conformed(rows, schema), schema_json)
        return encode_block(BlockKind.AVRO_DATA, all_headers, content)
    content = _parquet_content(_conformed(rows, schema), codec)
    return encode_block(BlockKind.PARQUET_DATA, all_headers, content)


def decode_data_block(
    kind: BlockKind,
    content: bytes,
    schema_json: str,
    columns: Sequence[str] | None = None,
    *,
    path: object = None,
) -> pa.Table:
    """The rows of a data block, in the block's order: all columns, or those among `columns`.

    Names are compared ignoring case.

    Columns have the types of `schema_json` in an Avro block or an HFile, and those stored in a
    Parquet block. Raises CorruptTableError for content that cannot be read and
    UnsupportedTableError for other kinds, both naming `path`.
    """
    if kind is BlockKind.PARQUET_DATA:
        return _read_parquet(content, columns, path)
    if kind is BlockKind.AVRO_DATA:
        datums = split_avro_content(content, path=path)
        return decode_avro_rows(datums, schema_json, columns, path)
    if kind is BlockKind.HFILE_DATA:
        return _read_hfile(content, schema_json, columns, path)
    raise UnsupportedTableError(f"log blocks of kind {kind.name} are not read", path=path)


def decode_avro_rows(
    datums: Sequence[bytes],
    schema_json: str,
    columns: Sequence[str] | None = None,
    path: object = None,
    *,
    are_strangers: bool = False,
) -> pa.Table:
    """The rows of Avro records, which have the types of `schema_json`.

    With `are_strangers` each record must end where its bytes do: records of several writers are not
    checked as a whole. Theirs alone may have unions of several types, which are structs of members.
    Raises CorruptTableError naming `path`, and UnsupportedTableError for a type that Arrow lacks.
    """
    wanted = _arrow_schema(schema_json, unions=are_strangers)
    physical_json = physical_schema(schema_json)
    physical = _arrow_schema(physical_json, unions=are_strangers)
    names = wanted.names if columns is None else _chosen(wanted.names, columns)
    found = decode_columns(physical_json, datums, physical, names) if names else None
    if found is not None:
        arrays = [_to_logical(found[name], wanted.field(name).type) for name in names]
        return pa.Table.from_arrays(arrays, schema=pa.schema(map(wanted.field, names)))
    if datums and are_strangers and has_several_types(physical_json):
        # A value does not say what type of a union it has.
        raise CorruptTableError("Avro records cannot be read", path=path)
    decode = decode_foreign_records if are_strangers else decode_records
    records = decode(physical_json, datums, path=path)
    try:
        rows = pa.array(records, pa.struct([physical.field(name) for name in names]))
        arrays = [_to_logical(rows.field(name), wanted.field(name).type) for name in names]
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise CorruptTableError("Avro records cannot be read", path=path, value=error) from error
    if not names:
        return pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)])
    return pa.Table.from_arrays(arrays, schema=pa.schema([wanted.field(name) for name in names]))


def _avro_content(rows: pa.Table, schema_json: str) -> bytes:
    physical_json = physical_schema(schema_json)
    physical = _arrow_schema(physical_json)
    columns = [
        _to_physical(column.combine_chunks(), field.type)
        for column, field in zip(rows.columns, physical, strict=True)
    ]
    stored = pa.Table.from_arrays(columns, physical.names)
    try:
        if takes(physical_json):
            return avro_content(stored.num_rows, encode_framed_rows(physical_json, stored))
        return encode_avro_content(encode_records(physical_json, stored.to_pylist()))
    except (ValueError, TypeError) as error:
        raise InvalidDataError(
            "rows do not fit the schema of the log block", value=error
        ) from error


def _parquet_content(rows: pa.Table, codec: ParquetCodec) -> bytes:
    body = BytesIO()
    sink = EncodedSink(body, ParquetEncoding(codec, leaves_incompressible=True))
    try:
        sink.write(rows)
        sink.finish(GREGORIAN_FOOTER)
    except pa.ArrowInvalid as error:
        message = "rows cannot be stored as the table's schema says"
        raise InvalidDataError(message, value=error) from error
    return body.getvalue()


def _read_parquet(content: bytes, columns: Sequence[str] | None, path: object) -> pa.Table:
    try:
        with pq.ParquetFile(
            pa.BufferReader(content), coerce_int96_timestamp_unit="us", pre_buffer=False
        ) as file:
            wanted = None
            if columns is not None:
                wanted = _chosen(file.schema_arrow.names, columns)
            rows = file.read(columns=wanted, use_threads=False)
            calendar = FileCalendar.of(file.metadata)
    except (pa.ArrowException, OSError) as error:
        raise CorruptTableError(
            "Parquet log block cannot be read", path=path, value=error
        ) from error
    calendar.check_all(rows, path)
    return rows


def _read_hfile(
    content: bytes, schema_json: str, columns: Sequence[str] | None, path: object
) -> pa.Table:
    """Avro records by their keys; a column called `key` is stored as the key alone.

    Source: Hudi's HoodieHFileDataBlock.serializeRecord, HoodieAvroHFileReader.
    """
    entries = decode_hfile(content, path=path).entries
    rows = decode_avro_rows([value for _, value in entries], schema_json, columns, path)
    if _HFILE_KEY not in rows.schema.names:
        return rows
    position = rows.schema.get_field_index(_HFILE_KEY)
    with faults_named("keys of an HFile log block are no text", path=path):
        keys = pa.array([key.decode() for key, _ in entries], pa.string())
    stored = rows.schema.field(position)
    return rows.set_column(position, stored, keys.cast(stored.type))


def _chosen(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    folded = {name.casefold() for name in columns}
    return [name for name in names if name.casefold() in folded]


@lru_cache(maxsize=64)
def _arrow_schema(schema_json: str, *, unions: bool = False) -> pa.Schema:
    return avro_to_arrow(schema_json, unions=unions)


def _conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """`rows` in this schema, columns by name; text of one value may stay a dictionary."""
    missing = [name for name in schema.names if name not in rows.schema.names]
    if missing:
        raise InvalidDataError("rows lack columns of the log block", value=", ".join(missing))
    columns = []
    for field in schema:
        column = rows.column(field.name).combine_chunks()
        is_kept = _is_constant(column, field.type)
        try:
            columns.append(column if is_kept else converted_array(column, field.type))
        except pa.ArrowInvalid as error:
            raise InvalidDataError(f"column {field.name} of a log block", value=error) from error
    fields = zip(schema, columns, strict=True)
    return pa.Table.from_arrays(
        columns, schema=pa.schema([field.with_type(column.type) for field, column in fields])
    )


def _is_constant(column: pa.Array, kind: pa.DataType) -> bool:
    """Whether it has one value of this type, as a dictionary."""
    return column.type == pa.dictionary(pa.int32(), kind) and len(column.dictionary) == 1


def _to_physical(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Values as Avro stores them: numbers for dates and times, bytes for decimals."""
    if types.is_struct(wanted):
        children = [_to_physical(array.field(item.name), item.type) for item in wanted]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=array.is_null())
    if types.is_map(array.type):
        entries = pa.StructArray.from_arrays(
            [array.keys, _to_physical(array.items, wanted.value_type.field("value").type)],
            fields=list(wanted.value_type),
        )
        return pa.ListArray.from_arrays(list_offsets(array), entries, type=wanted)
    if is_list_like(wanted):
        items = _to_physical(array.values, wanted.value_type)
        return pa.ListArray.from_arrays(list_offsets(array), items, type=wanted)
    if types.is_decimal(array.type):
        return _decimal_bytes(array, wanted)
    # Text of one value stays a dictionary.
    is_kept = array.type == wanted or types.is_dictionary(array.type)
    return array if is_kept else array.cast(wanted)


def _to_logical(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The reverse of `_to_physical`."""
    if types.is_struct(wanted):
        children = [_to_logical(array.field(item.name), item.type) for item in wanted]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=array.is_null())
    if types.is_map(wanted):
        keys, items = array.values.field("key"), array.values.field("value")
        items = _to_logical(items, wanted.item_type)
        return pa.MapArray.from_arrays(list_offsets(array), keys, items, type=wanted)
    if is_list_like(wanted):
        items = _to_logical(array.values, wanted.value_type)
        return pa.ListArray.from_arrays(list_offsets(array), items, type=wanted)
    if types.is_decimal(wanted):
        return decimals_of_bytes(array, wanted)
    return array if array.type == wanted else array.cast(wanted)


def decimals_of_bytes(array: pa.Array, wanted: pa.Decimal128Type) -> pa.Array:
    """Avro's decimals, big-endian two's complement of any length, as Arrow's.

    Raises ArrowInvalid for a number of more than 16 bytes.
    """
    values = array.cast(pa.binary())
    count = len(values)
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)
    offsets = offsets[values.offset : values.offset + count + 1].astype(np.int64)
    lengths = np.diff(offsets)
    if count and int(lengths.max()) > _DECIMAL_BYTES:
        raise pa.ArrowInvalid(f"a decimal of {int(lengths.max())} bytes")
    data = values.buffers()[2]
    octets = np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)
    octets = np.append(octets, np.uint8(0))
    little = np.zeros((count, _DECIMAL_BYTES), dtype=np.uint8)
    for place in range(_DECIMAL_BYTES):
        present = lengths > place
        little[present, place] = octets[offsets[1:][present] - 1 - place]
    negative = (lengths > 0) & (octets[np.minimum(offsets[:-1], len(octets) - 1)] > 0x7F)
    for place in range(_DECIMAL_BYTES):
        little[negative & (lengths <= place), place] = 0xFF
    validity = pc.is_valid(values).cast(pa.uint8()).cast(pa.bool_())
    whole = pa.Array.from_buffers(wanted, count, [None, pa.py_buffer(little.tobytes())])
    return pc.if_else(validity, whole, pa.scalar(None, wanted)) if array.null_count else whole


def _decimal_bytes(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Arrow's decimals as Avro's: of the width of a fixed type, else of 16 bytes."""
    size = wanted.byte_width if types.is_fixed_size_binary(wanted) else _DECIMAL_BYTES
    start = array.offset * _DECIMAL_BYTES
    data = np.frombuffer(array.buffers()[1], dtype=np.uint8)
    little = data[start : start + len(array) * _DECIMAL_BYTES].reshape(-1, _DECIMAL_BYTES)
    big = np.ascontiguousarray(little[:, ::-1][:, -size:])
    if size > _DECIMAL_BYTES:
        sign = np.where(little[:, -1:] > 0x7F, 0xFF, 0).astype(np.uint8)
        big = np.hstack([np.repeat(sign, size - _DECIMAL_BYTES, axis=1), big])
    fixed = pa.Array.from_buffers(
        pa.binary(size), len(array), [None, pa.py_buffer(np.ascontiguousarray(big).tobytes())]
    )
    if array.null_count:
        fixed = pc.if_else(array.is_valid(), fixed, pa.scalar(None, pa.binary(size)))
    return fixed if fixed.type == wanted else fixed.cast(wanted)
