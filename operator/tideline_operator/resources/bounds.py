"""A status cut to what its fields are declared to hold, so that the API server takes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from tideline.secret_values import masked
from tideline_operator.resources.field import FieldRule, rule_of

Value = TypeVar("Value")

_CUT = "..."


def within_bounds(value: Value) -> Value:
    """`value`, a dataclass of described fields, with texts, lists and mappings cut to their bounds.

    Of a list the last items are kept: the newest of what grows.
    """
    members = {
        field.name: _cut(getattr(value, field.name), rule_of(field))
        for field in dataclasses.fields(cast("Any", value))
    }
    return cast("Value", dataclasses.replace(cast("Any", value), **members))


def _cut(member: Any, rule: FieldRule) -> Any:
    if isinstance(member, str) and rule.length_max is not None and len(member) > rule.length_max:
        # Half a secret would not be recognised any more.
        return masked(member)[: rule.length_max - len(_CUT)] + _CUT
    if isinstance(member, tuple):
        kept = member if rule.items_max is None else member[-rule.items_max :]
        return tuple(_cut(item, rule) for item in kept)
    if isinstance(member, Mapping):
        entries = list(member.items())[: rule.items_max]
        return {name: _cut(item, rule) for name, item in entries}
    is_described = dataclasses.is_dataclass(member) and not hasattr(member, "parse")
    return within_bounds(member) if is_described else member
