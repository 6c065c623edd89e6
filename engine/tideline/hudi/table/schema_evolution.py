"""How a write may change a table's schema (Hudi: validateUpsertSchema).

1. Columns are matched by name, exactly or else ignoring case; the table's spelling and order stay.
   Meta columns of the input are not looked at.
2. A column the table lacks is added at the end, nullable.
3. A column both have keeps its type, is widened to the incoming type, or the incoming values are
   promoted to the table's type; structs, lists and maps likewise, part by part. Where either side
   may be null the result may.
4. A column the input lacks is an error, or null when the caller asks for that.

Anything else is refused, naming the column and both types.
Source: Hudi's AvroSchemaUtils, HoodieSchemaCompatibility.checkValidEvolution (1.x defaults).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
from pyarrow import types

from tideline.errors import InvalidDataError
from tideline.hudi.table.avro_schema import COLUMN_NAMES, is_column_name
from tideline.hudi.table.column_type import (
    ELEMENT,
    VALUE,
    fits_in,
    stored_field,
    stored_type,
    widens_to,
)
from tideline.hudi.table.meta_column import is_meta_column


@dataclass(frozen=True, slots=True)
class EvolvedSchema:
    """The schema to write with, and how it differs from the table's.

    Names are dotted; a widened column comes with its old and its new type.
    """

    schema: pa.Schema
    added: tuple[str, ...] = ()
    widened: tuple[tuple[str, str, str], ...] = ()


def evolve(
    table_schema: pa.Schema | None, incoming: pa.Schema, *, null_missing_columns: bool = False
) -> EvolvedSchema:
    """The schema after a write of `incoming` to a table of `table_schema`.

    Both without meta columns, `table_schema` None for a table that has none yet.
    `null_missing_columns` allows the input to lack columns (partial updates, deletes).
    Raises InvalidDataError naming column and types for a change that is not allowed, for a missing
    column and for names that differ only by case where it matters.
    """
    columns = [column for column in incoming if not is_meta_column(column.name)]
    evolution = _Evolution(null_missing_columns)
    fields = evolution.evolve_fields(table_schema or (), columns, "")
    added = () if table_schema is None else tuple(evolution.added)
    return EvolvedSchema(pa.schema(fields), added, tuple(evolution.widened))


@dataclass(slots=True)
class _Evolution:
    """One run of `evolve`, collecting what changes."""

    null_missing_columns: bool
    added: list[str] = field(default_factory=list)
    widened: list[tuple[str, str, str]] = field(default_factory=list)

    def evolve_fields(
        self, table: Iterable[pa.Field], incoming: Iterable[pa.Field], path: str
    ) -> list[pa.Field]:
        """The fields of a schema or struct; `path` is the dotted name of the struct."""
        known = list(table)
        matched, new = _match(known, incoming, path)
        missing = [item.name for item in known if item.name not in matched]
        if missing and not self.null_missing_columns:
            names = ", ".join(_dotted(path, name) for name in missing)
            raise InvalidDataError("the input lacks columns of the table", value=names)
        fields = [
            self._evolve_field(item, matched[item.name], _dotted(path, item.name))
            if item.name in matched
            else item.with_nullable(True)
            for item in known
        ]
        return fields + [self._add(item, _dotted(path, item.name)) for item in new]

    def _add(self, item: pa.Field, name: str) -> pa.Field:
        if not is_column_name(item.name):
            raise InvalidDataError(COLUMN_NAMES, value=name)
        self.added.append(name)
        stored = stored_field(item, name)
        if types.is_null(stored.type):
            raise InvalidDataError(
                f"new column {name} has no type: all its values are null", value=name
            )
        return stored.with_nullable(True)

    def _evolve_field(self, table: pa.Field, incoming: pa.Field, name: str) -> pa.Field:
        data_type = self._evolve_type(table.type, incoming.type, name)
        return pa.field(table.name, data_type, table.nullable or incoming.nullable)

    def _evolve_type(self, table: pa.DataType, raw: pa.DataType, name: str) -> pa.DataType:
        incoming = stored_type(raw, name, keep_millis=True)
        if types.is_struct(table) and types.is_struct(incoming):
            return pa.struct(self.evolve_fields(table, incoming, name))
        if types.is_list(table) and types.is_list(incoming):
            item = self._evolve_field(table.value_field, incoming.value_field, f"{name}.{ELEMENT}")
            return pa.list_(pa.field(ELEMENT, item.type, item.nullable))
        if types.is_map(table) and types.is_map(incoming):
            item = self._evolve_field(table.item_field, incoming.item_field, f"{name}.{VALUE}")
            return pa.map_(pa.string(), pa.field(VALUE, item.type, item.nullable))
        if incoming == table or fits_in(incoming, table):
            return table
        if widens_to(table, incoming):
            self.widened.append((name, str(table), str(incoming)))
            return incoming
        raise InvalidDataError(
            f"column {name} cannot change from {table} to {raw}",
            value=name,
        )


def _match(
    known: list[pa.Field], incoming: Iterable[pa.Field], path: str
) -> tuple[dict[str, pa.Field], list[pa.Field]]:
    """Incoming fields by the name of the table's field they stand for, and the new ones."""
    exact = {item.name for item in known}
    by_folded: dict[str, list[str]] = {}
    for item in known:
        by_folded.setdefault(item.name.casefold(), []).append(item.name)
    matched: dict[str, pa.Field] = {}
    new: dict[str, pa.Field] = {}
    for item in incoming:
        spellings = by_folded.get(item.name.casefold(), [])
        if item.name not in exact and len(spellings) > 1:
            raise _ambiguous(path, item.name, spellings)
        if not spellings:
            other = new.setdefault(item.name.casefold(), item)
            if other is not item:
                raise _ambiguous(path, item.name, [other.name])
            continue
        target = item.name if item.name in exact else spellings[0]
        if target in matched:
            raise _ambiguous(path, item.name, [matched[target].name])
        matched[target] = item
    return matched, list(new.values())


def _ambiguous(path: str, name: str, others: Iterable[str]) -> InvalidDataError:
    spellings = ", ".join(sorted({name, *others}))
    return InvalidDataError(
        f"ambiguous column {_dotted(path, name)}: names differ only by case", value=spellings
    )


def _dotted(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
