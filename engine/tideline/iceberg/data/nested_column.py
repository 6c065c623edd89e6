"""Columns of rows by field id, within structs too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc

from tideline.iceberg.metadata.field_type import FieldType, NestedField, StructType


@dataclass(frozen=True, slots=True)
class ColumnPath:
    """The place of a field: a top column's number and the names within it; and its type."""

    column: int
    names: tuple[str, ...]
    type: FieldType

    @classmethod
    def find(cls, fields: Sequence[NestedField], field_id: int) -> ColumnPath | None:
        """Where a field is; None when there is none outside lists and maps."""
        for number, field in enumerate(fields):
            found = _within(field, field_id)
            if found is not None:
                return cls(number, found[0], found[1])
        return None

    def values(self, batch: Any) -> Any:
        """The field of every row of a batch or table, null where a struct around it is."""
        column = batch.column(self.column)
        for name in self.names:
            column = pc.struct_field(column, name)
        return column


def only_field(column: NestedField, field_id: int) -> NestedField:
    """A column with one field in it alone, which rows must not lack; no defaults."""
    bare = replace(column, required=True, initial_default=None)
    if column.field_id == field_id or not isinstance(column.type, StructType):
        return bare
    (child,) = (field for field in column.type.fields if _within(field, field_id) is not None)
    return replace(bare, type=StructType((only_field(child, field_id),)))


def _within(field: NestedField, field_id: int) -> tuple[tuple[str, ...], FieldType] | None:
    if field.field_id == field_id:
        return (), field.type
    if isinstance(field.type, StructType):
        for child in field.type.fields:
            found = _within(child, field_id)
            if found is not None:
                return (child.name, *found[0]), found[1]
    return None
