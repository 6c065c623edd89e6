"""The columns that a table's data files have in parquet, for comparison with files that exist.

Files of the same columns, stored in this way, may exchange row groups; it is how Tideline and
Iceberg store them. Needs no Arrow.

Source: Iceberg's specification, "Appendix A: Parquet".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tideline.errors import UnsupportedTableError
from tideline.iceberg.metadata.field_type import (
    Decimal,
    FieldType,
    Fixed,
    ListType,
    MapType,
    NestedField,
    Primitive,
    StructType,
    is_unknown,
    walk,
)
from tideline.parquet.schema_nodes import Physical, Repetition, SchemaNode

_PRIMITIVES: dict[str, tuple[Physical, str]] = {
    "boolean": (Physical.BOOLEAN, ""),
    "int": (Physical.INT32, ""),
    "long": (Physical.INT64, ""),
    "float": (Physical.FLOAT, ""),
    "double": (Physical.DOUBLE, ""),
    "date": (Physical.INT32, "date"),
    "time": (Physical.INT64, "time(us)"),
    "timestamp": (Physical.INT64, "timestamp(us)"),
    "timestamptz": (Physical.INT64, "timestamp(us, UTC)"),
    "timestamp_ns": (Physical.INT64, "timestamp(ns)"),
    "timestamptz_ns": (Physical.INT64, "timestamp(ns, UTC)"),
    "string": (Physical.BYTE_ARRAY, "string"),
    "binary": (Physical.BYTE_ARRAY, ""),
}
_UUID_BYTES = 16
_INT32_DIGITS, _INT64_DIGITS = 9, 18


def stored_columns(fields: Iterable[NestedField]) -> tuple[SchemaNode, ...]:
    """The nodes of a file with these fields; those of unknown type are never stored.

    Raises UnsupportedTableError for a type that has no place in a file.
    """
    return tuple(node for field in fields for node in _field(field))


def unstorable_columns(fields: tuple[NestedField, ...]) -> tuple[str, ...]:
    """Names, with types, of the fields at any depth that new files cannot have: those of types that
    are not written, and of unknown type in lists and maps, or alone in a struct."""
    found = []
    for name, field in walk(fields):
        kind = field.type
        match kind:
            case StructType():
                is_bad = bool(kind.fields) and all(
                    is_unknown(nested_field.type) for nested_field in kind.fields
                )
            case ListType() | MapType():
                is_bad = any(is_unknown(part.type) for part in kind.parts())
            case Primitive():
                is_bad = kind.name not in {*_PRIMITIVES, "uuid", "unknown"}
            case _:
                is_bad = False
        if is_bad:
            type_name = str(kind) if isinstance(kind, Primitive) else "unknown inside"
            found.append(f"{name} ({type_name})")
    return tuple(found)


def _field(field: NestedField) -> Iterator[SchemaNode]:
    if not is_unknown(field.type):
        repetition = Repetition.REQUIRED if field.required else Repetition.OPTIONAL
        yield from _node(field.name, field.field_id, field.type, repetition)


def _node(name: str, number: int, kind: FieldType, repetition: Repetition) -> Iterator[SchemaNode]:
    group = SchemaNode(name, repetition, None, field_id=number)
    match kind:
        case StructType():
            inner = [tuple(_field(field)) for field in kind.fields]
            yield replace(group, children=sum(1 for nodes in inner if nodes))
            for nodes in inner:
                yield from nodes
        case ListType():
            yield replace(group, meaning="list", children=1)
            yield SchemaNode("list", Repetition.REPEATED, None, children=1)
            for field in kind.parts():
                yield from _field(field)
        case MapType():
            yield replace(group, meaning="map", children=1)
            yield SchemaNode("key_value", Repetition.REPEATED, None, children=2)
            for field in kind.parts():
                yield from _field(field)
        case _:
            physical, meaning, length = _leaf(kind)
            yield replace(group, physical=physical, meaning=meaning, length=length)


def _leaf(kind: FieldType) -> tuple[Physical, str, int | None]:
    match kind:
        case Primitive(name="uuid"):
            return Physical.FIXED_LEN_BYTE_ARRAY, "uuid", _UUID_BYTES
        case Fixed():
            return Physical.FIXED_LEN_BYTE_ARRAY, "", kind.length
        case Decimal():
            meaning = f"decimal({kind.precision}, {kind.scale})"
            if kind.precision <= _INT32_DIGITS:
                return Physical.INT32, meaning, None
            if kind.precision <= _INT64_DIGITS:
                return Physical.INT64, meaning, None
            return Physical.FIXED_LEN_BYTE_ARRAY, meaning, _decimal_bytes(kind.precision)
        case Primitive() if kind.name in _PRIMITIVES:
            physical, meaning = _PRIMITIVES[kind.name]
            return physical, meaning, None
    raise UnsupportedTableError("columns of this type are not stored in files", value=kind)


def _decimal_bytes(precision: int) -> int:
    """The fewest bytes that hold so many digits and a sign."""
    largest: int = 10**precision - 1
    return largest.bit_length() // 8 + 1
