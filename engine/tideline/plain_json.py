"""Values as plain JSON: dataclasses by their fields, enums by value, tuples as lists.

A class that says itself how it reads (`to_json_object`), or that is written as one text (it has a
`parse`), is written in that way wherever it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any


def plain(value: object) -> Any:
    """What `json.dumps` takes for the value."""
    own = getattr(value, "to_json_object", None)
    if own is not None:
        return own()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if not is_dataclass(value):
        return value
    if hasattr(value, "parse"):
        return str(value)
    return plain_fields(value)


def plain_fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass by their names."""
    return members(value, *(field.name for field in fields(value)))


def members(value: object, *names: str, **other_names: str) -> dict[str, Any]:
    """The value's members of these names; last those that JSON has under `other_names`."""
    named = {name: name for name in names} | other_names
    return {shown: plain(getattr(value, name)) for shown, name in named.items()}
