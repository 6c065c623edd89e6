"""The schema of an Avro data file: as Arrow has it, and as its bytes are decoded.

Values are decoded as plain numbers and bytes, which Arrow takes for days and times; decimals as
decimals. A map is a list of its keys and values, as which Avro stores it, whatever its keys are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tideline.bounded.parsing import faults_named
from tideline.errors import UnsupportedTableError
from tideline.iceberg.data.arrow_schema import FIELD_ID

_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms"),
    ("long", "timestamp-micros"): pa.timestamp("us"),
    ("long", "timestamp-nanos"): pa.timestamp("ns"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}


@dataclass(frozen=True, slots=True)
class AvroColumns:
    """The columns of one file: `schema` has their ids, `stored` is what decodes them."""

    schema: pa.Schema
    stored: dict[str, Any]

    @classmethod
    def of(cls, written: Any, *, path: str) -> AvroColumns:
        """Raises UnsupportedTableError for unions of several types, CorruptTableError for what is
        no schema of records."""
        with faults_named("not an Avro schema that can be read", path=path):
            compiler = _Compiler(path)
            stored, kind = compiler.record(written)
            return cls(pa.schema(list(kind)), stored)

    def only(self, numbers: Sequence[int]) -> dict[str, Any]:
        """What decodes these columns, and steps over the others, where they name no types that the
        others define; else what decodes all."""
        fields = self.stored["fields"]
        chosen = [fields[number] for number in numbers]
        defined, used = set[str](), set[str]()
        for item in chosen:
            _gather_names(item["type"], defined, used)
        if used - defined - set(_PLAIN):
            return self.stored
        return {**self.stored, "fields": chosen}


_Typed = tuple[Any, pa.DataType]


@dataclass(slots=True)
class _Compiler:
    path: str
    named: dict[str, pa.DataType] = field(default_factory=dict)
    maps: int = 0

    def record(self, schema: Mapping[str, Any]) -> _Typed:
        stored, fields = [], []
        for item in schema["fields"]:
            decoded, kind = self.typed(item["type"])
            stored.append({"name": item["name"], "type": decoded})
            fields.append(_field(item["name"], kind, item.get("field-id")))
        document = {"type": "record", **_names(schema), "fields": stored}
        return document, self._remembered(schema, pa.struct(fields))

    def typed(self, schema: Any) -> _Typed:
        """What decodes a type, and its Arrow type."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return schema, self.named[schema] if schema in self.named else _PLAIN[schema]
        kind = schema["type"]
        if isinstance(kind, (list, Mapping)):
            return self.typed(kind)
        match kind:
            case "record":
                return self.record(schema)
            case "array":
                return self._list(schema)
            case "map":
                return self._map(schema)
            case "enum":
                decoded = {"type": "enum", **_names(schema), "symbols": schema["symbols"]}
                return decoded, self._remembered(schema, pa.string())
            case "fixed":
                return self._fixed(schema)
            case _ if kind in self.named:
                return kind, self.named[kind]
        return self._primitive(schema)

    def _union(self, branches: Sequence[Any]) -> _Typed:
        values = [branch for branch in branches if branch != "null"]
        if len(values) > 1:
            raise UnsupportedTableError(
                "an Avro data file has a union of several types", path=self.path, value=branches
            )
        if not values:
            return "null", pa.null()
        decoded, kind = self.typed(values[0])
        return [branch if branch == "null" else decoded for branch in branches], kind

    def _list(self, schema: Mapping[str, Any]) -> _Typed:
        decoded, kind = self.typed(schema["items"])
        element = _field("element", kind, schema.get("element-id"))
        return {"type": "array", "items": decoded}, pa.list_(element)

    def _map(self, schema: Mapping[str, Any]) -> _Typed:
        decoded, kind = self.typed(schema["values"])
        self.maps += 1
        pairs = [{"name": "key", "type": "string"}, {"name": "value", "type": decoded}]
        entry = {"type": "record", "name": f"tideline_pair_{self.maps}", "fields": pairs}
        fields = [
            _field("key", pa.string(), schema.get("key-id")),
            _field("value", kind, schema.get("value-id")),
        ]
        return {"type": "array", "items": entry}, pa.list_(pa.struct(fields))

    def _fixed(self, schema: Mapping[str, Any]) -> _Typed:
        decoded = {"type": "fixed", **_names(schema), "size": schema["size"]}
        kind: pa.DataType = pa.binary(int(schema["size"]))
        if schema.get("logicalType") == "decimal":
            decoded |= _decimal(schema)
            kind = _decimal_type(schema)
        return decoded, self._remembered(schema, kind)

    def _primitive(self, schema: Mapping[str, Any]) -> _Typed:
        kind, logical = str(schema["type"]), str(schema.get("logicalType"))
        if (kind, logical) == ("bytes", "decimal"):
            return {"type": "bytes", **_decimal(schema)}, _decimal_type(schema)
        return kind, _LOGICAL.get((kind, logical), _PLAIN[kind])

    def _remembered(self, schema: Mapping[str, Any], kind: pa.DataType) -> pa.DataType:
        name, space = schema["name"], schema.get("namespace")
        self.named[name] = kind
        if space:
            self.named[f"{space}.{name}"] = kind
        return kind


def _gather_names(schema: Any, defined: set[str], used: set[str]) -> None:
    """The names of types that a schema defines, and those that it uses."""
    if isinstance(schema, str):
        used.add(schema)
    elif isinstance(schema, list):
        for branch in schema:
            _gather_names(branch, defined, used)
    else:
        if "name" in schema:
            defined.add(schema["name"])
        for item in schema.get("fields", ()):
            _gather_names(item["type"], defined, used)
        if "items" in schema:
            _gather_names(schema["items"], defined, used)


def _names(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {part: schema[part] for part in ("name", "namespace") if part in schema}


def _decimal(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "logicalType": "decimal",
        "precision": schema["precision"],
        "scale": schema.get("scale", 0),
    }


def _decimal_type(schema: Mapping[str, Any]) -> pa.DataType:
    return pa.decimal128(int(schema["precision"]), int(schema.get("scale", 0)))


def _field(name: str, kind: pa.DataType, number: Any) -> pa.Field:
    metadata = {} if number is None else {FIELD_ID: str(int(number)).encode()}
    return pa.field(name, kind, True, metadata)
