"""The page that explains every field of the resources, made from the resources themselves.

    python -m tools.resource_page          print it
    python -m tools.resource_page FILE     write it to FILE

`make crds` writes docs/reference.md; a test fails while that differs.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from tideline_operator.resources.field import FieldRule, is_required, json_name, rule_of
from tideline_operator.resources.lake_catalog import LakeCatalog
from tideline_operator.resources.lake_source import LakeSource
from tideline_operator.resources.lake_store import LakeStore
from tideline_operator.resources.lake_table import LakeTable
from tideline_operator.resources.metadata import API_VERSION, PAUSED_ANNOTATION
from tideline_operator.resources.parsing import to_json_object
from tideline_operator.resources.schedule import Cron, Duration
from tideline_operator.resources.shape import Items, Members
from tools.openapi import is_scalar, value_type

_INTRODUCTION = f"""# Every field

The resources of `{API_VERSION}`, field by field. `make crds` writes this page from the typed
resources under `operator/tideline_operator/resources/`, as it writes the
CustomResourceDefinitions; in a cluster `kubectl explain laketable.spec.ingest` says the same.

The API server refuses what breaks a limit or a rule below and names the field; `tideline run` does
too, with the line. A field marked *immutable* keeps the value it was created with. What only shows
when the operator reads the spec (a cron expression that never matches, a type nested wrongly, a
LakeStore that does not exist) is reported in the condition `SpecValid`, and the last valid spec
stays in force.

The annotation `{PAUSED_ANNOTATION}: "true"` has the effect of `spec.suspend: true`.
"""
_SCALARS = {Duration: "duration", Cron: "cron expression"}


def resource_page() -> str:
    """The whole page as Markdown."""
    parts = [_INTRODUCTION]
    for kind in (LakeTable, LakeCatalog, LakeSource, LakeStore):
        parts.append(f"\n## {kind.KIND}\n\n{kind.__doc__}\n")
        hints = typing.get_type_hints(kind)
        for name in ("spec", "status"):
            if name in hints:
                parts.extend(_section(hints[name], name, is_status=name == "status"))
    return "".join(parts)


def _section(kind: type, path: str, *, is_status: bool) -> Iterator[str]:
    """One table for an object, then one for each object inside it."""
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    header = "| field | value | meaning |" if is_status else "| field | value | default | meaning |"
    yield f"\n### {path}\n\n{header}\n{'|---' * (header.count('|') - 1)}|\n"
    for field in fields:
        cells = [f"`{json_name(field.name)}`", _value(hints[field.name], rule_of(field))]
        if not is_status:
            cells.append(_default(field))
        yield f"| {' | '.join([*cells, _meaning(rule_of(field))])} |\n"
    rules = getattr(kind, "RULES", ())
    if rules:
        yield "\nRules:\n\n"
    for rule in rules:
        yield f"- `{rule.field}`: {rule.message}\n" if rule.field else f"- {rule.message}\n"
    for field in fields:
        shape = rule_of(field).shape
        if isinstance(shape, Members):
            yield from _shape_section(shape, f"{path}.{json_name(field.name)}")
    for field in fields:
        inner, suffix = _inner(hints[field.name])
        if inner is not None:
            where = f"{path}.{json_name(field.name)}{suffix}"
            yield from _section(inner, where, is_status=is_status)


def _shape_section(shape: Members, path: str) -> Iterator[str]:
    """What a mapping that is passed on may hold, with the reasons."""
    yield f"\n### {path}\n\n| field | taken, because | refused, because |\n|---|---|---|\n"
    for name, (_, reason) in shape.taken.items():
        yield f"| `{name}` | {reason} |  |\n"
    for name, refused in shape.refused.items():
        yield f"| `{name}` |  | {refused.reason} |\n"
    for name, (member, _) in shape.taken.items():
        inner = member.item if isinstance(member, Items) else member
        if isinstance(inner, Members):
            suffix = "[]" if isinstance(member, Items) else ""
            yield from _shape_section(inner, f"{path}.{name}{suffix}")


def _inner(hint: Any) -> tuple[type | None, str]:
    """The described object inside a field's type, and how a path leads into it."""
    hint = value_type(hint)
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return _inner(members[0])[0], "[]"
    if origin is not None:
        return _inner(members[1])[0], ".<name>"
    is_object = dataclasses.is_dataclass(hint) and not is_scalar(hint)
    return (typing.cast("type", hint) if is_object else None), ""


def _value(hint: Any, rule: FieldRule) -> str:
    hint = value_type(hint)
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if rule.free_form:
        return "free form"
    if rule.shape is not None:
        return "object"
    if origin is tuple:
        return f"list of {_value(members[0], rule)}, at most {rule.items_max}"
    if origin is not None:
        return f"name to {_value(members[1], rule)}, at most {rule.items_max}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return ", ".join(f"`{member.value}`" for member in hint)
    if is_scalar(hint):
        return _SCALARS.get(hint, "time" if hasattr(hint, "FORMAT") else "text")
    if dataclasses.is_dataclass(hint):
        return "object"
    if hint is int:
        low = "" if rule.minimum is None else f" from {rule.minimum}"
        high = "" if rule.maximum is None else f" to {rule.maximum}"
        return f"number{low}{high}"
    return "true, false" if hint is bool else "text"


def _default(field: dataclasses.Field[Any]) -> str:
    if is_required(field):
        return "**required**"
    made = field.default
    if field.default_factory is not dataclasses.MISSING:
        made = field.default_factory()
    default = to_json_object(made)
    if default in (None, "", [], {}):
        return ""
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _meaning(rule: FieldRule) -> str:
    parts = [rule.description]
    if rule.pattern_meaning:
        parts.append(f"Allowed: {rule.pattern_meaning}.")
    if rule.immutable:
        parts.append("*Immutable.*")
    return " ".join(parts).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def main(arguments: list[str]) -> None:
    if arguments:
        Path(arguments[0]).write_text(resource_page(), "utf-8")
    else:
        sys.stdout.write(resource_page())


if __name__ == "__main__":
    main(sys.argv[1:])
