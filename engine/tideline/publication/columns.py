"""The columns of a Hudi table as an Iceberg schema, and the names by which its files hold them.

1. Hudi's files carry no ids, so `schema.name-mapping.default` gives an id to every name that a
   file has: of the columns of today, of dropped ones, of Hudi's own (`_hoodie_*`). A name keeps its
   id.
2. The published schema has the columns of today, without Hudi's. All are optional: files from
   before a column was added do not have it.
3. A type may only change as Iceberg allows (int to long, float to double, more digits): anything
   else is refused, because older files could not be read. A type that a restore made narrower again
   stays published as the wider one, as which all files can be read.

Pure.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types

from tideline.errors import UnsupportedTableError
from tideline.iceberg.data.arrow_schema import field_id
from tideline.iceberg.data.name_mapping import MappedField
from tideline.iceberg.metadata.field_type import (
    Decimal,
    FieldType,
    Fixed,
    ListType,
    MapType,
    NestedField,
    Primitive,
    StructType,
)

_WIDENS = {("int", "long"), ("float", "double")}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column of numbers or texts in a file, in the file's order."""

    field_id: int | None
    name: str
    type: pa.DataType
    repeated: bool


class Ids:
    """Gives ids to names that have none: above all that are in use."""

    def __init__(self, mapping: Iterable[MappedField], last_column_id: int) -> None:
        self._numbers = itertools.count(max(last_column_id, _highest(mapping)) + 1)

    def named(
        self, columns: Iterable[pa.Field], mapping: tuple[MappedField, ...]
    ) -> tuple[MappedField, ...]:
        """`mapping`, and the names of `columns` that it lacks, at any depth."""
        known = {name: entry for entry in mapping for name in entry.names}
        for column in columns:
            entry = known.get(column.name) or MappedField(next(self._numbers), (column.name,), ())
            inner = self.named(_children(column.type), entry.fields)
            known[column.name] = MappedField(entry.field_id, entry.names, inner)
        return tuple(known.values())


def published_schema(
    columns: pa.Schema, mapping: Iterable[MappedField], known: Mapping[int, FieldType]
) -> tuple[NestedField, ...]:
    """The Iceberg fields of `columns`, which `mapping` has all; `known` are the types with which
    ids were published before.

    Raises UnsupportedTableError naming a column that Iceberg cannot have, or not any more.
    """
    return _fields(columns, mapping, known, "")


def mapping_json(mapping: Iterable[MappedField]) -> str:
    """The text of `schema.name-mapping.default`."""
    return json.dumps([_entry(mapped_field) for mapped_field in mapping], separators=(",", ":"))


def leaves_of(schema: pa.Schema) -> Iterator[Leaf]:
    """The leaves of an Arrow schema with field ids, in the order in which parquet stores them."""
    for item in schema:
        yield from _leaves(item, item.name, repeated=False)


def _fields(
    columns: Iterable[pa.Field],
    mapping: Iterable[MappedField],
    known: Mapping[int, FieldType],
    prefix: str,
) -> tuple[NestedField, ...]:
    by_name = {name: entry for entry in mapping for name in entry.names}
    return tuple(
        _field(column, by_name[column.name], known, f"{prefix}{column.name}") for column in columns
    )


def _field(
    column: pa.Field, entry: MappedField, known: Mapping[int, FieldType], name: str
) -> NestedField:
    number = entry.field_id
    assert number is not None
    parts = _fields(_children(column.type), entry.fields, known, f"{name}.")
    found = _of_parts(column.type, parts, name)
    before = known.get(number)
    if before is not None and _widens(found, before):
        found = before
    if before is not None and not _is_readable(before, found):
        raise UnsupportedTableError(
            f"column {name} became {_word(found)} and was published as {_word(before)}: Iceberg "
            "cannot read its older files so",
            value=name,
        )
    return NestedField(number, column.name, found)


def _children(kind: pa.DataType) -> tuple[pa.Field, ...]:
    """What is directly inside a type, named as Iceberg maps it."""
    if types.is_struct(kind):
        return tuple(kind)
    if types.is_list(kind) or types.is_large_list(kind):
        return (kind.value_field.with_name("element"),)
    if types.is_map(kind):
        return (kind.key_field.with_name("key"), kind.item_field.with_name("value"))
    return ()


def _of_parts(kind: pa.DataType, parts: tuple[NestedField, ...], name: str) -> FieldType:
    if types.is_struct(kind):
        return StructType(parts)
    if types.is_map(kind):
        key, value = parts
        return MapType(key.field_id, key.type, value.field_id, value.type, False)
    if parts:
        return ListType(parts[0].field_id, parts[0].type, False)
    return _primitive(kind, name)


def _is_readable(before: FieldType, found: FieldType) -> bool:
    """Whether files of the one type are read as the other; parts are compared by themselves."""
    if isinstance(before, StructType | ListType | MapType):
        return type(before) is type(found)
    return before == found or _widens(before, found)


def _word(kind: FieldType) -> str:
    return {StructType: "struct", ListType: "list", MapType: "map"}.get(type(kind), str(kind))


def _widens(before: FieldType, found: FieldType) -> bool:
    if isinstance(before, Decimal) and isinstance(found, Decimal):
        return before.scale == found.scale and before.precision <= found.precision
    return (str(before), str(found)) in _WIDENS


_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (types.is_boolean, "boolean"),
    (types.is_int32, "int"),
    (types.is_int64, "long"),
    (types.is_float32, "float"),
    (types.is_float64, "double"),
    (types.is_date32, "date"),
    (types.is_string, "string"),
    (types.is_binary, "binary"),
)


def _primitive(kind: pa.DataType, name: str) -> FieldType:
    for matches, word in _PLAIN:
        if matches(kind):
            return Primitive(word)
    if types.is_decimal(kind):
        return Decimal(kind.precision, kind.scale)
    if types.is_timestamp(kind) and kind.unit in ("ms", "us"):
        return Primitive("timestamptz" if kind.tz else "timestamp")
    if types.is_fixed_size_binary(kind):
        return Fixed(kind.byte_width)
    raise UnsupportedTableError(f"column {name}: Iceberg has no type for {kind}", value=name)


def _entry(field: MappedField) -> dict[str, Any]:
    found: dict[str, Any] = {"field-id": field.field_id, "names": list(field.names)}
    if field.fields:
        found["fields"] = [_entry(mapped_field) for mapped_field in field.fields]
    return found


def _highest(mapping: Iterable[MappedField]) -> int:
    return max(
        (
            max(mapped_field.field_id or 0, _highest(mapped_field.fields))
            for mapped_field in mapping
        ),
        default=0,
    )


def _leaves(item: pa.Field, name: str, *, repeated: bool) -> Iterator[Leaf]:
    children = _children(item.type)
    inside = repeated or not types.is_struct(item.type)
    for child in children:
        yield from _leaves(child, f"{name}.{child.name}", repeated=inside)
    if not children:
        yield Leaf(field_id(item), name, item.type, repeated)
