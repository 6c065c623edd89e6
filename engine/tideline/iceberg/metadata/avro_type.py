"""Iceberg types as Avro schemas, with field ids (spec, Appendix A, "Avro").

Integer-keyed maps become arrays of key and value records. Names that Avro does not allow are
written as Iceberg's Java code does, with the original next to them.
"""

from __future__ import annotations

import re
from typing import Any

from tideline.iceberg.metadata.field_type import (
    Decimal,
    FieldType,
    Fixed,
    ListType,
    MapType,
    NestedField,
    StructType,
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGS: dict[str, dict[str, Any]] = {
    "time": {"logicalType": "time-micros"},
    "timestamp": {"logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"logicalType": "timestamp-micros", "adjust-to-utc": True},
    "timestamp_ns": {"logicalType": "timestamp-nanos", "adjust-to-utc": False},
    "timestamptz_ns": {"logicalType": "timestamp-nanos", "adjust-to-utc": True},
}
_SAME = {"boolean", "int", "long", "float", "double", "string"}


def avro_record(struct: StructType, name: str) -> dict[str, Any]:
    """The Avro record of a struct; records inside it are named after their field ids."""
    named: dict[str, Any] = _once(_record(struct, name), set())
    return named


def avro_name(name: str) -> str:
    """A name that Avro allows."""
    if _NAME.fullmatch(name):
        return name
    return "".join(_letter(letter, is_first=at == 0) for at, letter in enumerate(name))


def decimal_bytes(precision: int) -> int:
    """The fewest bytes that hold every decimal of so many digits."""
    largest: int = 10**precision - 1
    return (largest.bit_length() + 8) // 8


def not_null(type_: Any) -> Any:
    """An optional Avro type's only other branch, or the type itself."""
    branches = type_ if isinstance(type_, list) else [type_]
    return next(branch for branch in branches if branch != "null")


def _record(struct: StructType, name: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_field(field) for field in struct.fields]}


def _once(schema: Any, defined: set[str]) -> Any:
    """The schema with every fixed type defined where it is met first, and named from then on."""
    if isinstance(schema, list):
        return [_once(branch, defined) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if schema["type"] == "fixed":
        if schema["name"] in defined:
            return schema["name"]
        defined.add(schema["name"])
        return schema
    parts = {part: _once(schema[part], defined) for part in ("type", "items") if part in schema}
    if "fields" in schema:
        fields = ((field, _once(field["type"], defined)) for field in schema["fields"])
        parts["fields"] = [{**field, "type": type_} for field, type_ in fields]
    return {**schema, **parts}


def _field(field: NestedField) -> dict[str, Any]:
    type_ = _type(field.type, field.field_id)
    name = avro_name(field.name)
    is_plain = field.required or type_ == "null"
    document: dict[str, Any] = {"name": name, "type": type_ if is_plain else ["null", type_]}
    if not field.required:
        document["default"] = None
    if name != field.name:
        document["iceberg-field-name"] = field.name
    if field.doc:
        document["doc"] = field.doc
    return document | {"field-id": field.field_id}


def _type(type_: FieldType, field_id: int) -> Any:
    if isinstance(type_, StructType):
        return _record(type_, f"r{field_id}")
    if isinstance(type_, ListType):
        items = _type(type_.element, type_.element_id)
        element = items if type_.element_required else ["null", items]
        return {"type": "array", "items": element, "element-id": type_.element_id}
    if isinstance(type_, MapType):
        name = f"k{type_.key_id}_v{type_.value_id}"
        return {
            "type": "array",
            "items": _record(StructType(type_.parts()), name),
            "logicalType": "map",
        }
    if isinstance(type_, Decimal):
        return {
            "type": "fixed",
            "name": f"decimal_{type_.precision}_{type_.scale}",
            "size": decimal_bytes(type_.precision),
            "logicalType": "decimal",
            "precision": type_.precision,
            "scale": type_.scale,
        }
    if isinstance(type_, Fixed):
        return {"type": "fixed", "name": f"fixed_{type_.length}", "size": type_.length}
    return _primitive(type_.name)


def _primitive(name: str) -> Any:
    if name in _SAME:
        return name
    if name in _LONGS:
        return {"type": "long", **_LONGS[name]}
    if name == "date":
        return {"type": "int", "logicalType": "date"}
    if name == "uuid":
        return {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}
    return "null" if name == "unknown" else "bytes"


def _letter(letter: str, *, is_first: bool) -> str:
    if letter == "_" or (letter.isascii() and letter.isalpha()):
        return letter
    if letter.isascii() and letter.isdigit():
        return f"_{letter}" if is_first else letter
    return f"_x{ord(letter):X}"
