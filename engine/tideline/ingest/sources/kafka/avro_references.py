"""An Avro schema whose types other schemas define, as one that defines them all.

1. The types that other schemas define are known by their full names (`Definitions`).
2. A schema is read from its beginning. Where a name stands for a type that it has not defined so
   far, the definition takes its place; where it stands for it again, the name stays.
3. A type that two schemas define otherwise is refused: values do not say which one they mean.

Source: the Avro specification, "Names".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tideline.formats.avro_blocks import full_name
from tideline.ingest.sources.kafka.decoded import NoRowError

_NAMED = ("record", "error", "enum", "fixed")
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_PARTS = {"array": "items", "map": "values"}


@dataclass(slots=True)
class Definitions:
    """Named types by their full names."""

    known: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def add(self, schema: Any) -> None:
        """All that this schema defines. Raises NoRowError; KeyError, TypeError, AttributeError for
        what is no schema."""
        for name, definition in _defined(schema, ""):
            if self.known.setdefault(name, definition) != definition:
                raise NoRowError(f"two schemas define the type {name} otherwise")

    def whole(self, schema: Any) -> Any:
        """The schema with all definitions that it needs. Raises as `add` does."""
        self.add(schema)
        return self._whole(schema, "", set())

    def _whole(self, schema: Any, namespace: str, defined: set[str]) -> Any:
        if isinstance(schema, list):
            return [self._whole(item, namespace, defined) for item in schema]
        if isinstance(schema, str):
            return self._of_name(schema, namespace, defined)
        kind = schema["type"]
        if kind in _NAMED:
            return self._of_definition(schema, namespace, defined)
        part = _PARTS.get(kind, "type") if isinstance(kind, str) else "type"
        return {**schema, part: self._whole(schema[part], namespace, defined)}

    def _of_name(self, name: str, namespace: str, defined: set[str]) -> Any:
        spellings = (full_name(name, namespace), name)
        found = next((spelled for spelled in spellings if spelled in self.known), None)
        if name in _PRIMITIVES or found is None or found in defined:
            return name
        return self._of_definition(self.known[found], "", defined)

    def _of_definition(self, schema: Mapping[str, Any], namespace: str, defined: set[str]) -> Any:
        name, inner = _names(schema, namespace)
        if name in defined:
            return name
        defined.add(name)
        if "fields" not in schema:
            return schema
        fields = [
            {**item, "type": self._whole(item["type"], inner, defined)} for item in schema["fields"]
        ]
        return {**schema, "fields": fields}


def _defined(schema: Any, namespace: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each definition within a schema by its full name, which it says itself."""
    if isinstance(schema, list):
        for item in schema:
            yield from _defined(item, namespace)
        return
    if isinstance(schema, str):
        return
    kind = schema["type"]
    if kind not in _NAMED:
        part = _PARTS.get(kind, "type") if isinstance(kind, str) else "type"
        yield from _defined(schema[part], namespace)
        return
    name, inner = _names(schema, namespace)
    yield name, {**schema, "name": name.rpartition(".")[2], "namespace": inner}
    for item in schema.get("fields", ()):
        yield from _defined(item["type"], inner)


def _names(schema: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """The full name that a schema defines, and the namespace of the names within it."""
    name = full_name(str(schema["name"]), str(schema.get("namespace", namespace) or ""))
    return name, name.rpartition(".")[0]
