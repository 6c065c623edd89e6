"""The given rows of an upsert, and which of them are to be written.

1. Of rows with the same key one counts. Where a flag says that it deletes, nothing comes in the
   place of the stored row, and the row needs a value in the columns of the key alone.
2. A value that was not available is that of the row before: of the given one, and else of the
   stored one, which is known where rows are merged. Where there is none the marker stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.errors import ConfigError, InvalidDataError
from tideline.formats.marked_values import marked_values
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.row_values import ABSENT
from tideline.iceberg.metadata.field_type import BOOLEAN, NestedField
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.write.keyed_rows import Flags, GivenKeys, TableKey
from tideline.iceberg.write.row_selection import RowNumbers
from tideline.iceberg.write.write_request import UpsertRules

_NO_FIELD = 0


@dataclass(frozen=True, slots=True)
class GivenChanges:
    """Rows in the table's columns; `comes` says which are to be written, where no greater row is
    stored. In columns that have `unavailable` values some of them lack those of the stored rows."""

    keys: GivenKeys
    rows: pa.Table
    comes: Flags
    unavailable: dict[str, Flags] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: pa.Table, schema: Schema, key: TableKey, rules: UpsertRules) -> GivenChanges:
        """Of rows in the columns of `fields_of`. Raises InvalidDataError as `GivenKeys.of`, and
        where a row that is to be written lacks a value of a required column."""
        deletes = np.zeros(rows.num_rows, np.bool_)
        if rules.deleted_by is not None:
            deletes = pc.fill_null(rows.column(rules.deleted_by), False).to_numpy()
        keys = GivenKeys.of(rows, key, rules.order_by, deletes)
        comes = np.zeros(rows.num_rows, np.bool_)
        comes[keys.last] = True
        comes &= ~deletes
        if rules.deleted_by is not None:
            rows = _in_columns(rows, schema, comes)
        if rules.unavailable is None:
            return cls(keys, rows, comes)
        return cls(keys, rows, comes)._with_earlier_values(rules.unavailable, deletes)

    def _with_earlier_values(self, marker: str, deletes: Flags) -> GivenChanges:
        """The same, where rows have what given ones before them have."""
        rows, unavailable = self.rows, dict[str, Flags]()
        for at, name in enumerate(rows.schema.names):
            missing = marked_values(rows.column(at), marker)
            if not missing[self.comes].any():
                continue
            before, is_stored = _rows_before(self.keys, missing, deletes)
            is_given = self.comes & missing & (before != ABSENT)
            if is_given.any():
                numbers = np.where(is_given, before, np.arange(rows.num_rows))
                found = rows.column(at).take(pa.array(numbers))
                rows = rows.set_column(at, rows.schema.field(at), found)
            left = self.comes & missing & is_stored
            if left.any():
                unavailable[name] = left
        return replace(self, rows=rows, unavailable=unavailable)


def fields_of(schema: Schema, key: TableKey, rules: UpsertRules) -> tuple[NestedField, ...]:
    """The columns that rows are to have. Raises ConfigError for rules that name no column."""
    for name in rules.order_by:
        if all(item.name != name for item in schema.fields):
            raise ConfigError("the table has no such column to decide by", value=name)
    flag = rules.deleted_by
    if flag is None:
        return schema.fields
    kept = [item if item in key.fields else replace(item, required=False) for item in schema.fields]
    found = next((item for item in kept if item.name == flag), None)
    if found is None:
        kept.append(NestedField(_NO_FIELD, flag, BOOLEAN))
    elif found.type != BOOLEAN:
        raise ConfigError("the column that says which rows delete is no boolean", value=flag)
    return tuple(kept)


def _in_columns(rows: pa.Table, schema: Schema, comes: Flags) -> pa.Table:
    columns = [rows.column(item.name) for item in schema.fields]
    for item, column in zip(schema.fields, columns, strict=True):
        if item.required and column.null_count and (comes & column.is_null().to_numpy()).any():
            raise InvalidDataError("a required column has nulls", value=item.name)
    return pa.table(columns, schema=arrow_schema(schema.fields))


def _rows_before(keys: GivenKeys, missing: Flags, deletes: Flags) -> tuple[RowNumbers, Flags]:
    """For each row the number of the one with its key whose value it has, itself or one before;
    ABSENT without. And whether the stored row then has it: no given one has deleted that."""
    by_key = keys.ascending[np.argsort(keys.numbers[keys.ascending], kind="stable")]
    places = np.arange(len(by_key))
    numbers, is_delete = keys.numbers[by_key], deletes[by_key]
    is_first = np.ones(len(by_key), np.bool_)
    is_first[1:] = numbers[1:] != numbers[:-1]
    begins = is_first.copy()
    begins[1:] |= is_delete[:-1]
    start = np.maximum.accumulate(np.where(begins, places, 0))
    found = np.maximum.accumulate(np.where(missing[by_key], ABSENT, places))
    is_known = found >= start
    before = np.full(len(missing), ABSENT, np.int64)
    before[by_key] = np.where(is_known, by_key[found], ABSENT)
    is_stored = np.zeros(len(missing), np.bool_)
    is_stored[by_key] = ~is_known & is_first[start] & ~keys.always_win[by_key]
    return before, is_stored
