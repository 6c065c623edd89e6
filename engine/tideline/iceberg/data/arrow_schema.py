"""Iceberg's types as Arrow has them, with field ids where parquet looks for them.

In memory a UUID is 16 fixed bytes, which every Arrow kernel understands; in a file it is a logical
type of its own, so `as_stored` relabels the columns just before they are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.errors import UnsupportedTableError
from tideline.iceberg.metadata.field_type import (
    CarriedVariant,
    Decimal,
    FieldType,
    Fixed,
    ListType,
    MapType,
    NestedField,
    Primitive,
    StructType,
    is_unknown,
    kind_word,
)

FIELD_ID = b"PARQUET:field_id"
VARIANT_BYTES = pa.struct(
    [pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)]
)

_PRIMITIVES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", tz="UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
    "uuid": pa.binary(16),
    "unknown": pa.null(),
}


def arrow_type(kind: FieldType) -> pa.DataType:
    """The type of rows in memory.

    Raises UnsupportedTableError for variant, other than in writes, geometry and geography.
    """
    match kind:
        case CarriedVariant():
            return VARIANT_BYTES
        case Primitive():
            if kind.name not in _PRIMITIVES:
                raise UnsupportedTableError(
                    "columns of this type are not supported", value=kind.name
                )
            return _PRIMITIVES[kind.name]
        case Decimal():
            return pa.decimal128(kind.precision, kind.scale)
        case Fixed():
            return pa.binary(kind.length)
        case StructType():
            return pa.struct([arrow_field(field) for field in kind.fields])
        case ListType():
            return pa.list_(_field("element", kind.element_id, kind.element, kind.element_required))
        case MapType():
            key = _field("key", kind.key_id, kind.key, True)
            return pa.map_(key, _field("value", kind.value_id, kind.value, kind.value_required))


def arrow_field(field: NestedField) -> pa.Field:
    """A column of rows in memory."""
    return _field(field.name, field.field_id, field.type, field.required)


def arrow_schema(fields: Iterable[NestedField]) -> pa.Schema:
    """The schema of rows in memory."""
    return pa.schema([arrow_field(field) for field in fields])


def readable_schema(fields: Iterable[NestedField]) -> tuple[pa.Schema, dict[str, str]]:
    """The schema of rows in memory, and the columns whose values are not read, with their types:
    they stand in the schema without a type."""
    columns: list[pa.Field] = []
    unread: dict[str, str] = {}
    for field in fields:
        try:
            columns.append(arrow_field(field))
        except UnsupportedTableError:
            columns.append(pa.field(field.name, pa.null()))
            unread[field.name] = kind_word(field.type)
    return pa.schema(columns), unread


def refuse_unread(names: Iterable[str], unread: Mapping[str, str]) -> None:
    """Raises UnsupportedTableError for a column whose values are not read."""
    found = next((name for name in names if name in unread), None)
    if found is not None:
        message = (
            f"the column {found} has a type that is not read ({unread[found]}): name the columns "
            "that are wanted, without it"
        )
        raise UnsupportedTableError(message, value=found)


def stored_schema(fields: Iterable[NestedField]) -> pa.Schema:
    """The schema to open a parquet file with: columns of unknown type are never stored."""
    return pa.schema(
        [
            arrow_field(field).with_type(_stored_type(field.type))
            for field in fields
            if not is_unknown(field.type)
        ]
    )


def as_stored(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows in memory under the schema of `stored_schema`; nothing is copied."""
    columns = [
        relabelled(column, schema.field(name).type)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if schema.get_field_index(name) >= 0
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def relabelled(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The same bytes under a type that differs in names, ids and extension types alone."""
    if array.type.equals(wanted, check_metadata=True):
        return array
    if isinstance(wanted, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(wanted, array)
    if types.is_struct(wanted):
        children = [
            relabelled(array.field(array.type.get_field_index(child.name)), child.type)
            for child in wanted
        ]
        return struct_array(array, children, wanted)
    if types.is_list(wanted):
        return list_array(array, relabelled(array.values, wanted.value_type), wanted)
    if types.is_map(wanted):
        key = relabelled(array.keys, wanted.key_type)
        return map_array(array, key, relabelled(array.items, wanted.item_type), wanted)
    return array


def struct_array(
    outline: pa.StructArray, children: Sequence[pa.Array], wanted: pa.DataType
) -> pa.StructArray:
    """Other children under the nulls of a struct column."""
    mask = outline.is_null() if outline.null_count else None
    if not children:
        validity = None if mask is None else pc.invert(mask).buffers()[1]
        return pa.Array.from_buffers(wanted, len(outline), [validity], children=[])
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)


def list_array(outline: Any, values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Other values under the offsets and nulls of a list column; `values` ignore its slice."""
    return pa.Array.from_buffers(
        wanted, len(outline), outline.buffers()[:2], offset=outline.offset, children=[values]
    )


def map_array(outline: Any, keys: pa.Array, items: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Other entries under the offsets and nulls of a map column; they ignore its slice."""
    entries = pa.StructArray.from_arrays(
        [keys, items], fields=[wanted.key_field, wanted.item_field]
    )
    return list_array(outline, entries, wanted)


def field_id(field: pa.Field) -> int | None:
    """The id that a file records for a column."""
    recorded = (field.metadata or {}).get(FIELD_ID)
    return None if recorded is None or int(recorded) < 0 else int(recorded)


def as_internal(value: Any, kind: FieldType) -> Any:
    """An Arrow scalar as partition tuples hold it: numbers for dates and times."""
    if not value.is_valid:
        return None
    if isinstance(kind, Primitive):
        if kind.name in ("date", "time") or kind.name.startswith("timestamp"):
            return value.value
        if kind.name == "uuid":
            return UUID(bytes=value.as_py())
    return value.as_py()


def as_arrow(value: Any, kind: FieldType) -> pa.Scalar:
    """An internal value, or None, as an Arrow scalar."""
    if value is None:
        return pa.scalar(None, arrow_type(kind))
    if isinstance(value, UUID):
        value = value.bytes
    return pa.scalar(value, arrow_type(kind))


def _field(name: str, number: int, kind: FieldType, required: bool) -> pa.Field:
    return pa.field(name, arrow_type(kind), not required, {FIELD_ID: str(number).encode()})


def _stored_type(kind: FieldType) -> pa.DataType:
    match kind:
        case Primitive(name="uuid"):
            return pa.uuid()
        case Primitive(name="unknown"):
            raise UnsupportedTableError("lists and maps of unknown type are not supported")
        case StructType():
            return pa.struct(
                [
                    arrow_field(field).with_type(_stored_type(field.type))
                    for field in kind.fields
                    if not is_unknown(field.type)
                ]
            )
        case ListType():
            return pa.list_(arrow_type(kind).value_field.with_type(_stored_type(kind.element)))
        case MapType():
            plain = arrow_type(kind)
            return pa.map_(
                plain.key_field.with_type(_stored_type(kind.key)),
                plain.item_field.with_type(_stored_type(kind.value)),
            )
    return arrow_type(kind)
