"""Changes of columns, at any depth. Columns are known by their ids: no file is rewritten.

Source: Iceberg's specification, "Schema Evolution", and what Iceberg's `UpdateSchema` refuses.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

from tideline.errors import ConfigError
from tideline.iceberg.evolution.column_names import with_column_names
from tideline.iceberg.evolution.column_tree import (
    Fields,
    Name,
    Place,
    dotted,
    members_of,
    place_of,
    places,
    with_field,
    with_fresh_ids,
    with_members,
)
from tideline.iceberg.evolution.default_value import default_json
from tideline.iceberg.evolution.draft import DEFAULTS_SINCE, Draft
from tideline.iceberg.evolution.promotion import is_promotion, keeps_values
from tideline.iceberg.evolution.type_text import as_type
from tideline.iceberg.metadata.field_type import (
    FieldType,
    NestedField,
    identifies_rows,
    is_unknown,
    kind_word,
    parts_of,
    walk,
)

_NEW_TYPES = ("timestamp_ns", "timestamptz_ns", "variant", "unknown", "geometry", "geography")


@dataclass(frozen=True, slots=True)
class Position:
    """Where a column goes among those beside it: first, or by the name of one of them."""

    after: str | None = None
    before: str | None = None

    @classmethod
    def of(
        cls, *, first: bool = False, after: str | None = None, before: str | None = None
    ) -> Position | None:
        """None where nothing is said. Raises ConfigError for more than one place."""
        if first + (after is not None) + (before is not None) > 1:
            raise ConfigError("a column goes to one place: first, after or before another")
        return cls(after, before) if first or after is not None or before is not None else None

    def placed(self, members: Fields, field: NestedField, table: str) -> Fields:
        """`members`, with `field`, one of them, there. Raises ConfigError."""
        others = [member for member in members if member.field_id != field.field_id]
        named = self.after if self.after is not None else self.before
        if named is None:
            return (field, *others)
        names = [member.name for member in others]
        if named not in names:
            message = f"column {field.name} cannot go beside {named}, which is not in its struct"
            raise ConfigError(message, table=table, value=named)
        at = names.index(named) + (self.after is not None)
        return (*others[:at], field, *others[at:])


@dataclass(frozen=True, slots=True)
class AddColumn:
    """`name` is the whole name: `place.zip` is a new member of the struct `place`, of the elements
    of a list or of the values of a map. A required column has a default (version 3)."""

    name: Name
    type: Any
    doc: str | None = None
    required: bool = False
    default: Any = None
    position: Position | None = None

    def __str__(self) -> str:
        return f"add column {dotted(self.name)} of type {_text(as_type(self.type))}"

    def apply(self, draft: Draft) -> Draft:
        path = tuple(self.name.split(".")) if isinstance(self.name, str) else self.name
        own = path[-1] if path else ""
        what = f"column {dotted(self.name)} cannot be added"
        if not own:
            raise ConfigError(f"{what}: it has no name", table=draft.table)
        parent_id, members, place = members_of(draft, ".".join(path[:-1]), what)
        if place is not None and place.is_in_key:
            raise ConfigError(f"{what}: keys of maps are not changed", table=draft.table)
        _refuse_name(draft, members, own, what)
        last = itertools.count(draft.last_column_id + 1)
        number = next(last)
        kind = with_fresh_ids(as_type(self.type), lambda: next(last))
        _check_type(draft, kind, what)
        default = _default(draft, kind, self.default, dotted(self.name))
        if self.required and default is None:
            message = f"{what}: a required column has a default, for the rows that are there"
            raise ConfigError(message, table=draft.table, value=own)
        field = NestedField(number, own, kind, self.required, self.doc, default, default)
        _check_members((field,), draft, what)
        members = (*members, field)
        if self.position is not None:
            members = self.position.placed(members, field, draft.table)
        fields = with_members(draft.fields, parent_id, members)
        return _finished(draft, replace(draft, fields=fields, last_column_id=next(last) - 1))


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Its values stay in files, and come back to nobody: a new column of the name has another
    id."""

    name: Name

    def __str__(self) -> str:
        return f"drop column {dotted(self.name)}"

    def apply(self, draft: Draft) -> Draft:
        what = f"column {dotted(self.name)} cannot be dropped"
        place = place_of(draft, self.name, what)
        _refuse_part(draft, place, what)
        gone = {place.field.field_id: place.field}
        gone |= {field.field_id: field for _, field in walk(parts_of(place.field.type))}
        _refuse_used(draft, frozenset(gone), what)
        siblings = place.parent.type if place.parent is not None else draft.schema.struct
        if len(parts_of(siblings)) == 1:
            message = f"{what}: nothing else is in its struct, or in the table"
            raise ConfigError(message, table=draft.table)
        fields = with_field(draft.fields, place.field.field_id, None)
        return _finished(draft, replace(draft, fields=fields))


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """`new_name` is its own name alone, without those of the structs that it is in."""

    name: Name
    new_name: str

    def __str__(self) -> str:
        return f"rename column {dotted(self.name)} to {self.new_name}"

    def apply(self, draft: Draft) -> Draft:
        what = f"column {dotted(self.name)} cannot be renamed"
        place = place_of(draft, self.name, what)
        _refuse_part(draft, place, what)
        if not self.new_name:
            raise ConfigError(f"{what}: the new name is empty", table=draft.table)
        beside = place.parent.type if place.parent is not None else draft.schema.struct
        others = tuple(f for f in parts_of(beside) if f.field_id != place.field.field_id)
        _refuse_name(draft, others, self.new_name, what)
        return _changed(draft, place, replace(place.field, name=self.new_name))


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """Give a column a wider type: int to long, float to double, more digits of a decimal; in
    version 3 date to timestamp, and unknown to any."""

    name: Name
    type: Any

    def __str__(self) -> str:
        return f"change column {dotted(self.name)} to type {_text(as_type(self.type))}"

    def apply(self, draft: Draft) -> Draft:
        what = f"column {dotted(self.name)} cannot become {_text(as_type(self.type))}"
        place, wanted = place_of(draft, self.name, what), as_type(self.type)
        found = place.field.type
        if found == wanted:
            return draft
        if place.is_in_key:
            raise ConfigError(f"{what}: keys of maps are not changed", table=draft.table)
        if not is_promotion(found, wanted, format_version=draft.format_version):
            message = f"{what}: values of {_text(found)} are not all values of it"
            raise ConfigError(message, table=draft.table, value=dotted(self.name))
        _check_type(draft, wanted, what)
        if is_unknown(found) and parts_of(wanted):
            raise ConfigError(f"{what}: unknown becomes no nested type", table=draft.table)
        for field in draft.partition_fields:
            is_source = field.source_id == place.field.field_id
            if is_source and not keeps_values(field.transform, found, wanted):
                message = f"{what}: partition field {field.name} would have other values"
                raise ConfigError(message, table=draft.table, value=dotted(self.name))
        default = place.field.initial_default
        changed = replace(place.field, type=wanted)
        if str(found) == "date" and default is not None:
            message = f"{what}: its default is a day"
            raise ConfigError(message, table=draft.table, value=default)
        return _changed(draft, place, changed)


@dataclass(frozen=True, slots=True)
class SetRequired:
    """Whether a column has a value in every row. One that may lack it never becomes required."""

    name: Name
    required: bool

    def __str__(self) -> str:
        return f"make column {dotted(self.name)} {'required' if self.required else 'optional'}"

    def apply(self, draft: Draft) -> Draft:
        what = f"column {dotted(self.name)} cannot be {'required' if self.required else 'optional'}"
        place = place_of(draft, self.name, what)
        field = place.field
        if field.required == self.required:
            return draft
        if place.is_in_key:
            raise ConfigError(f"{what}: keys of maps are not changed", table=draft.table)
        is_new = draft.base.schema().field(field.field_id) is None
        if self.required and not (is_new and field.initial_default is not None):
            message = f"{what}: rows that are there may have no value"
            raise ConfigError(message, table=draft.table, value=dotted(self.name))
        return _changed(draft, place, replace(field, required=self.required))


@dataclass(frozen=True, slots=True)
class SetDoc:
    """What a column is, in words; None takes them away."""

    name: Name
    doc: str | None

    def __str__(self) -> str:
        verb = "remove the comment" if self.doc is None else "set the comment"
        return f"{verb} of column {dotted(self.name)}"

    def apply(self, draft: Draft) -> Draft:
        what = f"column {dotted(self.name)} cannot have a comment"
        place = place_of(draft, self.name, what)
        _refuse_part(draft, place, what)
        return _changed(draft, place, replace(place.field, doc=self.doc))


@dataclass(frozen=True, slots=True)
class SetDefault:
    """What new rows have that say nothing of the column; rows that are there keep what they
    have."""

    name: Name
    default: Any

    def __str__(self) -> str:
        verb = "remove the default" if self.default is None else "set the default"
        return f"{verb} of column {dotted(self.name)}"

    def apply(self, draft: Draft) -> Draft:
        what = f"column {dotted(self.name)} cannot have this default"
        place = place_of(draft, self.name, what)
        _refuse_part(draft, place, what)
        default = _default(draft, place.field.type, self.default, dotted(self.name))
        if default is None and place.field.required and place.field.write_default is not None:
            message = f"{what}: it is required, and new rows may say nothing of it"
            raise ConfigError(message, table=draft.table, value=dotted(self.name))
        return _changed(draft, place, replace(place.field, write_default=default))


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Put a column elsewhere among those beside it."""

    name: Name
    position: Position

    def __str__(self) -> str:
        where = "first"
        if self.position.after is not None:
            where = f"after {self.position.after}"
        elif self.position.before is not None:
            where = f"before {self.position.before}"
        return f"move column {dotted(self.name)} {where}"

    def apply(self, draft: Draft) -> Draft:
        what = f"column {dotted(self.name)} cannot be moved"
        place = place_of(draft, self.name, what)
        _refuse_part(draft, place, what)
        beside = place.parent.type if place.parent is not None else draft.schema.struct
        members = self.position.placed(parts_of(beside), place.field, draft.table)
        return replace(draft, fields=with_members(draft.fields, place.parent_id, members))


@dataclass(frozen=True, slots=True)
class SetIdentifier:
    """The columns that identify a row, required ones; none takes them away."""

    names: tuple[Name, ...]

    def __str__(self) -> str:
        if not self.names:
            return "have no identifier fields"
        return f"identify rows by {', '.join(map(dotted, self.names))}"

    def apply(self, draft: Draft) -> Draft:
        found = []
        for name in self.names:
            what = f"column {dotted(name)} cannot identify a row"
            place = place_of(draft, name, what)
            reason = _no_identifier(place)
            if reason is not None:
                raise ConfigError(f"{what}: {reason}", table=draft.table, value=dotted(name))
            found.append(place.field.field_id)
        return replace(draft, identifier_ids=tuple(dict.fromkeys(found)))


def _no_identifier(place: Place) -> str | None:
    if not identifies_rows(place.field.type):
        return f"it is of type {_text(place.field.type)}"
    if place.is_repeated:
        return "a row has many of it"
    if not all(field.required for field in (*place.around, place.field)):
        return "it is not required, or what it is in"
    return None


def _changed(draft: Draft, place: Place, field: NestedField) -> Draft:
    fields = with_field(draft.fields, place.field.field_id, field)
    return _finished(draft, replace(draft, fields=fields))


def _finished(before: Draft, after: Draft) -> Draft:
    """The draft after a change of its columns. Raises ConfigError for identifier fields that can be
    none any more and names that partition fields have."""
    by_id = {place.field.field_id: place for place in places(after.fields)}
    for number in after.identifier_ids:
        reason = _no_identifier(by_id[number])
        if reason is not None:
            message = f"column {after.schema.name_of(number)} identifies rows, and {reason}"
            raise ConfigError(message, table=after.table)
    twice = after.schema.doubled_name()
    if twice is not None:
        message = "two columns would have one name: one with a dot, one in a struct"
        raise ConfigError(message, table=after.table, value=twice)
    specs = (*after.base.partition_specs, replace(after.base.spec(), fields=after.partition_fields))
    for spec in specs:
        for field in spec.fields:
            column = after.schema.find(field.name)
            is_own = column is not None and column.field_id == field.source_id
            if column is not None and not (is_own and field.transform.name in ("identity", "void")):
                message = "a column cannot have the name of a partition field of another source"
                raise ConfigError(message, table=after.table, value=field.name)
    return with_column_names(after, before.schema)


def _refuse_part(draft: Draft, place: Place, what: str) -> None:
    if place.is_in_key or not place.is_member:
        message = f"{what}: elements of lists, and keys and values of maps, are part of their type"
        raise ConfigError(message, table=draft.table)


def _refuse_name(draft: Draft, members: Fields, name: str, what: str) -> None:
    for member in members:
        if member.name == name:
            raise ConfigError(f"{what}: there is a column {name}", table=draft.table, value=name)
        if member.name.lower() == name.lower():
            message = f"{what}: {member.name} differs from {name} in case alone, which SQL ignores"
            raise ConfigError(message, table=draft.table, value=name)


def _refuse_used(draft: Draft, gone: frozenset[int], what: str) -> None:
    for field in draft.partition_fields:
        if field.source_id in gone and field.transform.name != "void":
            message = f"{what}: the table is partitioned by it; remove field {field.name} first"
            raise ConfigError(message, table=draft.table)
    if any(field.source_id in gone for field in draft.sort_fields):
        raise ConfigError(
            f"{what}: the table is sorted by it; set another order first", table=draft.table
        )
    if not gone.isdisjoint(draft.identifier_ids):
        message = f"{what}: it identifies rows; set other identifier fields first"
        raise ConfigError(message, table=draft.table)


def _check_type(draft: Draft, kind: FieldType, what: str) -> None:
    for found in (kind, *(field.type for _, field in walk(parts_of(kind)))):
        name = str(found).partition("(")[0]
        if draft.format_version < DEFAULTS_SINCE and name in _NEW_TYPES:
            message = f"{what}: type {found} is from format version 3 on; upgrade the table first"
            raise ConfigError(message, table=draft.table)


def _check_members(fields: Fields, draft: Draft, what: str) -> None:
    for name, field in walk(fields):
        inside = [part.name.lower() for part in parts_of(field.type)]
        if len(set(inside)) < len(inside):
            raise ConfigError(f"{what}: {name} has a member twice", table=draft.table)


def _default(draft: Draft, kind: FieldType, value: Any, column: str) -> Any:
    if value is None:
        return None
    if draft.format_version < DEFAULTS_SINCE:
        message = f"column {column} cannot have a default before format version 3"
        raise ConfigError(message, table=draft.table, value=value)
    return default_json(kind, value, column)


def _text(kind: FieldType) -> str:
    """A type as `type_text` reads it back."""
    inside = parts_of(kind)
    if not inside:
        return str(kind)
    name = kind_word(kind)
    parts = []
    for field in inside:
        own = _text(field.type)
        required = " not null" if field.required else ""
        parts.append(f"{field.name}: {own}{required}" if name == "struct" else own)
    return f"{name}<{', '.join(parts)}>"
