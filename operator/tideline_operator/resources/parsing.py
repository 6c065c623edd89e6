"""Strict parsing of resources from plain values, and the way back.

Every fault of a document is collected before any is reported, each with the field's path, the value
found and what is allowed. The same functions read YAML files and objects from the Kubernetes API.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar, cast

from tideline.errors import ConfigError
from tideline.secret_values import holds_secret
from tideline.wording import nearest
from tideline_operator.resources.documents import Document, FieldPath
from tideline_operator.resources.field import (
    CREDENTIAL_NAMES,
    FieldRule,
    is_required,
    json_name,
    rule_of,
)
from tideline_operator.resources.metadata import ObjectMeta

Resource = TypeVar("Resource")

_SECRET = re.compile(CREDENTIAL_NAMES, re.IGNORECASE)
_VALUE_LENGTH_MAX = 80
# A field of this type accepts unknown members: Kubernetes adds to it at will.
_LENIENT = (ObjectMeta,)


class _Invalid:
    """Stands for a value whose fault has been noted."""


_INVALID = _Invalid()


@dataclass(frozen=True, slots=True)
class FieldFault:
    """One thing wrong with a document."""

    path: FieldPath
    message: str


def parse_resource(kind: type[Resource], document: Document) -> Resource:
    """`document` as a resource of `kind`.

    Raises ConfigError listing every fault: file, document, line, field path, value, what is
    allowed.
    """
    parser = _Parser(document, ignore_unknown=False)
    value = dict(cast("dict[str, object]", document.value))
    for header in ("apiVersion", "kind"):
        value.pop(header, None)
    parsed = parser.read(kind, value, ())
    if parser.faults:
        raise ConfigError(";\n".join(_describe(document, item) for item in parser.faults))
    return cast("Resource", parsed)


def parse_object(kind: type[Resource], value: Mapping[str, object]) -> Resource:
    """An object of the Kubernetes API as a resource of `kind`; its status is skipped.

    Raises ConfigError listing every fault: field path, value, what is allowed.
    """
    parser = _Parser(Document("", 0, value, {}), ignore_unknown=False)
    skipped = ("apiVersion", "kind", "status")
    members = {name: item for name, item in value.items() if name not in skipped}
    parsed = parser.read(kind, members, ())
    if parser.faults:
        found = (f"{path_text(item.path)}: {item.message}" for item in parser.faults)
        raise ConfigError("; ".join(found))
    return cast("Resource", parsed)


def parse_stored(kind: type[Resource], value: object) -> Resource | None:
    """A value Tideline wrote earlier, such as a status, perhaps by another version.

    Unknown fields are skipped; None when it cannot be understood.
    """
    parser = _Parser(Document("", 0, value, {}), ignore_unknown=True)
    parsed = parser.read(kind, value, ())
    return None if parser.faults else cast("Resource", parsed)


def to_json_object(value: object) -> Any:
    """The plain JSON value of a resource or a part of one; what equals its default is left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if hasattr(type(value), "parse"):
            return str(value)
        return dict(_json_members(value))
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: to_json_object(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json_object(item) for item in value]
    return value


def path_text(path: FieldPath) -> str:
    """`spec.ingest[0].trigger.every`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")


def _json_members(value: Any) -> Iterator[tuple[str, Any]]:
    kind: type = type(value)
    for name, field in _members_of(kind)[1].items():
        member = getattr(value, field.name)
        default: object = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        is_written = member != default or rule_of(field).always_written
        if member is not None and is_written:
            yield name, to_json_object(member)


@functools.cache
def _members_of(kind: type) -> tuple[dict[str, Any], dict[str, dataclasses.Field[Any]]]:
    """The types of a dataclass's fields, and the fields by their names in JSON."""
    fields = {json_name(item.name): item for item in dataclasses.fields(kind)}
    return typing.get_type_hints(kind), fields


def _describe(document: Document, fault: FieldFault) -> str:
    place = f"{document.file}, document {document.number}"
    line = document.line_of(fault.path)
    if line is not None:
        place += f", line {line}"
    return f"{place}: {path_text(fault.path) or 'document'}: {fault.message}"


class _Parser:
    """Reads values by the type hints and rules of dataclass fields, noting faults."""

    def __init__(self, document: Document, *, ignore_unknown: bool) -> None:
        self._document = document
        self._ignore_unknown = ignore_unknown
        self.faults: list[FieldFault] = []

    def read(self, hint: Any, value: object, path: FieldPath) -> Any:
        """`value` as `hint`, or `_INVALID` with its fault noted."""
        if dataclasses.is_dataclass(hint) and not hasattr(hint, "parse"):
            return self._read_object(cast("type", hint), value, path)
        return self._read_member(hint, FieldRule(""), value, path)

    def _note(self, path: FieldPath, message: str) -> _Invalid:
        self.faults.append(FieldFault(path, message))
        return _INVALID

    def _read_object(self, kind: type, value: object, path: FieldPath) -> Any:
        if not isinstance(value, Mapping):
            return self._note(path, f"{self._shown(value, path)}; allowed: a mapping of fields")
        hints, fields = _members_of(kind)
        if not self._ignore_unknown and kind not in _LENIENT:
            for name in value:
                if name not in fields:
                    self._note((*path, name), _unknown(name, tuple(fields)))
        members: dict[str, Any] = {}
        for name, field in fields.items():
            # A null is how YAML and Kubernetes spell a field that is not there.
            if value.get(name) is not None:
                members[field.name] = self._read_member(
                    hints[field.name], rule_of(field), value[name], (*path, name)
                )
            elif is_required(field):
                members[field.name] = self._note((*path, name), "is required")
        if _INVALID in members.values():
            return _INVALID
        built = kind(**members)
        return self._checked(built, path)

    def _checked(self, built: Any, path: FieldPath) -> Any:
        if not hasattr(built, "faults"):
            return built
        found = list(built.faults())
        for where, message in found:
            self._note((*path, *_split_path(where)), message)
        return _INVALID if found else built

    def _read_member(self, hint: Any, rule: FieldRule, value: object, path: FieldPath) -> Any:
        origin = typing.get_origin(hint)
        if origin in (types.UnionType, typing.Union):
            inner = [item for item in typing.get_args(hint) if item is not type(None)]
            return self._read_member(inner[0], rule, value, path)
        if origin is tuple:
            return self._read_list(typing.get_args(hint)[0], rule, value, path)
        if rule.free_form or rule.shape is not None:
            return self._read_as_it_is(rule, value, path)
        if origin is not None:
            return self._read_mapping(typing.get_args(hint)[1], rule, value, path)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return self._read_enum(hint, value, path)
        if hasattr(hint, "parse"):
            return self._read_scalar(hint, rule, value, path)
        if dataclasses.is_dataclass(hint):
            return self._read_object(cast("type", hint), value, path)
        if hint is bool:
            return self._read_bool(value, path)
        if hint is int:
            return self._read_int(rule, value, path)
        return self._read_text(rule, value, path)

    def _read_as_it_is(self, rule: FieldRule, value: object, path: FieldPath) -> Any:
        """A mapping that is passed on."""
        if not isinstance(value, Mapping):
            return self._note(path, f"{self._shown(value, path)}; allowed: a mapping")
        found = [] if rule.shape is None else list(rule.shape.faults(value, ""))
        for where, message in found:
            self._note((*path, *_split_path(where)), message)
        return _INVALID if found else value

    def _read_list(self, hint: Any, rule: FieldRule, value: object, path: FieldPath) -> Any:
        if not isinstance(value, list):
            return self._note(path, f"{self._shown(value, path)}; allowed: a list")
        if rule.items_max is not None and len(value) > rule.items_max:
            return self._note(path, f"has {len(value)} items; allowed: at most {rule.items_max}")
        items = tuple(
            self._read_member(hint, rule, item, (*path, position))
            for position, item in enumerate(value)
        )
        return _INVALID if _INVALID in items else items

    def _read_mapping(self, hint: Any, rule: FieldRule, value: object, path: FieldPath) -> Any:
        if not isinstance(value, Mapping):
            return self._note(path, f"{self._shown(value, path)}; allowed: a mapping")
        if rule.items_max is not None and len(value) > rule.items_max:
            return self._note(path, f"has {len(value)} entries; allowed: at most {rule.items_max}")
        read = {}
        for name, item in value.items():
            if hint is str and _SECRET.search(name) and path[:1] == ("spec",):
                read[name] = self._note(
                    (*path, name), "credentials belong in the environment or in a Secret"
                )
            else:
                read[name] = self._read_member(hint, rule, item, (*path, name))
        return _INVALID if _INVALID in read.values() else read

    def _read_enum(self, hint: type[Enum], value: object, path: FieldPath) -> Any:
        allowed = [str(member.value) for member in hint]
        for member in hint:
            if member.value == value:
                return member
        shown = self._shown(value, path)
        mark = self._document.marks.get(path)
        if mark is not None and mark.text in allowed:
            return self._note(path, f'{shown}; write "{mark.text}" in quotes')
        guess = nearest(str(value), allowed)
        hint_text = f", did you mean {guess}?" if guess else ""
        return self._note(path, f"{shown}; allowed: {', '.join(allowed)}{hint_text}")

    def _read_scalar(self, hint: Any, rule: FieldRule, value: object, path: FieldPath) -> Any:
        if isinstance(value, Mapping | list):
            return self._note(path, f"{self._shown(value, path)}; allowed: text")
        try:
            parsed = hint.parse(str(value))
        except ValueError as error:
            return self._note(path, f"{self._shown(value, path)}; {error}")
        text = self._read_text(rule, value, path)
        return text if isinstance(text, _Invalid) else parsed

    def _read_bool(self, value: object, path: FieldPath) -> Any:
        if isinstance(value, bool):
            return value
        return self._note(path, f"{self._shown(value, path)}; allowed: true or false")

    def _read_int(self, rule: FieldRule, value: object, path: FieldPath) -> Any:
        low = "" if rule.minimum is None else f" from {rule.minimum}"
        high = "" if rule.maximum is None else f" to {rule.maximum}"
        if isinstance(value, bool) or not isinstance(value, int):
            message = f"{self._shown(value, path)}; allowed: a whole number{low}{high}"
            return self._note(path, message)
        too_low = rule.minimum is not None and value < rule.minimum
        too_high = rule.maximum is not None and value > rule.maximum
        if too_low or too_high:
            return self._note(path, f"{value}; allowed: a whole number{low}{high}")
        return value

    def _read_text(self, rule: FieldRule, value: object, path: FieldPath) -> Any:
        if not isinstance(value, str):
            if isinstance(value, Mapping | list):
                return self._note(path, f"{self._shown(value, path)}; allowed: text")
            return self._note(path, f"{self._shown(value, path)}; allowed: text, so quote it")
        if value == "" and not rule.may_be_empty:
            return self._note(path, "is empty")
        if rule.length_max is not None and len(value) > rule.length_max:
            message = f"has {len(value)} characters; allowed: at most {rule.length_max}"
            return self._note(path, message)
        if rule.pattern is not None and re.fullmatch(rule.pattern, value) is None:
            meaning = rule.pattern_meaning or rule.pattern
            return self._note(path, f"{self._shown(value, path)}; allowed: {meaning}")
        return value

    def _shown(self, value: object, path: FieldPath) -> str:
        """The offending value as it is written, and what YAML makes of it if that differs."""
        if isinstance(value, Mapping):
            return "a mapping"
        if isinstance(value, list):
            return "a list"
        is_named_so = any(isinstance(part, str) and _SECRET.search(part) for part in path)
        if is_named_so or (isinstance(value, str) and holds_secret(value)):
            return "the value"
        mark = self._document.marks.get(path)
        if isinstance(value, str) or mark is None:
            text = repr(value)
            cut = text[:_VALUE_LENGTH_MAX]
            return cut if cut == text else f"{cut}..."
        names = {bool: "true or false", int: "a number", float: "a number"}
        meaning = names.get(type(value), "a date or time")
        return f"{mark.text} is read as {meaning}"


def _split_path(text: str) -> FieldPath:
    """`a.b[1]` -> ("a", "b", 1); the names of properties keep their dots."""
    head, separator, rest = text.partition("properties.")
    if separator and not head:
        return ("properties", rest)
    parts: list[str | int] = []
    for word, index in re.findall(r"([^.\[\]]+)|\[([0-9]+)\]", text):
        parts.append(int(index) if index else word)
    return tuple(parts)


def _unknown(name: str, known: tuple[str, ...]) -> str:
    near = nearest(name, known)
    guess = f", did you mean {near}?" if near else f"; allowed: {', '.join(known)}"
    return f"no such field{guess}"
