"""Iceberg's types, as table metadata writes them (spec, "Schemas and Data Types" and Appendix C).

A primitive is a word (`long`, `decimal(9,2)`, `fixed[16]`); struct, list and map are JSON objects
whose parts carry field ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tideline.errors import CorruptTableError

_NUMBERS = ("boolean", "int", "long", "float", "double")
_TIMES = ("date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")
_PLAIN = frozenset({*_NUMBERS, *_TIMES, "string", "uuid", "binary", "unknown"})
OPAQUE = re.compile(r"variant|(?:geometry|geography)(?:\(.*\))?")
"""Types whose values Tideline does not look into."""
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parameters; `name` is one of the spec's words.

    So are variant, geometry and geography, whose values Tideline does not look into: their `name`
    is all that metadata says of them.
    """

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class CarriedVariant(Primitive):
    """A variant in a write, which carries it from file to file as its metadata and its value."""

    name: str = "variant"


VARIANT = Primitive("variant")


@dataclass(frozen=True, slots=True)
class Decimal:
    """A decimal number of `precision` digits, `scale` of them behind the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        # The blank is Java's and PyIceberg's.
        return f"decimal({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class Fixed:
    """Exactly `length` bytes."""

    length: int

    def __str__(self) -> str:
        return f"fixed[{self.length}]"


@dataclass(frozen=True, slots=True)
class NestedField:
    """A column or a struct's member; defaults are JSON single values (spec, Appendix D)."""

    field_id: int
    name: str
    type: FieldType
    required: bool = False
    doc: str | None = None
    initial_default: Any = None
    write_default: Any = None


@dataclass(frozen=True, slots=True)
class StructType:
    """Named members in order."""

    fields: tuple[NestedField, ...]


@dataclass(frozen=True, slots=True)
class ListType:
    """Elements of one type."""

    element_id: int
    element: FieldType
    element_required: bool

    def parts(self) -> tuple[NestedField, ...]:
        """The element as a field named `element`."""
        return (
            NestedField(self.element_id, "element", self.element, required=self.element_required),
        )


@dataclass(frozen=True, slots=True)
class MapType:
    """Keys, which are never null, and values."""

    key_id: int
    key: FieldType
    value_id: int
    value: FieldType
    value_required: bool

    def parts(self) -> tuple[NestedField, ...]:
        """The fields named `key` and `value`."""
        return (
            NestedField(self.key_id, "key", self.key, required=True),
            NestedField(self.value_id, "value", self.value, required=self.value_required),
        )


PrimitiveType: TypeAlias = Primitive | Decimal | Fixed
FieldType: TypeAlias = Primitive | Decimal | Fixed | StructType | ListType | MapType

BOOLEAN = Primitive("boolean")
INT = Primitive("int")
LONG = Primitive("long")
DATE = Primitive("date")
STRING = Primitive("string")


def parse_type(value: Any) -> FieldType:
    """A type from its JSON. Raises CorruptTableError for what is none."""
    if isinstance(value, str):
        return _parse_primitive(value)
    kind = value.get("type") if isinstance(value, Mapping) else None
    try:
        if kind == "struct":
            return parse_struct(value)
        if kind == "list":
            return ListType(
                int(value["element-id"]),
                parse_type(value["element"]),
                bool(value["element-required"]),
            )
        if kind == "map":
            return MapType(
                int(value["key-id"]),
                parse_type(value["key"]),
                int(value["value-id"]),
                parse_type(value["value"]),
                bool(value["value-required"]),
            )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptTableError(f"A {kind} type lacks {error}", value=value) from error
    raise CorruptTableError("not an Iceberg type", value=value)


def parse_struct(value: Mapping[str, Any]) -> StructType:
    """A struct, or a whole schema, from its JSON."""
    return StructType(tuple(_parse_field(field) for field in value["fields"]))


def type_json(type_: FieldType) -> Any:
    """The JSON that `parse_type` reads back."""
    if isinstance(type_, StructType):
        return {"type": "struct", "fields": [field_json(field) for field in type_.fields]}
    if isinstance(type_, ListType):
        return {
            "type": "list",
            "element-id": type_.element_id,
            "element-required": type_.element_required,
            "element": type_json(type_.element),
        }
    if isinstance(type_, MapType):
        return {
            "type": "map",
            "key-id": type_.key_id,
            "key": type_json(type_.key),
            "value-id": type_.value_id,
            "value-required": type_.value_required,
            "value": type_json(type_.value),
        }
    return str(type_)


def field_json(field: NestedField) -> dict[str, Any]:
    """A field's JSON, with only what it says."""
    document: dict[str, Any] = {
        "id": field.field_id,
        "name": field.name,
        "required": field.required,
        "type": type_json(field.type),
    }
    for name, value in (
        ("doc", field.doc),
        ("initial-default", field.initial_default),
        ("write-default", field.write_default),
    ):
        if value is not None:
            document[name] = value
    return document


def kind_word(kind: FieldType) -> str:
    """What a type is in one word or so: of a struct, list or map not what is in it."""
    nested = isinstance(kind, StructType | ListType | MapType)
    return type(kind).__name__.removesuffix("Type").lower() if nested else str(kind)


def parts_of(type_: FieldType) -> tuple[NestedField, ...]:
    """The fields directly inside a type; none for a primitive."""
    if isinstance(type_, StructType):
        return type_.fields
    if isinstance(type_, ListType | MapType):
        return type_.parts()
    return ()


def walk(fields: tuple[NestedField, ...], prefix: str = "") -> Iterator[tuple[str, NestedField]]:
    """Every field at any depth with its dotted name, parents first."""
    for field in fields:
        name = prefix + field.name
        yield name, field
        yield from walk(parts_of(field.type), f"{name}.")


def identifies_rows(kind: FieldType) -> bool:
    """Whether values of the type tell rows apart: two NaN, or the two zeros, may be one or not."""
    return not parts_of(kind) and str(kind) not in ("float", "double")


def is_unknown(kind: FieldType) -> bool:
    """Whether a column of this type has no values at all."""
    return isinstance(kind, Primitive) and kind.name == "unknown"


def walk_leaves(
    fields: Iterable[NestedField], *, repeated: bool = False
) -> Iterator[tuple[int, FieldType, bool]]:
    """Id, type and whether within a list or map, of every leaf in a file's order."""
    for field in fields:
        if not is_unknown(field.type):
            yield from _leaves(field.field_id, field.type, repeated)


def _leaves(number: int, kind: FieldType, repeated: bool) -> Iterator[tuple[int, FieldType, bool]]:
    match kind:
        case StructType():
            yield from walk_leaves(kind.fields, repeated=repeated)
        case ListType():
            yield from _leaves(kind.element_id, kind.element, True)
        case MapType():
            yield from _leaves(kind.key_id, kind.key, True)
            yield from _leaves(kind.value_id, kind.value, True)
        case CarriedVariant():
            # Its metadata, and its value.
            yield number, kind, repeated
            yield number, kind, repeated
        case _:
            yield number, kind, repeated


def _parse_field(value: Mapping[str, Any]) -> NestedField:
    return NestedField(
        field_id=int(value["id"]),
        name=value["name"],
        type=parse_type(value["type"]),
        required=bool(value["required"]),
        doc=value.get("doc"),
        initial_default=value.get("initial-default"),
        write_default=value.get("write-default"),
    )


def _parse_primitive(text: str) -> FieldType:
    if text in _PLAIN or OPAQUE.fullmatch(text):
        return Primitive(text)
    if match := _DECIMAL.fullmatch(text):
        return Decimal(int(match[1]), int(match[2]))
    if match := _FIXED.fullmatch(text):
        return Fixed(int(match[1]))
    raise CorruptTableError("not an Iceberg type", value=text)
