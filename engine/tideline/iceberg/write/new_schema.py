"""The Iceberg schema of a new table, from the columns that its rows have in Arrow.

Ids are given level by level, as Iceberg gives them: columns first, then what is in them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyarrow import types

from tideline.errors import ConfigError
from tideline.iceberg.metadata.field_type import (
    Decimal,
    FieldType,
    Fixed,
    ListType,
    MapType,
    NestedField,
    Primitive,
    StructType,
    identifies_rows,
    kind_word,
)
from tideline.iceberg.metadata.schema import Schema

_WORDS: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (types.is_boolean, "boolean"),
    (types.is_int64, "long"),
    (types.is_uint32, "long"),
    (types.is_integer, "int"),
    (types.is_float64, "double"),
    (types.is_floating, "float"),
    (types.is_date, "date"),
    (types.is_time, "time"),
    (types.is_string, "string"),
    (types.is_large_string, "string"),
    (types.is_string_view, "string"),
    (types.is_binary, "binary"),
    (types.is_large_binary, "binary"),
    (types.is_binary_view, "binary"),
)
_READERS_OWN = frozenset(
    {
        *("_file", "_pos", "_deleted", "_spec_id", "_partition"),
        *("_row_id", "_last_updated_sequence_number"),
    }
)


def new_schema(columns: pa.Schema, key: Sequence[str], *, has_nanoseconds: bool) -> Schema:
    """The schema of these columns; those of `key` identify a row, and are required.

    `has_nanoseconds`: the table's version has times of nanoseconds, which are kept; in others they
    are microseconds. Raises ConfigError naming a column that Iceberg cannot have.
    """
    numbers = itertools.count(1)
    fields = _Fields(numbers, has_nanoseconds).of(list(columns), "")
    by_name = {field.name: field for field in fields}
    for name in sorted(_READERS_OWN.intersection(by_name)):
        message = "readers of Iceberg tables have a column of this name of their own: rename it"
        raise ConfigError(message, value=name)
    for name in key:
        found = by_name.get(name)
        if found is None:
            raise ConfigError("the key names no column of the schema", value=name)
        if not identifies_rows(found.type):
            raise ConfigError(
                f"a column of type {kind_word(found.type)} identifies no row", value=name
            )
    kept = tuple(_required(field) if field.name in key else field for field in fields)
    made = Schema(0, kept, tuple(by_name[name].field_id for name in dict.fromkeys(key)))
    twice = made.doubled_name(case_sensitive=False)
    if twice is not None:
        raise ConfigError("the schema has a column twice; SQL ignores case", value=twice)
    return made


class _Fields:
    """Gives columns their ids and types."""

    def __init__(self, numbers: Iterator[int], has_nanoseconds: bool) -> None:
        self._numbers = numbers
        self._has_nanoseconds = has_nanoseconds

    def of(self, columns: Iterable[pa.Field], prefix: str) -> tuple[NestedField, ...]:
        listed = list(columns)
        if not all(column.name for column in listed):
            raise ConfigError("every column has a name", value=prefix or None)
        ids = [next(self._numbers) for _ in listed]
        return tuple(
            NestedField(
                number,
                column.name,
                self._type(column.type, f"{prefix}{column.name}"),
                not column.nullable,
            )
            for number, column in zip(ids, listed, strict=True)
        )

    def _type(self, kind: pa.DataType, name: str) -> FieldType:
        if types.is_dictionary(kind):
            kind = kind.value_type
        if isinstance(kind, pa.UuidType):
            return Primitive("uuid")
        if types.is_struct(kind):
            return StructType(self.of(list(kind), f"{name}."))
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            (element,) = self.of([kind.value_field.with_name("element")], f"{name}.")
            return ListType(element.field_id, element.type, element.required)
        if types.is_map(kind):
            inside = [kind.key_field.with_name("key"), kind.item_field.with_name("value")]
            key, value = self.of(inside, f"{name}.")
            return MapType(key.field_id, key.type, value.field_id, value.type, value.required)
        return self._primitive(kind, name)

    def _primitive(self, kind: pa.DataType, name: str) -> FieldType:
        if types.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= 38:
            return Decimal(kind.precision, kind.scale)
        if types.is_fixed_size_binary(kind):
            return Fixed(kind.byte_width)
        if types.is_timestamp(kind):
            word = "timestamptz" if kind.tz else "timestamp"
            is_ns = kind.unit == "ns" and self._has_nanoseconds
            return Primitive(f"{word}_ns" if is_ns else word)
        found = None if types.is_uint64(kind) else _word_of(kind)
        if found is None:
            raise ConfigError(f"Iceberg has no type for {kind}", value=name)
        return Primitive(found)


def _word_of(kind: pa.DataType) -> str | None:
    return next((word for matches, word in _WORDS if matches(kind)), None)


def _required(field: NestedField) -> NestedField:
    return NestedField(field.field_id, field.name, field.type, True)
