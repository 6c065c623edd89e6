"""A write by key: what is asked of given rows, and the change that rows held in this process make.

Others than held rows make theirs in tasks; see `ChangeByKey`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tideline.errors import ConflictError, InvalidDataError
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.metadata.field_type import NestedField
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.write.attempt import WriteAttempt
from tideline.iceberg.write.carried_variants import with_carried_variants
from tideline.iceberg.write.fitted_rows import fitted_streams
from tideline.iceberg.write.given_changes import GivenChanges, fields_of
from tideline.iceberg.write.held_rows import held_rows
from tideline.iceberg.write.keyed_rows import KeyedRows, TableKey
from tideline.iceberg.write.merged_rows import MergedRows
from tideline.iceberg.write.row_change import RowChange
from tideline.iceberg.write.write_operation import IcebergOperation
from tideline.iceberg.write.write_request import IcebergWrite, RowCounts, UpsertRules


class ChangeByKey(Protocol):
    """Given rows, from which the change is made for one state of the table after another."""

    def change(self, attempt: WriteAttempt) -> RowChange:
        """Write the files of an attempt. Raises ConflictError where the columns changed since the
        rows were fitted to them, InvalidDataError for rows that do not fit, and what reading and
        writing files raise."""


@dataclass(frozen=True, slots=True)
class KeyedWrite:
    """Rows in the columns `fields` take the places of those with the same key in a table of this
    `schema`; or, where it `deletes`, these go. Picklable."""

    schema: Schema
    key: TableKey
    rules: UpsertRules
    deletes: bool

    @classmethod
    def of(cls, metadata: TableMetadata, write: IcebergWrite) -> KeyedWrite:
        """Raises ConfigError for what is no key, and for rules that name no column."""
        schema = with_carried_variants(metadata).schema()
        key = TableKey.of(schema, write.key)
        fields_of(schema, key, write.rules)
        return cls(schema, key, write.rules, write.operation is IcebergOperation.DELETE)

    @property
    def fields(self) -> tuple[NestedField, ...]:
        """The columns that given rows are fitted to."""
        return self.key.fields if self.deletes else fields_of(self.schema, self.key, self.rules)

    def of_rows(self, names: Sequence[str]) -> list[str]:
        """The columns of given rows that count. Raises InvalidDataError where they lack some of the
        key that is to go: a default is no key that was given."""
        if not self.deletes:
            return list(names)
        lacking = [name for name in self.key.columns if name not in names]
        if lacking:
            raise InvalidDataError("rows lack a column of the key", value=", ".join(lacking))
        return [name for name in names if name in self.key.columns]

    def require_schema(self, metadata: TableMetadata) -> None:
        """Raises ConflictError where the table has other columns."""
        if metadata.schema() != self.schema:
            message = "the columns of the table changed meanwhile: nothing was written, write again"
            raise ConflictError(message, table=metadata.location)


@contextmanager
def held_by_key(streams: Iterable[pa.RecordBatchReader], asked: KeyedWrite) -> Iterator[HeldChange]:
    """Rows of streams, held for as long as this is open. Raises InvalidDataError for rows that do
    not fit, and what reading them raises."""
    fields = asked.fields
    with held_rows(fitted_streams(_counted(streams, asked), fields), arrow_schema(fields)) as held:
        yield HeldChange(asked, GivenChanges.of(held, asked.schema, asked.key, asked.rules))


@dataclass(frozen=True, slots=True)
class HeldChange:
    """See `ChangeByKey`."""

    asked: KeyedWrite
    given: GivenChanges

    def change(self, attempt: WriteAttempt) -> RowChange:
        metadata, given = attempt.metadata, self.given
        self.asked.require_schema(metadata)
        selection = KeyedRows.of(given.keys, metadata)
        if self.asked.deletes:
            attempt.look(selection)
            attempt.take_out()
            return attempt.change(RowCounts(deleted=attempt.selected), selection)
        attempt.look(selection, keeps_rows=attempt.merges_on_read and not given.unavailable)
        merge = MergedRows(attempt.table.io, metadata, given, attempt.passed)
        if attempt.merges_on_read:
            attempt.take_out()
            attempt.files.add(merge.beside(attempt.changed))
        else:
            attempt.files.add(merge.among(attempt.changed))
        return attempt.change(merge.counts, selection)


def _counted(
    streams: Iterable[pa.RecordBatchReader], asked: KeyedWrite
) -> Iterator[pa.RecordBatchReader]:
    for rows in streams:
        names = asked.of_rows(rows.schema.names)
        if names == rows.schema.names:
            yield rows
            continue
        schema = pa.schema([rows.schema.field(name) for name in names])
        batches = (batch.select(names) for batch in rows)
        yield pa.RecordBatchReader.from_batches(schema, batches)
