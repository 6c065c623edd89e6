"""The fields of a schema at any depth: where each is, and the same with some of them changed.

A column is named by its dotted name, or by a tuple of names where names have dots; upper and lower
case count only where two columns differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from tideline.errors import ConfigError
from tideline.iceberg.evolution.draft import Draft
from tideline.iceberg.metadata.field_type import (
    FieldType,
    ListType,
    MapType,
    NestedField,
    StructType,
    parts_of,
)

Name: TypeAlias = str | tuple[str, ...]
Fields: TypeAlias = tuple[NestedField, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A field, and the fields that it is in, outermost first."""

    field: NestedField
    around: Fields

    @property
    def parent(self) -> NestedField | None:
        """The field that it is directly in; None for a column."""
        return self.around[-1] if self.around else None

    @property
    def parent_id(self) -> int | None:
        """The id of `parent`."""
        return self.around[-1].field_id if self.around else None

    @property
    def is_member(self) -> bool:
        """Whether it has a name of its own: elements, keys and values have none."""
        return self.parent is None or isinstance(self.parent.type, StructType)

    @property
    def is_in_key(self) -> bool:
        """Whether it is the key of a map, or in one."""
        path = (*self.around, self.field)
        return any(
            isinstance(outer.type, MapType) and outer.type.key_id == inner.field_id
            for outer, inner in pairwise(path)
        )

    @property
    def is_repeated(self) -> bool:
        """Whether it is in a list or a map: a row has many of it."""
        return any(isinstance(outer.type, ListType | MapType) for outer in self.around)


def dotted(name: Name) -> str:
    """A column's name as people read it."""
    return name if isinstance(name, str) else ".".join(name)


def places(fields: Fields, around: Fields = ()) -> Iterator[Place]:
    """Every field with what it is in, parents first."""
    for field in fields:
        yield Place(field, around)
        yield from places(parts_of(field.type), (*around, field))


def place_of(draft: Draft, name: Name, what: str) -> Place:
    """Where the column `name` is. `what` says what is to be done, in the message of ConfigError."""
    schema, text = draft.schema, dotted(name)
    found = schema.find(text) or schema.find(text, case_sensitive=False)
    if found is None:
        known = ", ".join(field.name for field in draft.fields)
        message = f"{what}: the table has no such column; its columns are {known}"
        raise ConfigError(message, table=draft.table, value=text)
    return next(place for place in places(draft.fields) if place.field.field_id == found.field_id)


def members_of(draft: Draft, name: Name, what: str) -> tuple[int | None, Fields, Place | None]:
    """Id, members and place of the struct `name`, of the elements of a list or of the values of a
    map; of the table itself for an empty name. Raises ConfigError."""
    if not name:
        return None, draft.fields, None
    place = place_of(draft, name, what)
    match place.field.type:
        case ListType() | MapType():
            last = parts_of(place.field.type)[-1]
            place = Place(last, (*place.around, place.field))
    if not isinstance(place.field.type, StructType):
        message = f"{what}: {dotted(name)} is no struct, but {place.field.type}"
        raise ConfigError(message, table=draft.table, value=dotted(name))
    return place.field.field_id, place.field.type.fields, place


def with_field(fields: Fields, field_id: int, changed: NestedField | None) -> Fields:
    """The fields with one replaced, or left out; only a member of a struct can be."""
    return _edited(fields, lambda field: changed if field.field_id == field_id else field)


def with_members(fields: Fields, parent_id: int | None, members: Fields) -> Fields:
    """The fields with other members of one struct, or of the table itself."""
    if parent_id is None:
        return members
    return _edited(
        fields,
        lambda field: (
            replace(field, type=StructType(members)) if field.field_id == parent_id else field
        ),
    )


def with_fresh_ids(kind: FieldType, number: Callable[[], int]) -> FieldType:
    """A type whose fields have new ids, level by level, as Iceberg gives them."""
    match kind:
        case StructType(fields):
            ids = [number() for _ in fields]
            return StructType(
                tuple(
                    replace(field, field_id=new, type=with_fresh_ids(field.type, number))
                    for field, new in zip(fields, ids, strict=True)
                )
            )
        case ListType():
            element_id = number()
            return replace(
                kind, element_id=element_id, element=with_fresh_ids(kind.element, number)
            )
        case MapType():
            key_id, value_id = number(), number()
            key = with_fresh_ids(kind.key, number)
            value = with_fresh_ids(kind.value, number)
            return replace(kind, key_id=key_id, key=key, value_id=value_id, value=value)
    return kind


def _edited(fields: Fields, edit: Callable[[NestedField], NestedField | None]) -> Fields:
    found = []
    for field in fields:
        changed = edit(field)
        if changed is not None:
            # What has been replaced is not looked into: ids in it are those wanted.
            is_same = changed is field
            found.append(replace(field, type=_inside(field.type, edit)) if is_same else changed)
    return tuple(found)


def _inside(kind: FieldType, edit: Callable[[NestedField], NestedField | None]) -> FieldType:
    match kind:
        case StructType(fields):
            return StructType(_edited(fields, edit))
        case ListType():
            (element,) = _edited(kind.parts(), edit)
            return ListType(element.field_id, element.type, element.required)
        case MapType():
            key, value = _edited(kind.parts(), edit)
            return MapType(key.field_id, key.type, value.field_id, value.type, value.required)
    return kind
