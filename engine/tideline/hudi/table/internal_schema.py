"""Hudi's internal schema: the table's columns under ids that outlive their names. Pure.

Hudi's schema on read (`ALTER TABLE … RENAME, DROP, ADD COLUMN`, `ALTER COLUMN … TYPE`) rewrites no
file. Each version of the schema says which id has which name and type from an instant on; meta
columns have ids as well, nested fields, elements of lists and values of maps too. Simple types are
kept as Hudi spells them: only what compares or adds columns looks into those.
Source: Hudi's InternalSchema, Types, SerDeHelper.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tideline.bounded.parsing import faults_named, parse_json
from tideline.errors import CorruptTableError
from tideline.hudi.timeline.active import SCHEMA_DIRECTORY as SCHEMA_DIRECTORY

LATEST_SCHEMA_KEY = "latest_schema"
"""Extra metadata of a commit: the newest version, as JSON."""

_SCHEMAS = "schemas"


@dataclass(frozen=True, slots=True)
class InternalField:
    """A column, or a field of a struct."""

    id: int
    name: str
    type: InternalType
    is_optional: bool = True
    doc: str | None = None

    def to_json_object(self) -> dict[str, Any]:
        """Keys in Hudi's order."""
        content = {
            "id": self.id,
            "name": self.name,
            "optional": self.is_optional,
            "type": _type_json(self.type),
        }
        return content if self.doc is None else content | {"doc": self.doc}


@dataclass(frozen=True, slots=True)
class InternalStruct:
    """The fields of a struct, or of the table itself, in order."""

    fields: tuple[InternalField, ...]

    def field(self, name: str) -> InternalField | None:
        """By name, else by name ignoring case."""
        exact = next((item for item in self.fields if item.name == name), None)
        folded = name.casefold()
        return exact or next((item for item in self.fields if item.name.casefold() == folded), None)


@dataclass(frozen=True, slots=True)
class InternalList:
    """A list and the id of its elements."""

    element_id: int
    element: InternalType
    element_optional: bool = True


@dataclass(frozen=True, slots=True)
class InternalMap:
    """A map and the ids of its keys and values."""

    key_id: int
    key: InternalType
    value_id: int
    value: InternalType
    value_optional: bool = True


InternalType = str | InternalStruct | InternalList | InternalMap


@dataclass(frozen=True, slots=True)
class InternalSchema:
    """One version: in force for what was written at instant `version` or later."""

    version: int
    max_column_id: int
    root: InternalStruct

    @classmethod
    def parse(cls, text: str) -> InternalSchema:
        """Read Hudi's JSON of one version. Raises CorruptTableError."""
        with faults_named("schema history is not understood"):
            return cls.of_json_object(parse_json(text, what="schema history"))

    @classmethod
    def of_json_object(cls, content: Mapping[str, Any]) -> InternalSchema:
        """The version of a parsed JSON object.

        Raises CorruptTableError, LookupError or TypeError.
        """
        root = _type_of(content)
        if not isinstance(root, InternalStruct):
            raise CorruptTableError("schema history: a version is not a record")
        highest = max((item for item, _ in ids_of(root)), default=-1)
        return cls(
            int(content.get("version_id", 0)), int(content.get("max_column_id", highest)), root
        )

    def to_json(self) -> str:
        """As Hudi writes it."""
        content = {"max_column_id": self.max_column_id, "version_id": self.version}
        return _compact(content | _struct_json(self.root))


def parse_history(body: bytes, *, path: str) -> tuple[InternalSchema, ...]:
    """The versions in a history file, oldest first. Raises CorruptTableError naming `path`."""
    with faults_named("schema history is not understood", path=path):
        content = parse_json(body, path=path, what="schema history")
        found = [InternalSchema.of_json_object(item) for item in content[_SCHEMAS]]
    return tuple(sorted(found, key=lambda item: item.version))


def print_history(versions: tuple[InternalSchema, ...]) -> bytes:
    """A history file of these versions, the newest first as in Hudi's."""
    newest_first = sorted(versions, key=lambda item: item.version, reverse=True)
    return f'{{"{_SCHEMAS}":[{",".join(item.to_json() for item in newest_first)}]}}'.encode()


def ids_of(kind: InternalType) -> Iterator[tuple[int, InternalType]]:
    """Every id below a type, and the type it stands for."""
    if isinstance(kind, InternalStruct):
        for item in kind.fields:
            yield item.id, item.type
            yield from ids_of(item.type)
    elif isinstance(kind, InternalList):
        yield kind.element_id, kind.element
        yield from ids_of(kind.element)
    elif isinstance(kind, InternalMap):
        yield kind.key_id, kind.key
        yield kind.value_id, kind.value
        yield from ids_of(kind.key)
        yield from ids_of(kind.value)


def _type_of(content: Any) -> InternalType:
    if isinstance(content, str):
        return content
    kind = content["type"]
    if kind == "record":
        return InternalStruct(tuple(_field_of(item) for item in content["fields"]))
    if kind == "array":
        return InternalList(
            int(content["element_id"]),
            _type_of(content["element"]),
            bool(content["element_optional"]),
        )
    if kind == "map":
        return InternalMap(
            int(content["key_id"]),
            _type_of(content["key"]),
            int(content["value_id"]),
            _type_of(content["value"]),
            bool(content["value_optional"]),
        )
    raise CorruptTableError("schema history: unknown type", value=kind)


def _field_of(content: Mapping[str, Any]) -> InternalField:
    name, doc = content["name"], content.get("doc")
    if not isinstance(name, str) or not isinstance(doc, str | None):
        raise CorruptTableError("schema history: a column's name is not a string", value=name)
    kind = _type_of(content["type"])
    return InternalField(int(content["id"]), name, kind, bool(content["optional"]), doc)


def _type_json(kind: InternalType) -> Any:
    if isinstance(kind, str):
        return kind
    if isinstance(kind, InternalStruct):
        return _struct_json(kind)
    if isinstance(kind, InternalList):
        return {
            "type": "array",
            "element_id": kind.element_id,
            "element": _type_json(kind.element),
            "element_optional": kind.element_optional,
        }
    return {
        "type": "map",
        "key_id": kind.key_id,
        "key": _type_json(kind.key),
        "value_id": kind.value_id,
        "value": _type_json(kind.value),
        "value_optional": kind.value_optional,
    }


def _struct_json(struct: InternalStruct) -> dict[str, Any]:
    return {"type": "record", "fields": [item.to_json_object() for item in struct.fields]}


def _compact(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
