"""The rows of a table that have the keys of given rows, and where each key is among these.

1. Of given rows with the same key the last one counts.
2. Files are left out by the range of the keys, or by their values where these are few, and by
   partition where the key has all columns that place a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
from tideline.iceberg.write.row_selection import RowNumbers

_FEW_KEYS = 100


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
    """The keys of given rows; `last` has, for each, the number of the row that counts."""

    key: TableKey
    rows: pa.RecordBatch
    values: RowValues
    last: RowNumbers

    @classmethod
    def of(cls, rows: pa.Table, key: TableKey) -> GivenKeys:
        """Of rows that have the key's columns. Raises InvalidDataError for a key that is null."""
        columns = key.values(rows)
        if any(column.null_count for column in columns):
            raise InvalidDataError("a key is null", value=", ".join(key.columns))
        values = RowValues.of(columns)
        last = np.zeros(len(values), dtype=np.int64)
        last[values.numbers(columns)] = np.arange(rows.num_rows, dtype=np.int64)
        parts = rows.select(key.columns).combine_chunks()
        held = pa.RecordBatch.from_arrays(
            [column.combine_chunks() for column in parts.columns], schema=parts.schema
        )
        return cls(key, held, values, last)

    def of_rows(self, rows: pa.RecordBatch) -> RowNumbers:
        """For each of a table's rows the number of the given row with its key, ABSENT without."""
        found = self.values.numbers(self.key.values(rows))
        return np.where(found == ABSENT, ABSENT, self.last[found]) if len(self.last) else found


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """The rows of a table with one of some keys; see `RowSelection`."""

    keys: GivenKeys
    pruning: FilePruning
    row_filter: RowFilter

    @classmethod
    def of(cls, keys: GivenKeys, metadata: TableMetadata) -> KeyedRows:
        """In one state of the table."""
        row_filter = _range(keys, arrow_schema(metadata.schema().fields))
        condition = ConditionPruning(row_filter, metadata)
        return cls(keys, _KeyPruning(condition, keys, metadata), row_filter)

    @property
    def columns(self) -> frozenset[str]:
        return frozenset(self.keys.key.columns)

    def of_file(self, file: DataFile) -> None:  # noqa: ARG002
        return None

    def numbers(self, rows: pa.RecordBatch) -> RowNumbers:
        return np.flatnonzero(self.keys.of_rows(rows) != ABSENT)


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


def _range(keys: GivenKeys, schema: pa.Schema) -> RowFilter:
    """What all rows with such keys have in common."""
    found = RowFilter(pc.scalar(True), frozenset(), schema)
    for at, name in keys.key.whole_columns():
        column, distinct = pc.field(name), keys.values.values[at].array
        try:
            if len(distinct) <= _FEW_KEYS:
                found = found.and_also(RowFilter.of(column.isin(distinct), schema))
                continue
            bounds = pc.min_max(distinct)
            within = (column >= bounds["min"]) & (column <= bounds["max"])
            found = found.and_also(RowFilter.of(within, schema))
        except (pa.ArrowException, ConfigError):
            # Types that Arrow does not compare: nothing is left out by them.
            continue
    return found


def _partitions(
    keys: GivenKeys, spec: PartitionSpec, schema: Schema
) -> frozenset[PartitionKey] | None:
    """The partitions of a spec that rows with such keys can be in; None: any."""
    sources = {one.source_id for one in spec.fields}
    is_placed = all(one.transform.is_known and one.transform.name != "void" for one in spec.fields)
    if not spec.fields or not is_placed or not sources <= set(keys.key.numbers):
        return None
    splitter = PartitionSplitter(spec, Schema(schema.schema_id, keys.key.fields))
    return frozenset((spec.spec_id, values) for values, _ in splitter.split(keys.rows))
