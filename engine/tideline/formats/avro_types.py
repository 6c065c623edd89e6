"""Avro schemas whose records are read and written column by column: types with names resolved.

Not taken are types within themselves, and maps, which physical schemas have as arrays of records.
Unions of several types are read and never written.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tideline.bounded.parsing import parse_json
from tideline.formats.avro_blocks import full_name


@lru_cache(maxsize=64)
def resolved_record(schema_json: str, *, unions: bool = False) -> dict[str, Any] | None:
    """The schema of a record with every type as an object, and those that names stand for in their
    places; None for one that is not taken. With `unions` those of several types are."""
    found = _Resolver(unions).of(parse_json(schema_json, what="Avro schema"), "")
    return found if isinstance(found, dict) and found["type"] == "record" else None


def has_several_types(schema_json: str) -> bool:
    """Whether a record is taken for its unions of several types alone."""
    is_taken = resolved_record(schema_json) is not None
    return not is_taken and resolved_record(schema_json, unions=True) is not None


class _Resolver:
    """Resolves one schema; None stands for a type that is not taken."""

    def __init__(self, unions: bool) -> None:
        self._unions = unions
        self._named: dict[str, dict[str, Any] | None] = {}

    def of(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, list):
            return self._union([self.of(branch, namespace) for branch in schema])
        if isinstance(schema, str):
            return self._of_name(schema, namespace)
        kind = schema["type"]
        if kind == "record":
            return self._record(schema, namespace)
        if kind == "array":
            items = self.of(schema["items"], namespace)
            return None if items is None else {"type": "array", "items": items}
        if kind in _NAMED:
            name = full_name(schema["name"], schema.get("namespace", namespace) or "")
            self._named[name] = {part: schema[part] for part in ("type", *_NAMED[kind])}
            return self._named[name]
        return self.of(kind, namespace)

    def _of_name(self, name: str, namespace: str) -> dict[str, Any] | None:
        if name in _PRIMITIVES:
            return {"type": name}
        return self._named.get(full_name(name, namespace)) or self._named.get(name)

    def _record(self, schema: Mapping[str, Any], namespace: str) -> dict[str, Any] | None:
        name = full_name(schema["name"], schema.get("namespace", namespace) or "")
        inner = name.rpartition(".")[0]
        kinds = [self.of(field["type"], inner) for field in schema["fields"]]
        if None in kinds:
            return None
        self._named[name] = {"type": "record", "fields": [{"type": kind} for kind in kinds]}
        return self._named[name]

    def _union(self, branches: list[Any]) -> list[Any] | None:
        others = [branch for branch in branches if branch != {"type": "null"}]
        is_taken = (self._unions or len(others) < 2) and len(branches) - len(others) < 2
        return branches if is_taken and None not in others and branches else None


_NAMED = {"fixed": ("size",), "enum": ("symbols",)}
_PRIMITIVES = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
