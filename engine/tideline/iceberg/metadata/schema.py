"""A schema: its fields by id and by dotted name (spec, "Schemas")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tideline.errors import CorruptTableError
from tideline.iceberg.metadata.field_type import (
    NestedField,
    StructType,
    field_json,
    parse_struct,
    parts_of,
    walk,
)


@dataclass(frozen=True)
class Schema:
    """The columns of a table at one time. Ids identify columns, names are only for people."""

    schema_id: int
    fields: tuple[NestedField, ...]
    identifier_field_ids: tuple[int, ...] = ()

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> Schema:
        """From the JSON of table metadata or of a manifest's header. Raises CorruptTableError."""
        try:
            return cls(
                int(value.get("schema-id", 0)),
                parse_struct(value).fields,
                tuple(value.get("identifier-field-ids") or ()),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptTableError(f"a schema or one of its fields lacks {error}") from error

    def json(self) -> dict[str, Any]:
        """The JSON that `parse` reads back."""
        document: dict[str, Any] = {"type": "struct", "schema-id": self.schema_id}
        if self.identifier_field_ids:
            document["identifier-field-ids"] = list(self.identifier_field_ids)
        return document | {"fields": [field_json(field) for field in self.fields]}

    def has_columns_of(self, other: Schema) -> bool:
        """Whether both have the same columns, identified alike, whatever their ids as schemas."""
        return self.fields == other.fields and set(self.identifier_field_ids) == set(
            other.identifier_field_ids
        )

    @property
    def struct(self) -> StructType:
        """The columns as one struct."""
        return StructType(self.fields)

    def field(self, field_id: int) -> NestedField | None:
        """The field with this id at any depth, or None."""
        found = self._by_id.get(field_id)
        return None if found is None else found[1]

    def name_of(self, field_id: int) -> str | None:
        """The dotted name of a field, or None when the schema has no such id."""
        found = self._by_id.get(field_id)
        return None if found is None else found[0]

    def find(self, name: str, *, case_sensitive: bool = True) -> NestedField | None:
        """The field with this dotted name, or None."""
        if case_sensitive:
            return self._by_name.get(name)
        wanted = name.lower()
        return next((f for n, f in self._by_name.items() if n.lower() == wanted), None)

    def doubled_name(self, *, case_sensitive: bool = True) -> str | None:
        """A dotted name that two fields have: `a.b`, and `b` in a struct `a`."""
        names = [name for name, _ in walk(self.fields)]
        names = names if case_sensitive else [name.lower() for name in names]
        return next((name for name, times in Counter(names).items() if times > 1), None)

    def leaves(self) -> Mapping[int, NestedField]:
        """All primitive fields at any depth, by id."""
        return {i: field for i, (_, field) in self._by_id.items() if not parts_of(field.type)}

    @property
    def highest_field_id(self) -> int:
        """The largest id in use, 0 for an empty schema."""
        return max(self._by_id, default=0)

    @cached_property
    def _by_id(self) -> dict[int, tuple[str, NestedField]]:
        return {field.field_id: (name, field) for name, field in walk(self.fields)}

    @cached_property
    def _by_name(self) -> dict[str, NestedField]:
        return dict(walk(self.fields))
