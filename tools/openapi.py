"""OpenAPI schemas of the resources' dataclasses, as a CustomResourceDefinition holds them.

Structural: every object names its members. Defaults are written out whole, because the API server
checks rules against a default as it stands, before it fills in the defaults inside it.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from tideline_operator.resources.field import (
    CelRule,
    FieldRule,
    is_required,
    json_name,
    matching,
    rule_of,
)
from tools.shape_schema import Schema, shape_schema

_LENGTH_MAX = {"date-time": 40}
# A short text is checked by a rule, which says what is allowed in words; for longer ones, perhaps
# thousands of them, that would cost too much.
_EXPLAINED_LENGTH_MAX = 512
_KEPT = (
    "is immutable: delete this {kind} (its data stays unless deletionPolicy is Delete) "
    "and create a new one"
)


def object_schema(kind: type, *, owner: str, has_defaults: bool = True) -> Schema:
    """The schema of a dataclass; `owner` is the resource it is part of.

    Without defaults, as in a status, the API server stores exactly what is written, empty texts
    too.
    """
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    schema: Schema = {"type": "object", "description": _summary(kind)}
    required = [json_name(field.name) for field in fields if is_required(field)]
    if required:
        schema["required"] = required
    schema["properties"] = {
        json_name(field.name): _field_schema(field, hints[field.name], owner, has_defaults)
        for field in fields
    }
    rules = [*_immutability(kind, owner), *(_validation(rule) for rule in _rules_of(kind))]
    if rules:
        schema["x-kubernetes-validations"] = rules
    return schema


def default_of(field: dataclasses.Field[Any]) -> Any:
    """A field's default as JSON, with the defaults of the members inside; None without one."""
    if field.default_factory is not dataclasses.MISSING:
        return _plain(field.default_factory())
    return None if field.default is dataclasses.MISSING else _plain(field.default)


def value_type(hint: Any) -> Any:
    """`hint` without its None."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return next(item for item in typing.get_args(hint) if item is not type(None))
    return hint


def is_scalar(hint: Any) -> bool:
    """True for a class whose values are written as one text."""
    return hasattr(hint, "parse") and not issubclass(hint, Enum)


def _field_schema(
    field: dataclasses.Field[Any], hint: Any, owner: str, has_defaults: bool
) -> Schema:
    rule = rule_of(field)
    schema = {
        **_type_schema(value_type(hint), rule, owner, has_defaults),
        "description": rule.description,
    }
    default = default_of(field)
    if has_defaults and default not in (None, "", [], {}):
        schema["default"] = default
    return schema


def _type_schema(hint: Any, rule: FieldRule, owner: str, has_defaults: bool) -> Schema:
    origin = typing.get_origin(hint)
    if origin is tuple:
        return _list_schema(typing.get_args(hint)[0], rule, owner, has_defaults)
    if rule.shape is not None:
        return shape_schema(rule.shape)
    if rule.free_form:
        # Atomic: what a spec leaves empty is not null in a later one that is applied over it.
        return {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "x-kubernetes-preserve-unknown-fields": True,
        }
    if origin is not None:
        schema: Schema = {"type": "object"}
        if rule.items_max is not None:
            schema["maxProperties"] = rule.items_max
        members = _type_schema(typing.get_args(hint)[1], rule, owner, has_defaults)
        return {**schema, "additionalProperties": members}
    if is_scalar(hint):
        return _scalar_schema(hint, rule)
    if dataclasses.is_dataclass(hint):
        return object_schema(typing.cast("type", hint), owner=owner, has_defaults=has_defaults)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"type": "string", "enum": [member.value for member in hint]}
    if hint is bool:
        return {"type": "boolean"}
    if hint is int:
        limits = {"minimum": rule.minimum, "maximum": rule.maximum}
        return {
            "type": "integer",
            "format": "int64",
            **{name: limit for name, limit in limits.items() if limit is not None},
        }
    return _text_schema(rule, may_be_empty=rule.may_be_empty or not has_defaults)


def _list_schema(hint: Any, rule: FieldRule, owner: str, has_defaults: bool) -> Schema:
    schema: Schema = {"type": "array", "x-kubernetes-list-type": "atomic"}
    if rule.item_key is not None:
        schema["x-kubernetes-list-type"] = "map"
        schema["x-kubernetes-list-map-keys"] = [rule.item_key]
    if rule.items_min is not None:
        schema["minItems"] = rule.items_min
    if rule.items_max is not None:
        schema["maxItems"] = rule.items_max
    return {**schema, "items": _type_schema(hint, rule, owner, has_defaults)}


def _scalar_schema(hint: Any, rule: FieldRule) -> Schema:
    schema: Schema = {"type": "string"}
    text_format = getattr(hint, "FORMAT", None)
    if text_format is not None:
        schema["format"] = text_format
    if rule.pattern is not None:
        schema["pattern"] = _whole(rule.pattern)
    schema["maxLength"] = rule.length_max or _LENGTH_MAX[str(text_format)]
    rules = [_validation(rule) for rule in _rules_of(hint)]
    return {**schema, "x-kubernetes-validations": rules} if rules else schema


def _text_schema(rule: FieldRule, *, may_be_empty: bool) -> Schema:
    schema: Schema = {"type": "string"}
    length_max = rule.length_max
    if length_max is not None:
        schema["maxLength"] = length_max
    is_short = length_max is not None and length_max <= _EXPLAINED_LENGTH_MAX
    if rule.pattern is not None and rule.pattern_meaning and is_short:
        schema["x-kubernetes-validations"] = [
            _validation(matching(rule.pattern, f"allowed: {rule.pattern_meaning}"))
        ]
    elif rule.pattern is not None:
        schema["pattern"] = _whole(rule.pattern)
    elif not may_be_empty:
        schema["minLength"] = 1
    return schema


def _whole(pattern: str) -> str:
    """`pattern` for the whole text; OpenAPI's patterns match anywhere."""
    return f"^({pattern})$"


def _immutability(kind: type, owner: str) -> Iterator[Schema]:
    """Rules on the object around an immutable field: one on the field itself misses its removal."""
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if not rule_of(field).immutable:
            continue
        name = json_name(field.name)
        now, before = f"self.{name}", f"oldSelf.{name}"
        is_kept = f"{now} == {before}"
        if typing.get_origin(value_type(hints[field.name])) is tuple:
            now, before = (f"(has({path}) ? {path} : [])" for path in (now, before))
            is_kept = f"{now} == {before}"
        elif not is_required(field) and default_of(field) in (None, ""):
            is_kept = f"has({now}) == has({before}) && (!has({now}) || {now} == {before})"
        yield _validation(CelRule(is_kept, _KEPT.format(kind=owner), field=name))


def _rules_of(kind: type) -> tuple[CelRule, ...]:
    return getattr(kind, "RULES", ())


def _validation(rule: CelRule) -> Schema:
    validation = {"rule": rule.rule, "message": rule.message}
    if rule.found:
        validation["messageExpression"] = f"'{rule.message}: ' + {rule.found}"
    if rule.field:
        validation["fieldPath"] = f".{rule.field}"
    return validation


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if is_scalar(type(value)):
            return str(value)
        members = {
            json_name(field.name): _plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
        return {name: item for name, item in members.items() if item not in (None, "", [], {})}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _summary(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]
