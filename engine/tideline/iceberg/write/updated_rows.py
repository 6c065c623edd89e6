"""Selected rows of an Iceberg table with new values in some columns.

1. Copy-on-write reads the changed files in all columns, and each row stays where it is.
2. Merge-on-read writes the changed rows alone; those of before are deleted where they lie.

In version 3 a changed row keeps its id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tideline.errors import ConfigError
from tideline.formats.column_changes import with_changes
from tideline.formats.column_choice import no_such_column
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.data.row_lineage import LAST_UPDATED
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.write.changed_files import ChangedFile, RowsReadAgain, read_again
from tideline.iceberg.write.fitted_rows import fitted_rows
from tideline.iceberg.write.row_selection import MatchingRows


@dataclass(frozen=True, slots=True)
class UpdatedRows:
    """New values for the rows of a selection, in one state of the table."""

    io: FileIO
    metadata: TableMetadata
    selection: MatchingRows
    changes: Mapping[str, Any]

    @classmethod
    def of(
        cls, io: FileIO, metadata: TableMetadata, where: Any, changes: Mapping[str, Any]
    ) -> UpdatedRows:
        """Raises ConfigError for what is no condition, for columns that the table does not have or
        that identify a row, and for what is no value of a column."""
        schema = metadata.schema()
        names = [field.name for field in schema.fields]
        key = (schema.name_of(number) or "" for number in schema.identifier_field_ids)
        fixed = {name.partition(".")[0] for name in key}
        for name in changes:
            if name not in names:
                raise no_such_column([name], names)
            if name in fixed:
                message = "a column of the key is not updated: delete and insert"
                raise ConfigError(message, value=name)
        if not changes:
            raise ConfigError("say which columns to set")
        with_changes(_nullable(arrow_schema(schema.fields)).empty_table(), changes)
        return cls(io, metadata, MatchingRows.of(where, metadata), changes)

    def among(self, changed: Iterable[ChangedFile]) -> Iterator[pa.RecordBatch]:
        """The rows of changed files, each in its place. Raises as `changed_files` does, and
        InvalidDataError where a column cannot have a new value."""
        for read in self._read(changed):
            rows, at = read.rows, read.selected
            order = np.arange(rows.num_rows)
            order[at] = rows.num_rows + np.arange(len(at))
            new = self._changed(rows.take(pa.array(at)))
            yield pa.concat_batches([rows, new]).take(pa.array(order))

    def alone(self, changed: Iterable[ChangedFile]) -> Iterator[pa.RecordBatch]:
        """The rows that change. Raises as `among`."""
        for read in self._read(changed):
            yield self._changed(read.rows.take(pa.array(read.selected)))

    def _read(self, changed: Iterable[ChangedFile]) -> Iterator[RowsReadAgain]:
        return read_again(self.io, RowLayout.of(self.metadata), changed)

    def _changed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        fields = self.metadata.schema().fields
        names = [field.name for field in fields]
        given = pa.table(rows.select(names).columns, schema=_nullable(rows.select(names).schema))
        found = with_changes(given, self.changes).combine_chunks()
        (batch,) = found.to_batches() or (pa.RecordBatch.from_pylist([], found.schema),)
        fitted = fitted_rows(batch, fields)
        columns = [
            fitted.column(name) if name in names
            else pa.nulls(len(rows), pa.int64()) if name == LAST_UPDATED.name
            else rows.column(name)
            for name in rows.schema.names
        ]  # fmt: skip
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([item.with_nullable(True) for item in schema])
