"""The rows of a table that have the keys of given rows, and where each key is among these.

1. Of given rows with the same key the last one counts, or that with the greatest values of some
   columns. With these a stored row that is greater stays, and the given one is passed over.
2. Files are left out by the range of the keys, or by their values where these are few, and by
   partition where the key has all columns that place a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.errors import ConfigError, InvalidDataError
from tideline.formats.row_filter import RowFilter
from tideline.iceberg.commit.file_identity import PartitionKey
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.condition_pruning import ConditionPruning
from tideline.iceberg.data.nested_column import ColumnPath
from tideline.iceberg.data.partition_values import PartitionSplitter
from tideline.iceberg.data.row_values import ABSENT, RowValues
from tideline.iceberg.manifest.manifest_entry import DataFile, ManifestFile
from tideline.iceberg.metadata.field_type import NestedField, identifies_rows
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.pruning import FilePruning
from tideline.iceberg.scan.wrapped_truncate import may_differ
from tideline.iceberg.write.key_ranges import KeyRange, ranges_filter
from tideline.iceberg.write.row_selection import RowNumbers

Flags: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TableKey:
    """The fields that tell the rows of a table apart, within these columns."""

    numbers: tuple[int, ...]
    fields: tuple[NestedField, ...]

    @classmethod
    def of(cls, schema: Schema, named: Sequence[str]) -> TableKey:
        """Of the fields named, else the table's identifier fields. Raises ConfigError."""
        numbers = [_named(schema, name).field_id for name in named]
        numbers = numbers or list(schema.identifier_field_ids)
        if not numbers:
            raise ConfigError(
                "the table has no identifier fields: name the columns of its key, or set them "
                "(alter().set_identifier_fields)"
            )
        columns: dict[int, NestedField] = {}
        for number in numbers:
            path, name = ColumnPath.find(schema.fields, number), schema.name_of(number)
            if path is None:
                raise ConfigError("a field within a list or map is no key", value=name)
            if not identifies_rows(path.type):
                raise ConfigError("a column of this type identifies no row", value=name)
            columns[path.column] = schema.fields[path.column]
        return cls(tuple(numbers), tuple(columns.values()))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.fields)

    def values(self, rows: pa.Table | pa.RecordBatch) -> list[pa.Array]:
        """The key of each row, an array for each field, of rows that have the columns."""
        found = rows.select(self.columns)
        paths = (ColumnPath.find(self.fields, number) for number in self.numbers)
        values = (path.values(found) for path in paths if path is not None)
        return [
            value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value
            for value in values
        ]

    def whole_columns(self) -> Iterator[tuple[int, str]]:
        """The place and the name of the fields that are columns."""
        names = {column.field_id: column.name for column in self.fields}
        for at, number in enumerate(self.numbers):
            if number in names:
                yield at, names[number]


@dataclass(frozen=True, slots=True)
class GivenKeys:
    """The keys of given rows: `numbers` has that of each row. `last` has, for each key, the number
    of the row that counts, by its values in the columns `order`: of those `ascending` by them the
    last. Rows that `always_win` do so over whatever is stored."""

    key: TableKey
    rows: pa.RecordBatch
    values: RowValues
    numbers: RowNumbers
    last: RowNumbers
    order: pa.RecordBatch
    ascending: RowNumbers
    always_win: Flags

    @classmethod
    def of(
        cls, rows: pa.Table, key: TableKey, order_by: Sequence[str], deletes: Flags
    ) -> GivenKeys:
        """Of rows that have the columns; some of them may delete. A delete without a value to
        decide by takes out whatever was before it.

        Raises InvalidDataError for a key that is null, and for another row without such a value.
        """
        columns = key.values(rows)
        if any(column.null_count for column in columns):
            raise InvalidDataError("a key is null", value=", ".join(key.columns))
        values, order = RowValues.of(columns), _held(rows, order_by)
        numbers = values.numbers(columns)
        lacks = np.zeros(rows.num_rows, np.bool_)
        for column in order.columns:
            lacks |= column.is_null().to_numpy(zero_copy_only=False)
        if (lacks & ~deletes).any():
            raise InvalidDataError("an ordering value is null", value=", ".join(order_by))
        ascending = _ascending(order, rows.num_rows)
        if lacks.any():
            cut = np.full(len(values), ABSENT, np.int64)
            np.maximum.at(cut, numbers[lacks], np.flatnonzero(lacks))
            ascending = ascending[ascending >= cut[numbers[ascending]]]
            is_first = ascending == cut[numbers[ascending]]
            ascending = np.concatenate([ascending[is_first], ascending[~is_first]])
            # Whatever comes behind such a delete wins as it does.
            lacks = cut[numbers] != ABSENT
        last = np.zeros(len(values), dtype=np.int64)
        # Of a number that is named twice the last assignment counts.
        last[numbers[ascending]] = ascending
        held = _held(rows, key.columns)
        return cls(key, held, values, numbers, last, order, ascending, lacks)

    def of_rows(self, rows: pa.RecordBatch) -> RowNumbers:
        """For each of a table's rows the number of the given row with its key, ABSENT without."""
        found = self.values.numbers(self.key.values(rows))
        return np.where(found == ABSENT, ABSENT, self.last[found]) if len(self.last) else found

    def ranges(self) -> list[KeyRange]:
        """What they have in common."""
        listed = self.key.whole_columns()
        return [KeyRange.of(name, self.values.values[at].array) for at, name in listed]

    def replaced(self, rows: pa.RecordBatch) -> tuple[RowNumbers, RowNumbers, RowNumbers]:
        """Which of a table's rows go, the given rows that take their places, and the given rows
        that are passed over for a greater one."""
        numbers = self.of_rows(rows)
        at = np.flatnonzero(numbers != ABSENT)
        numbers = numbers[at]
        order = self.order.schema.names
        if not order:
            return at, numbers, numbers[:0]
        greater = self.beaten(rows.select(order).take(pa.array(at)), numbers)
        return at[~greater], numbers[~greater], numbers[greater]

    def beaten(self, rows: pa.RecordBatch, numbers: RowNumbers) -> Flags:
        """Which of a table's rows, whose given rows have these numbers, are greater than these."""
        same = ~self.always_win[numbers]
        greater = np.zeros(len(numbers), np.bool_)
        given = self.order.take(pa.array(numbers))
        for name in self.order.schema.names:
            stored, found = rows.column(name), given.column(name)
            greater |= same & _is_greater(stored, found)
            same &= ~_is_greater(found, stored)
        return greater


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """The rows of a table with one of some keys; see `RowSelection`."""

    keys: GivenKeys
    pruning: FilePruning
    row_filter: RowFilter

    @classmethod
    def of(cls, keys: GivenKeys, metadata: TableMetadata) -> KeyedRows:
        """In one state of the table."""
        row_filter = ranges_filter(keys.ranges(), arrow_schema(metadata.schema().fields))
        condition = ConditionPruning(row_filter, metadata)
        return cls(keys, _KeyPruning(condition, keys, metadata), row_filter)

    @property
    def columns(self) -> frozenset[str]:
        return frozenset((*self.keys.key.columns, *self.keys.order.schema.names))

    def of_file(self, file: DataFile) -> None:  # noqa: ARG002
        return None

    def numbers(self, rows: pa.RecordBatch) -> RowNumbers:
        return self.keys.replaced(rows)[0]


@dataclass(frozen=True, slots=True)
class _KeyPruning:
    """By range, and by the partitions that the keys are in; see `FilePruning`."""

    condition: ConditionPruning
    keys: GivenKeys
    metadata: TableMetadata
    partitions: dict[int, frozenset[PartitionKey] | None] = field(default_factory=dict)

    @property
    def needs_metrics(self) -> bool:
        return self.condition.needs_metrics

    def manifest_may_match(self, manifest: ManifestFile) -> bool:
        return self.condition.manifest_may_match(manifest)

    def partition_may_match(self, file: DataFile) -> bool:
        if file.spec_id not in self.partitions:
            self.partitions[file.spec_id] = _partitions(
                self.keys, self.metadata.spec(file.spec_id), self.metadata.schema()
            )
        partitions = self.partitions[file.spec_id]
        if partitions is not None and (file.spec_id, file.partition) not in partitions:
            return False
        return self.condition.partition_may_match(file)

    def file_may_match(self, file: DataFile) -> bool:
        return self.partition_may_match(file) and self.condition.file_may_match(file)


def _named(schema: Schema, name: str) -> NestedField:
    found = schema.find(name)
    if found is None:
        raise ConfigError("the table has no such column", value=name)
    return found


def _held(rows: pa.Table, names: Sequence[str]) -> pa.RecordBatch:
    """Some columns of a table as one batch."""
    found = rows.select(list(names)).combine_chunks()
    columns = [column.combine_chunks() for column in found.columns]
    return pa.RecordBatch.from_arrays(columns, schema=found.schema)


def _ascending(order: pa.RecordBatch, count: int) -> RowNumbers:
    """The numbers of rows from the least to the greatest, equal ones in their order."""
    if not order.schema.names:
        return np.arange(count, dtype=np.int64)
    ranks = [
        np.where(
            column.is_valid().to_numpy(zero_copy_only=False),
            pc.rank(column, "ascending", tiebreaker="dense").to_numpy(),
            0,
        )
        for column in order.columns
    ]
    # The last key is the first one that counts.
    numbers: RowNumbers = np.lexsort(tuple(reversed(ranks)))
    return numbers


def _is_greater(left: pa.Array, right: pa.Array) -> Flags:
    """Which values are, as `_ascending` has them: null is the least, and NaN the greatest."""
    found = pc.fill_null(pc.greater(left, right), False)
    found = pc.or_(found, pc.and_(pc.is_valid(left), pc.is_null(right)))
    if types.is_floating(left.type):
        is_above = pc.and_(pc.is_nan(left), pc.invert(pc.fill_null(pc.is_nan(right), False)))
        found = pc.or_(found, pc.fill_null(is_above, False))
    greater: Flags = found.to_numpy(zero_copy_only=False)
    return greater


def _partitions(
    keys: GivenKeys, spec: PartitionSpec, schema: Schema
) -> frozenset[PartitionKey] | None:
    """The partitions of a spec that rows with such keys can be in; None: any."""
    sources = {field.source_id for field in spec.fields}
    is_placed = all(
        field.transform.is_known and field.transform.name != "void" for field in spec.fields
    )
    if not spec.fields or not is_placed or not sources <= set(keys.key.numbers):
        return None
    splitter = PartitionSplitter(spec, Schema(schema.schema_id, keys.key.fields))
    partitions = [values for values, _ in splitter.split(keys.rows)]
    kinds = [field.type for field in spec.partition_type(schema).fields]
    for values in partitions:
        terms = zip(spec.fields, kinds, values, strict=True)
        if any(may_differ(field.transform, kind, value) for field, kind, value in terms):
            return None
    return frozenset((spec.spec_id, values) for values in partitions)
