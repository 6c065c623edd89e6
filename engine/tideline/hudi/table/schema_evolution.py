"""How a write may change a table's schema (Hudi: validateUpsertSchema).

1. Columns are matched by name, exactly or else ignoring case; the table's spelling and order stay.
   Meta columns of the input are not looked at.
2. A column the table lacks is added at the end, nullable.
3. A column both have keeps its type, is widened to the incoming type, or the incoming values are
   promoted to the table's type; structs, lists and maps likewise, part by part. Where either side
   may be null the result may.
4. A column the input lacks is an error, or null: see `MissingColumns`.
5. A new column with nothing but nulls is left out until one has a type, at any depth.

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
from tideline.hudi.table.missing_columns import MissingColumns
from tideline.hudi.table.schema_change import NO_CHANGE, SchemaChange


@dataclass(frozen=True, slots=True)
class EvolvedSchema:
    """The schema to write with, and how it differs from the table's."""

    schema: pa.Schema
    change: SchemaChange = NO_CHANGE


def evolve(
    table_schema: pa.Schema | None,
    incoming: pa.Schema,
    *,
    missing: MissingColumns = MissingColumns.REFUSED,
) -> EvolvedSchema:
    """The schema after a write of `incoming` to a table of `table_schema`.

    Both without meta columns, `table_schema` None for a table that has none yet.
    Raises InvalidDataError naming column and types for a change that is not allowed, for a missing
    column and for names that differ only by case where it matters.
    """
    columns = [column for column in incoming if not is_meta_column(column.name)]
    evolution = _Evolution(missing)
    fields = evolution.evolve_fields(table_schema or (), columns, "")
    changes = tuple(evolution.added), tuple(evolution.widened), tuple(evolution.untyped)
    return EvolvedSchema(pa.schema(fields), SchemaChange(*changes))


@dataclass(slots=True)
class _Evolution:
    """One run of `evolve`, collecting what changes."""

    missing: MissingColumns
    added: list[tuple[str, str]] = field(default_factory=list)
    widened: list[tuple[str, str, str]] = field(default_factory=list)
    untyped: list[str] = field(default_factory=list)

    def evolve_fields(
        self, table: Iterable[pa.Field], incoming: Iterable[pa.Field], path: str
    ) -> list[pa.Field]:
        """The fields of a schema or struct; `path` is the dotted name of the struct."""
        known = list(table)
        matched, new = _match(known, incoming, path)
        self._check_missing([item for item in known if item.name not in matched], path)
        fields = [
            self._evolve_field(item, matched[item.name], _dotted(path, item.name))
            if item.name in matched
            else item.with_nullable(True)
            for item in known
        ]
        added = (self._add(item, _dotted(path, item.name)) for item in new)
        return fields + [item for item in added if item is not None]

    def _check_missing(self, missing: list[pa.Field], path: str) -> None:
        refused = {
            MissingColumns.REFUSED: (missing, "columns"),
            MissingColumns.OPTIONAL_ARE_NULL: (
                [item for item in missing if not item.nullable],
                "required columns",
            ),
            MissingColumns.NULL: ([], ""),
        }
        lacking, what = refused[self.missing]
        if lacking:
            names = ", ".join(_dotted(path, item.name) for item in lacking)
            raise InvalidDataError(f"the input lacks {what} of the table", value=names)

    def _add(self, item: pa.Field, name: str) -> pa.Field | None:
        if not is_column_name(item.name):
            raise InvalidDataError(COLUMN_NAMES, value=name)
        kind = self._typed(stored_field(item, name).type, name)
        if kind is None:
            self.untyped.append(name)
            return None
        self.added.append((name, str(kind)))
        return pa.field(item.name, kind)

    def _typed(self, kind: pa.DataType, name: str) -> pa.DataType | None:
        """The type without the parts that have none; None where nothing is left."""
        if types.is_null(kind):
            return None
        if types.is_struct(kind):
            parts = [(part, self._typed(part.type, f"{name}.{part.name}")) for part in kind]
            kept = [part.with_type(own) for part, own in parts if own is not None]
            self.untyped += [f"{name}.{part.name}" for part, own in parts if own is None and kept]
            return pa.struct(kept) if kept else None
        if types.is_list(kind):
            item = self._typed(kind.value_type, f"{name}.{ELEMENT}")
            return None if item is None else pa.list_(kind.value_field.with_type(item))
        if types.is_map(kind):
            item = self._typed(kind.item_type, f"{name}.{VALUE}")
            return None if item is None else pa.map_(kind.key_type, kind.item_field.with_type(item))
        return kind

    def _evolve_field(self, table: pa.Field, incoming: pa.Field, name: str) -> pa.Field:
        data_type = self._evolve_type(table.type, incoming.type, name)
        return pa.field(table.name, data_type, table.nullable or incoming.nullable)

    def _evolve_type(self, table: pa.DataType, raw: pa.DataType, name: str) -> pa.DataType:
        if raw == table:
            # Also of a type that only Iceberg tables have.
            return table
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
