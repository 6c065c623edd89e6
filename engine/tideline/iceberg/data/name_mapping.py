"""Field ids for files that carry none, by the names of their columns.

A table that took over foreign files records in `schema.name-mapping.default` which names its fields
have there.

Source: Iceberg's specification, "Column Projection" and "Name Mapping Serialization".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types

from tideline.errors import UnsupportedTableError
from tideline.iceberg.data.arrow_schema import FIELD_ID, field_id


@dataclass(frozen=True, slots=True)
class MappedField:
    """The names of one field; `field_id` is None for a struct that is no field of the table."""

    field_id: int | None
    names: tuple[str, ...]
    fields: tuple[MappedField, ...]

    @classmethod
    def parse(cls, content: Mapping[str, Any]) -> MappedField:
        return cls(
            content.get("field-id"),
            tuple(content.get("names", ())),
            parse_name_mapping(content.get("fields") or ()),
        )


def parse_name_mapping(content: Sequence[Mapping[str, Any]]) -> tuple[MappedField, ...]:
    """A mapping as the property's JSON has it."""
    return tuple(MappedField.parse(item) for item in content)


def schema_with_ids(
    schema: pa.Schema, mapping: Sequence[MappedField] | None, *, path: str
) -> pa.Schema:
    """A file's schema with its own ids, or else those of a mapping. Raises UnsupportedTableError
    where there are neither."""
    if has_field_ids(schema):
        return schema
    if mapping is None:
        raise UnsupportedTableError(
            "a data file has no field ids and the table no schema.name-mapping.default", path=path
        )
    return with_mapped_ids(schema, mapping)


def has_field_ids(schema: pa.Schema) -> bool:
    """Whether any column of a file has an id."""
    return any(field_id(field) is not None for field in _all_fields(schema))


def with_mapped_ids(schema: pa.Schema, mapping: Sequence[MappedField]) -> pa.Schema:
    """A file's schema with the ids of a mapping; unmapped columns stay without."""
    return pa.schema([_mapped(field, mapping) for field in schema])


def _mapped(field: pa.Field, mapping: Sequence[MappedField]) -> pa.Field:
    found = next((item for item in mapping if field.name in item.names), None)
    return field if found is None else _with_id(field, found)


def _with_id(field: pa.Field, found: MappedField) -> pa.Field:
    kind = field.type
    if types.is_struct(kind):
        kind = pa.struct([_mapped(child, found.fields) for child in kind])
    elif types.is_list(kind) or types.is_large_list(kind):
        kind = pa.list_(_element(kind.value_field, found.fields))
    elif types.is_map(kind):
        kind = pa.map_(
            _renamed(kind.key_field, "key", found.fields),
            _renamed(kind.item_field, "value", found.fields),
        )
    metadata = {} if found.field_id is None else {FIELD_ID: str(found.field_id).encode()}
    return pa.field(field.name, kind, field.nullable, metadata)


def _element(child: pa.Field, mapping: Sequence[MappedField]) -> pa.Field:
    """An element of a list; Avro has maps as lists of keys and values."""
    names = {name for item in mapping for name in item.names}
    if "element" not in names and types.is_struct(child.type) and {"key", "value"} <= names:
        return child.with_type(pa.struct([_mapped(part, mapping) for part in child.type]))
    return _renamed(child, "element", mapping)


def _renamed(child: pa.Field, role: str, mapping: Sequence[MappedField]) -> pa.Field:
    """Children of lists and maps are mapped by their role: files name them as they like."""
    return _mapped(child.with_name(role), mapping).with_name(child.name)


def _all_fields(fields: Any) -> Iterator[pa.Field]:
    for field in fields:
        yield field
        kind = field.type
        if types.is_map(kind):
            yield from _all_fields((kind.key_field, kind.item_field))
        elif types.is_list(kind) or types.is_large_list(kind):
            yield from _all_fields((kind.value_field,))
        elif types.is_struct(kind):
            yield from _all_fields(kind)
