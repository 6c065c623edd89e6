"""Random edits of a spec, from the declarations of its fields: whatever is declared is edited.

A value is made of the field's type and constraints, or taken from an example that has a field of
that name. Many edits are not valid, some on purpose: what comes of these is up to the API server
and to the operator.
"""

from __future__ import annotations

import copy
import dataclasses
import random
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tideline_operator.resources.field import FieldRule, json_name, rule_of
from tideline_operator.resources.shape import (
    Flag,
    Free,
    Items,
    Members,
    Named,
    Shape,
    Text,
    Whole,
)
from tools.openapi import default_of, is_scalar, value_type

ITEM = "*"
"""Stands in a path for one of the items of a list."""
WRONG: tuple[Any, ...] = ("", "x" * 5_000, -1, 10**30, True, [], {}, "no such thing", {"typo": 1})
Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeclaredField:
    """One field of a spec, at a path of JSON names."""

    path: tuple[str, ...]
    hint: Any
    rule: FieldRule
    default: Any

    def __str__(self) -> str:
        return ".".join(self.path)


def declared_fields(kind: type, path: tuple[str, ...] = ()) -> Iterator[DeclaredField]:
    """Every field below `kind`, those of members and items too."""
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        hint, here = value_type(hints[field.name]), (*path, json_name(field.name))
        yield DeclaredField(here, hint, rule_of(field), default_of(field))
        item = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else hint
        if dataclasses.is_dataclass(item) and not is_scalar(typing.cast("type", item)):
            deeper = here if item is hint else (*here, ITEM)
            yield from declared_fields(typing.cast("type", item), deeper)


class SpecEdits:
    """Edits of the specs of one resource. `examples` are specs whose values are tried."""

    def __init__(self, kind: type, examples: Iterable[Mapping[str, Any]]) -> None:
        self.fields = tuple(declared_fields(kind))
        self._values: dict[str, list[Any]] = {}
        for example in examples:
            self._take_in(example)

    def edit(
        self, spec: Mapping[str, Any], chance: random.Random, within: str = ""
    ) -> tuple[Spec, str]:
        """A copy of `spec` with one field changed, one `within` a member if that is given, and what
        was done to it."""
        changed: Spec = copy.deepcopy(dict(spec))
        fields = [field for field in self.fields if within in ("", field.path[0])]
        while True:
            field = chance.choice(fields)
            parent = _parent(changed, field.path, chance)
            if parent is None:
                continue
            name = field.path[-1]
            if name in parent and chance.random() < 0.25:
                del parent[name]
                return changed, f"{field} is removed"
            if chance.random() < 0.2:
                value = chance.choice(WRONG)
            else:
                value = self._value(field, parent.get(name), chance)
            parent[name] = copy.deepcopy(value)
            return changed, f"{field} = {str(value)[:100]!r}"

    def _value(self, field: DeclaredField, now: Any, chance: random.Random) -> Any:
        origin, hint, rule = typing.get_origin(field.hint), field.hint, field.rule
        known = self._values.get(field.path[-1], [])
        if rule.shape is not None:
            return _of_shape(rule.shape, chance)
        if isinstance(now, list) and now and chance.random() < 0.5:
            return _other_list(now, rule, chance)
        if hint is bool:
            return not now
        if isinstance(hint, type) and issubclass(hint, Enum):
            return chance.choice([member.value for member in hint])
        if hint is int:
            least, most = rule.minimum or 0, rule.maximum or 1_000
            return chance.choice([least, least + 1, min(most, 7), most])
        if origin is not None and origin is not tuple and chance.random() < 0.2:
            return {}
        given = [*known, *([field.default] if field.default is not None else [])]
        return chance.choice(given) if given else "other"

    def _take_in(self, example: Any) -> None:
        if isinstance(example, list):
            for item in example:
                self._take_in(item)
        elif isinstance(example, Mapping):
            for name, value in example.items():
                known = self._values.setdefault(str(name), [])
                if value is not None and value not in known:
                    known.append(value)
                self._take_in(value)


def _parent(spec: Spec, path: tuple[str, ...], chance: random.Random) -> Spec | None:
    """What holds the last member of a path, made where it is missing; None without an item."""
    place: Any = spec
    for name in path[:-1]:
        if name == ITEM:
            place = chance.choice(place) if isinstance(place, list) and place else None
        elif isinstance(place, dict):
            follows = path[path.index(name) + 1]
            if not isinstance(place.get(name), list if follows == ITEM else dict):
                if follows == ITEM:
                    return None
                place[name] = {}
            place = place[name]
        if not isinstance(place, dict | list):
            return None
    return place if isinstance(place, dict) else None


def _other_list(now: list[Any], rule: FieldRule, chance: random.Random) -> list[Any]:
    """A list with an item less, one more, or in another order."""
    match chance.randrange(3):
        case 0:
            gone = chance.randrange(len(now))
            return [item for number, item in enumerate(now) if number != gone]
        case 1:
            twin = copy.deepcopy(chance.choice(now))
            if rule.item_key is not None and isinstance(twin, dict):
                twin[rule.item_key] = f"{twin.get(rule.item_key, 'item')}x"
            return [*now, twin]
        case _:
            return list(reversed(now))


def _of_shape(shape: Shape, chance: random.Random, depth: int = 0) -> Any:
    """A value of that shape; now and then with a member that is not taken."""
    match shape:
        case Members():
            if depth and chance.random() < 0.1:
                return {chance.choice(["typo", *shape.refused]): "a"}
            names = {*shape.required, *shape.one_of[:1], chance.choice(list(shape.taken))}
            return {
                name: _of_shape(shape.taken[name][0], chance, depth + 1) for name in sorted(names)
            }
        case Items():
            return [_of_shape(shape.item, chance, depth + 1)]
        case Named():
            return {"walk": "1" if shape.are_quantities else "a"}
        case Text():
            return chance.choice(shape.choices or ("walk", "a/b"))
        case Whole():
            return shape.minimum
        case Flag():
            return chance.random() < 0.5 if shape.only is None else shape.only
        case Free():
            return {}
    raise TypeError(f"no values of {shape}")
