"""The given rows of an upsert, and which of them are to be written.

1. Of rows with the same key one counts. Where a flag says that it deletes, nothing comes in the
   place of the stored row, and the row needs a value in the columns of the key alone.
2. A value that was not available is that of the row before: of a given one, or of the stored one
   where that comes after it, which is known where rows are merged. Where there is none the marker
   stays.
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
from tideline.iceberg.metadata.field_type import BOOLEAN, NestedField, parts_of
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.write.keyed_rows import Flags, GivenKeys, TableKey
from tideline.iceberg.write.row_selection import RowNumbers
from tideline.iceberg.write.write_request import UpsertRules

_NO_FIELD = 0


@dataclass(frozen=True, slots=True)
class GivenChanges:
    """Rows in the table's columns; `comes` says which are to be written, where no greater row is
    stored. In columns that have `unavailable` values those of stored rows stay that are greater
    than the given row of this number, its own where none does, or than none (ABSENT)."""

    keys: GivenKeys
    rows: pa.Table
    comes: Flags
    unavailable: dict[str, RowNumbers] = field(default_factory=dict)

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
            rows = pa.table(
                [rows.column(item.name) for item in schema.fields],
                schema=arrow_schema(schema.fields),
            )
        given = cls(keys, rows, comes)
        if rules.unavailable is not None:
            given = given._with_earlier_values(rules.unavailable, deletes)
        if rules.deleted_by is not None:
            given._require_values(schema)
        return given

    def stays(self, name: str, stored: pa.RecordBatch, numbers: RowNumbers) -> Flags:
        """Which of these stored rows have the value that the given rows of these numbers lack."""
        before = self.unavailable[name][numbers]
        greater = self.keys.beaten(stored, np.maximum(before, 0))
        found: Flags = (before == ABSENT) | greater
        return found

    def _with_earlier_values(self, marker: str, deletes: Flags) -> GivenChanges:
        """The same, where rows have what given ones before them have."""
        rows, unavailable = self.rows, dict[str, RowNumbers]()
        own = np.arange(rows.num_rows)
        for at, name in enumerate(rows.schema.names):
            missing = marked_values(rows.column(at), marker)
            if not missing[self.comes].any():
                continue
            before, is_value = _rows_before(self.keys, missing, deletes)
            taken = np.where(self.comes & is_value, before, own)
            if (taken != own).any():
                found = rows.column(at).take(pa.array(taken))
                rows = rows.set_column(at, rows.schema.field(at), found)
            before = np.where(self.comes, before, own)
            # Without an order no stored row is greater than a given one.
            if (before != own if self.keys.order.schema.names else before == ABSENT).any():
                unavailable[name] = before
        return replace(self, rows=rows, unavailable=unavailable)

    def _require_values(self, schema: Schema) -> None:
        for item in schema.fields:
            column = self.rows.column(item.name)
            lacks = item.required and column.null_count
            if lacks and (self.comes & column.is_null().to_numpy()).any():
                raise InvalidDataError("a required column has nulls", value=item.name)


def fields_of(schema: Schema, key: TableKey, rules: UpsertRules) -> tuple[NestedField, ...]:
    """The columns that rows are to have. Raises ConfigError for rules that name no column."""
    known = {item.name: item for item in schema.fields}
    for name in rules.order_by:
        if name not in known:
            raise ConfigError("the table has no such column to decide by", value=name)
        if parts_of(known[name].type):
            raise ConfigError("a column of this type is in no order to decide by", value=name)
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


def _rows_before(keys: GivenKeys, missing: Flags, deletes: Flags) -> tuple[RowNumbers, Flags]:
    """For each row the number of the one with its key whose value it has, itself or one before, or
    of one before that deletes; ABSENT without. And whether it is one with a value."""
    by_key = keys.ascending[np.argsort(keys.numbers[keys.ascending], kind="stable")]
    places = np.arange(len(by_key))
    numbers = keys.numbers[by_key]
    is_first = np.ones(len(by_key), np.bool_)
    is_first[1:] = numbers[1:] != numbers[:-1]
    start = np.maximum.accumulate(np.where(is_first, places, 0))
    found = np.maximum.accumulate(np.where(missing[by_key] & ~deletes[by_key], ABSENT, places))
    is_known = found >= start
    before = np.full(len(missing), ABSENT, np.int64)
    before[by_key] = np.where(is_known, by_key[found], ABSENT)
    return before, (before != ABSENT) & ~deletes[before]
