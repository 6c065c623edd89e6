"""Avro schemas as Kafka Connect writes them: what fields mean, and decimals of any precision."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tideline.bounded.parsing import parse_json
from tideline.errors import CorruptTableError
from tideline.formats.avro_blocks import full_name
from tideline.ingest.sources.kafka.connect_types import PRECISION_MAX, ConnectType
from tideline.ingest.sources.kafka.decoded import NoRowError

_PRIMITIVES = {"int": "int32", "long": "int64"}
_SCHEMAS_KEPT = 256


@lru_cache(maxsize=_SCHEMAS_KEPT)
def with_precision(schema: str) -> str:
    """The schema with decimals of at most the precision that tables have: Connect writes 64 where
    it has none. Values beyond it are found when they are read. Raises NoRowError."""
    return json.dumps(_limited(_parsed(schema)))


@lru_cache(maxsize=_SCHEMAS_KEPT)
def avro_meaning(schema: str) -> ConnectType:
    """What the fields of a record mean. Raises NoRowError."""
    try:
        return _meaning(_parsed(schema), {}, "")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NoRowError("the schema of the value cannot be read") from error


def _parsed(schema: str) -> Any:
    try:
        return parse_json(schema, what="Avro schema")
    except CorruptTableError as error:
        raise NoRowError(f"the schema of the value cannot be read: {error}") from error


def _limited(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_limited(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _limited(item) for key, item in schema.items() if key != "default"}
    precision = found.get("precision")
    if found.get("logicalType") == "decimal" and isinstance(precision, int):
        found["precision"] = min(precision, PRECISION_MAX)
    return found


def _meaning(schema: Any, named: dict[str, ConnectType], namespace: str) -> ConnectType:
    if isinstance(schema, list):
        branches = [item for item in schema if item != "null"]
        return _meaning(branches[0], named, namespace) if branches else ConnectType("string")
    if isinstance(schema, str):
        known = named.get(full_name(schema, namespace), named.get(schema))
        return known or ConnectType(_PRIMITIVES.get(schema, schema))
    return _of_definition(schema, named, namespace)


def _of_definition(
    schema: Mapping[str, Any], named: dict[str, ConnectType], namespace: str
) -> ConnectType:
    kind = schema["type"]
    if not isinstance(kind, str):
        return _meaning(kind, named, namespace)
    meaning = str(schema.get("connect.name") or "")
    if kind == "array":
        return ConnectType("array", meaning, items=_meaning(schema["items"], named, namespace))
    if kind != "record":
        return ConnectType(_PRIMITIVES.get(kind, kind), meaning)
    name = full_name(str(schema["name"]), str(schema.get("namespace") or namespace))
    inner = name.rpartition(".")[0]
    fields = tuple(
        (str(item["name"]), _meaning(item["type"], named, inner)) for item in schema["fields"]
    )
    named[name] = ConnectType("struct", meaning, fields=fields)
    return named[name]
