"""Values of records as rows, and which values are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tideline.hudi.table.meta_column import is_meta_column
from tideline.hudi.table.stored_value import cast_array


class NoRowError(Exception):
    """Something in the values stands for no row; the text says why."""


class MixedTypesError(Exception):
    """Values have columns of types that do not go together; `first` has those that came first."""

    def __init__(self, first: pa.Schema) -> None:
        super().__init__(first)
        self.first = first


@dataclass(frozen=True, slots=True)
class Decoded:
    """Rows, each of the value with this number; `deletes` are the places of those that delete.

    `faults` has the reasons of values that are no rows. Values in neither, such as messages of a
    connector, are passed over.
    """

    rows: pa.Table
    numbers: Sequence[int]
    deletes: frozenset[int] = frozenset()
    faults: Mapping[int, str] = field(default_factory=dict)

    def at(self, places: Sequence[int]) -> Decoded:
        """The same, of values that have these numbers among others."""
        numbers = [places[number] for number in self.numbers]
        faults = {places[number]: reason for number, reason in self.faults.items()}
        return Decoded(self.rows, numbers, self.deletes, faults)

    def with_those(self, other: Decoded) -> Decoded:
        """Both, where nothing deletes."""
        rows = pa.concat_tables([self.rows, other.rows], promote_options="permissive")
        return Decoded(
            rows, [*self.numbers, *other.numbers], faults={**self.faults, **other.faults}
        )


@dataclass(frozen=True, slots=True)
class WantedColumns:
    """The columns of rows: those declared, else all that values have, as the table has them.

    `reserved` are names that something else fills.
    """

    declared: pa.Schema | None = None
    stored: pa.Schema | None = None
    reserved: frozenset[str] = frozenset()

    def of(self, rows: pa.Table) -> pa.Table:
        """The rows in these columns. Raises NoRowError for a value that does not fit."""
        fields, arrays = [], []
        for item in self._fields(rows.schema):
            fields.append(item)
            if item.name not in rows.schema.names:
                arrays.append(pa.nulls(rows.num_rows, item.type))
                continue
            try:
                column = rows.column(item.name).combine_chunks()
                if pa.types.is_decimal(column.type):
                    # Writers do not look whether digits are more than their schemas have.
                    column.validate(full=True)
                arrays.append(cast_array(column, item.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
                raise NoRowError(f"column {item.name}: {error}") from error
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def knowing(self, types: pa.Schema) -> WantedColumns:
        """The same, of a table that has columns of these types as well."""
        fields = {item.name: item for item in (*types, *(self.stored or ()))}
        return replace(self, stored=pa.schema(list(fields.values())))

    def empty(self) -> pa.Table:
        """No rows, in the columns that are known without any."""
        known = self.declared if self.declared is not None else self.stored
        return self.of(pa.schema(known or []).empty_table())

    def _fields(self, present: pa.Schema) -> list[pa.Field]:
        if self.declared is not None:
            return [item for item in self.declared if self._is_wanted(item.name)]
        stored = {} if self.stored is None else {item.name: item.type for item in self.stored}
        return [
            pa.field(item.name, _fitting(item.type, stored.get(item.name, item.type)))
            for item in present
            if self._is_wanted(item.name)
        ]

    def _is_wanted(self, name: str) -> bool:
        return name not in self.reserved and not is_meta_column(name)


def _fitting(found: pa.DataType, stored: pa.DataType) -> pa.DataType:
    """The table's type, but for numbers: a wider one is for the write to take or to refuse."""
    return found if _is_number(found) and _is_number(stored) else stored


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def read_as_first(wanted: WantedColumns, read: Callable[[WantedColumns], Decoded]) -> Decoded:
    """What is read as the wanted columns. Where values have a column in several types, and no table
    has it yet, the first one counts: the others are cast, or are bad."""
    try:
        return read(wanted)
    except MixedTypesError as error:
        return read(wanted.knowing(error.first))


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all. Raises MixedTypesError."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        first: dict[str, pa.Field] = {}
        mixed: set[str] = set()
        for item in (item for table in tables for item in table.schema):
            if not first.setdefault(item.name, item).type.equals(item.type):
                mixed.add(item.name)
        raise MixedTypesError(pa.schema([first[name] for name in sorted(mixed)])) from error


def read_halves(
    values: Sequence[bytes],
    read: Callable[[Sequence[bytes]], pa.Table],
    bad: dict[int, str],
    at_once: int | None = None,
) -> list[pa.Table]:
    """Rows of the good values in their order; the reason of each other one, by number, in `bad`.

    `read` gives a row for each value, or raises NoRowError. Then the values are halved until those
    at fault stand alone: as many readings as there are bad ones, times the logarithm of all. With
    `at_once` no more of them are read together.
    """
    tables: list[pa.Table] = []
    length = at_once or max(1, len(values))
    parts = [(first, min(first + length, len(values))) for first in range(0, len(values), length)]
    parts.reverse()
    while parts:
        first, end = parts.pop()
        try:
            tables.append(read(values[first:end]))
        except NoRowError as error:
            if end - first == 1:
                bad[first] = str(error)
                continue
            middle = (first + end) // 2
            parts += [(middle, end), (first, middle)]
    return tables
