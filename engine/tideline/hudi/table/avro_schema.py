"""Arrow schemas as Avro and back, named and shaped as Spark and Hudi do.

A table `t` has the record `t_record` in namespace `hoodie.t`; a struct column is a record named
after the column in the namespace of the record around it, so names stay unique; a nullable field
is the union `["null", T]` with default null; decimals are `fixed`.
Source: Spark's SchemaConverters, Hudi's AvroConversionUtils and HoodieAvroUtils.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyarrow import types

from tideline.bounded.parsing import faults_named, parse_json, shortened
from tideline.errors import CorruptTableError, InvalidDataError, UnsupportedTableError
from tideline.hudi.table.column_type import ELEMENT, VALUE, stored_type

AvroType = str | list[Any] | dict[str, Any]

# Java's Avro takes any letter where the specification says ASCII.
COLUMN_NAMES = (
    "column names start with a letter or _ and hold only letters, digits and _: rename it, in an "
    "ingest with a transform (tideline init writes one) or in the source, or name the other "
    "columns in source.schema"
)
_WIDER = {
    frozenset(("int", "long")): pa.int64(),
    frozenset(("float", "double")): pa.float64(),
}
"""What two numbers are together, as Spark reads them, whatever their logical types."""
_FIELD_NAME = re.compile(r"[^\W\d]\w*")


def record_name(table_name: str) -> tuple[str, str]:
    """Name and namespace of a table's record; what Avro does not allow becomes `__`."""
    name = re.sub(r"[^A-Za-z0-9_]", "__", re.sub(r"^[^A-Za-z_]", "__", table_name))
    return f"{name}_record", f"hoodie.{name}"


def is_column_name(name: str) -> bool:
    """Whether a column, or a field nested in one, can have this name: Avro has no other."""
    return _FIELD_NAME.fullmatch(name) is not None


def arrow_to_avro(schema: pa.Schema, *, name: str, namespace: str) -> dict[str, Any]:
    """The Avro record of an Arrow schema. Take `name` and `namespace` from `record_name`.

    Raises InvalidDataError naming a column whose name or type Avro cannot express.
    """
    struct = pa.struct([pa.field(item.name, item.type, item.nullable) for item in schema])
    return _record(struct, name, namespace, path="")


def avro_to_arrow(schema: str | Mapping[str, Any], *, unions: bool = False) -> pa.Schema:
    """The Arrow schema of an Avro record, given parsed or as JSON.

    With `unions` a union of several types is a struct whose fields `member0`, `member1` ... are
    these types, or the wider of two numbers. Raises CorruptTableError when it is no Avro record
    schema, UnsupportedTableError naming a column whose type (another union of several types, a
    recursive record) has no Arrow form.
    """
    parsed = parse_json(schema, what="Avro schema") if isinstance(schema, str) else schema
    if not isinstance(parsed, Mapping) or parsed.get("type") != "record":
        raise CorruptTableError("schema is not an Avro record", value=shortened(schema))
    with faults_named("schema is not understood"):
        return pa.schema(list(_Reader(unions).read_record(parsed, "", "")))


def _record(struct: pa.StructType, name: str, namespace: str, path: str) -> dict[str, Any]:
    child_namespace = f"{namespace}.{name}" if namespace else name
    fields = []
    for child in struct:
        child_path = f"{path}.{child.name}" if path else child.name
        if not is_column_name(child.name):
            raise InvalidDataError(COLUMN_NAMES, value=child_path)
        avro = _optional(
            _avro_type(child.type, child.name, child_namespace, child_path), child.nullable
        )
        entry: dict[str, Any] = {"name": child.name, "type": avro}
        if child.nullable:
            entry["default"] = None
        fields.append(entry)
    return {"type": "record", "name": name, "namespace": namespace, "fields": fields}


def _avro_type(data_type: pa.DataType, name: str, namespace: str, path: str) -> AvroType:
    stored = stored_type(data_type, path, keep_millis=True)
    if types.is_struct(stored):
        return _record(stored, name, namespace, path)
    if types.is_list(stored):
        item = stored.value_field
        items = _avro_type(item.type, name, namespace, f"{path}.{ELEMENT}")
        return {"type": "array", "items": _optional(items, item.nullable)}
    if types.is_map(stored):
        item = stored.item_field
        values = _avro_type(item.type, name, namespace, f"{path}.{VALUE}")
        return {"type": "map", "values": _optional(values, item.nullable)}
    if types.is_decimal(stored):
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{namespace}.{name}",
            "size": decimal_bytes(stored.precision),
            "logicalType": "decimal",
            "precision": stored.precision,
            "scale": stored.scale,
        }
    if types.is_fixed_size_binary(stored):
        size = stored.byte_width
        return {"type": "fixed", "name": "fixed", "namespace": f"{namespace}.{name}", "size": size}
    if stored in _PRIMITIVES:
        return _PRIMITIVES[stored]
    if stored in _LOGICAL:
        physical, logical = _LOGICAL[stored]
        return {"type": physical, "logicalType": logical}
    raise InvalidDataError(f"column {path}: type {data_type} has no Avro form", value=path)


def _optional(avro: AvroType, nullable: bool) -> AvroType:
    return ["null", avro] if nullable else avro


def decimal_bytes(precision: int) -> int:
    """The fewest bytes whose signed integers hold `precision` decimal digits."""
    size = 1
    while 2 ** (8 * size - 1) < 10**precision:
        size += 1
    return size


class _Reader:
    """Turns one Avro schema into Arrow, resolving names as it meets their definitions."""

    def __init__(self, unions: bool) -> None:
        self._unions = unions
        self._named: dict[str, pa.DataType | None] = {}

    def read_record(self, schema: Mapping[str, Any], namespace: str, path: str) -> pa.StructType:
        full_name, namespace = _full_name(schema, namespace)
        self._named[full_name] = None
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise CorruptTableError("Avro record without fields", value=full_name)
        columns = []
        for item in fields:
            if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
                raise CorruptTableError("malformed field in an Avro record", value=full_name)
            child = f"{path}.{item['name']}" if path else item["name"]
            data_type, nullable = self._read(item.get("type"), namespace, child)
            columns.append(pa.field(item["name"], data_type, nullable))
        struct = pa.struct(columns)
        self._named[full_name] = struct
        return struct

    def _read(self, schema: Any, namespace: str, path: str) -> tuple[pa.DataType, bool]:
        """The Arrow type of a field's schema, and whether it may be null."""
        if not isinstance(schema, list):
            data_type = self._read_type(schema, namespace, path)
            return data_type, bool(types.is_null(data_type))
        branches = [branch for branch in schema if branch not in ("null", {"type": "null"})]
        if not branches:
            return pa.null(), True
        is_nullable = len(branches) < len(schema)
        if len(branches) > 1 and not self._unions:
            raise UnsupportedTableError(f"column {path} is a union of several types", value=schema)
        kinds = [self._read_type(branch, namespace, path) for branch in branches]
        names = [item.get("type") if isinstance(item, Mapping) else item for item in branches]
        wider = _WIDER.get(frozenset(map(str, names))) if len(names) == 2 else None
        if len(kinds) == 1 or wider is not None:
            return wider or kinds[0], is_nullable
        members = [pa.field(f"member{place}", kind) for place, kind in enumerate(kinds)]
        return pa.struct(members), is_nullable

    def _read_type(self, schema: Any, namespace: str, path: str) -> pa.DataType:
        if isinstance(schema, str):
            return self._read_name(schema, namespace, path)
        if not isinstance(schema, Mapping):
            raise CorruptTableError(f"malformed Avro type of column {path}", value=schema)
        kind = schema.get("type")
        if kind == "record":
            return self.read_record(schema, namespace, path)
        if kind == "array":
            item, nullable = self._read(schema.get("items"), namespace, f"{path}.{ELEMENT}")
            return pa.list_(pa.field(ELEMENT, item, nullable))
        if kind == "map":
            item, nullable = self._read(schema.get("values"), namespace, f"{path}.{VALUE}")
            return pa.map_(pa.string(), pa.field(VALUE, item, nullable))
        if kind in ("enum", "fixed"):
            data_type = pa.string() if kind == "enum" else _fixed(schema, path)
            self._named[_full_name(schema, namespace)[0]] = data_type
            return data_type
        logical = schema.get("logicalType")
        if kind == "bytes" and logical == "decimal":
            return _decimal(schema, path)
        known = _FROM_LOGICAL.get((str(kind), str(logical)))
        if known is not None:
            return known
        return self._read_type(kind, namespace, path)

    def _read_name(self, name: str, namespace: str, path: str) -> pa.DataType:
        if name in _FROM_PRIMITIVE:
            return _FROM_PRIMITIVE[name]
        candidates = [name] if "." in name or not namespace else [f"{namespace}.{name}", name]
        for candidate in candidates:
            if candidate in self._named:
                data_type = self._named[candidate]
                if data_type is None:
                    raise UnsupportedTableError(f"column {path} is a recursive record", value=name)
                return data_type
        raise CorruptTableError(f"unknown Avro type of column {path}", value=name)


def _full_name(schema: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """The full name of a named type, and the namespace of the names within it."""
    name = str(schema.get("name", ""))
    if "." in name:
        return name, name.rpartition(".")[0]
    inner = str(schema.get("namespace", namespace) or "")
    return (f"{inner}.{name}" if inner else name), inner


def _fixed(schema: Mapping[str, Any], path: str) -> pa.DataType:
    if schema.get("logicalType") == "decimal":
        return _decimal(schema, path)
    size = schema.get("size")
    if not isinstance(size, int) or size < 0:
        raise CorruptTableError(f"malformed fixed type of column {path}", value=size)
    return pa.binary(size)


def _decimal(schema: Mapping[str, Any], path: str) -> pa.DataType:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or precision < 1:
        raise CorruptTableError(f"malformed decimal type of column {path}", value=dict(schema))
    if precision > 38:
        raise UnsupportedTableError(f"column {path}: more than 38 decimal digits", value=precision)
    return pa.decimal128(precision, scale)


_PRIMITIVES = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
}
_FROM_PRIMITIVE = {name: data_type for data_type, name in _PRIMITIVES.items()} | {"null": pa.null()}
_LOGICAL = {
    pa.date32(): ("int", "date"),
    pa.time32("ms"): ("int", "time-millis"),
    pa.time64("us"): ("long", "time-micros"),
    pa.timestamp("ms", tz="UTC"): ("long", "timestamp-millis"),
    pa.timestamp("us", tz="UTC"): ("long", "timestamp-micros"),
    pa.timestamp("ms"): ("long", "local-timestamp-millis"),
    pa.timestamp("us"): ("long", "local-timestamp-micros"),
}
_FROM_LOGICAL = {logical: data_type for data_type, logical in _LOGICAL.items()}
