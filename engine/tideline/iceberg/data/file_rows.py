"""The live rows of data files: read by field id, without what delete files delete.

1. Positions: a deletion vector, or else all position delete files of the data file.
2. Equality: for each choice of fields, the values of all delete files with that choice. Fields that
   the table dropped since are read for the comparison alone.
3. Row lineage: a row without an id of its own has the file's first id plus its position, and the
   sequence number of the file.

Delete files are read once for all data files of a task, within bounded memory.
Source: Iceberg's specification, "Scan Planning", "Row Lineage".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.bounded.read_limits import admit
from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.row_filter import RowFilter
from tideline.iceberg.data.arrow_schema import arrow_type
from tideline.iceberg.data.avro_source import AvroSource
from tideline.iceberg.data.bounded_cache import BoundedCache
from tideline.iceberg.data.deletion_vector import BLOB_TYPE, Positions, decode_deletion_vector
from tideline.iceberg.data.nested_column import ColumnPath, only_field
from tideline.iceberg.data.orc_source import OrcSource
from tideline.iceberg.data.parquet_rows import (
    DataSource,
    FilePart,
    ParquetSource,
    PositionedRows,
)
from tideline.iceberg.data.position_deletes import (
    DELETE_FIELDS,
    deleted_rows,
    live_rows,
    merged,
    positions_by_path,
)
from tideline.iceberg.data.puffin import read_blobs
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.data.row_values import ABSENT, RowValues
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.field_type import NestedField
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.table.file_io import FileIO

_ONLY_PARQUET = "only parquet files can be rewritten"
_POSITIONS_BYTES_MAX = 128 * 1024 * 1024
_VALUES_BYTES_MAX = 64 * 1024 * 1024


class FileRows:
    """Reads data files of one table; the delete files it has read serve later ones too.

    `row_filter` says which row groups `batches` may leave out. Files that are not Parquet are read
    if `any_format`: what rewrites files leaves them alone.
    """

    def __init__(
        self,
        io: FileIO,
        layout: RowLayout,
        row_filter: RowFilter | None = None,
        *,
        any_format: bool = False,
    ) -> None:
        self._io = io
        self._any_format = any_format
        self._layout = layout
        self._row_filter = row_filter
        self._positions: BoundedCache[Mapping[str, Positions]] = BoundedCache(_POSITIONS_BYTES_MAX)
        # Data files of every age have deletes of their own, made of mostly the same files.
        self._values: BoundedCache[RowValues] = BoundedCache(_VALUES_BYTES_MAX)
        self._columns: BoundedCache[Sequence[pa.Array]] = BoundedCache(_VALUES_BYTES_MAX)

    def batches(self, task: FileScanTask, part: FilePart | None = None) -> Iterator[pa.RecordBatch]:
        """The live rows of a part of a data file, in the layout's columns.

        Raises CorruptTableError, UnsupportedTableError, ObjectNotFoundError,
        StorageUnavailableError.
        """
        for rows, _ in self.numbered(task, part):
            yield rows

    def numbered(
        self, task: FileScanTask, part: FilePart | None = None
    ) -> Iterator[tuple[pa.RecordBatch, Positions]]:
        """The same with each row's number in the file. Raises what `batches` raises."""
        hidden: list[NestedField] = []
        deletes = self._deletes(task, hidden)
        visible = list(range(len(self._layout.fields)))
        for found in self._source(task.data_file).batches(
            (*self._layout.fields, *hidden), part, self._row_filter
        ):
            live = deletes.live_rows(found)
            rows = self._with_lineage(task, found)
            positions = np.arange(found.first, found.first + rows.num_rows, dtype=np.int64)
            if hidden:
                rows = rows.select(visible)
            if live is not None and not live.all():
                rows, positions = rows.filter(pa.array(live)), positions[live]
            if rows.num_rows:
                yield rows, positions

    def differences(
        self, before: FileScanTask, after: FileScanTask
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """The rows of a data file that only the deletes of `after` delete, and those that only
        these of `before` do. Raises what `batches` raises."""
        hidden: list[NestedField] = []
        deletes = [self._deletes(task, hidden) for task in (before, after)]
        visible = list(range(len(self._layout.fields)))
        for found in self._source(after.data_file).batches((*self._layout.fields, *hidden)):
            count = found.rows.num_rows
            had, has = (
                np.ones(count, np.bool_) if live is None else live
                for live in (item.live_rows(found) for item in deletes)
            )
            rows = self._with_lineage(after, found).select(visible)
            if (had != has).any():
                yield rows.filter(pa.array(had & ~has)), rows.filter(pa.array(has & ~had))

    def deleted_positions(self, task: FileScanTask) -> Positions:
        """The rows of a data file that position deletes delete. Raises what `batches` raises."""
        path = task.data_file.file_path
        if task.deletion_vector is not None:
            return stored_vector(self._io, task.deletion_vector, path)
        found = [self._positions_in(file).get(path) for file in task.position_deletes]
        return merged(positions for positions in found if positions is not None)

    def columns(
        self, file: DataFile, fields: Sequence[NestedField], part: FilePart | None = None
    ) -> Iterator[pa.RecordBatch]:
        """All rows of a part of a data file, or of all of it, deleted ones too, in these columns
        alone."""
        for found in self._source(file).batches(fields, part):
            yield found.rows

    def deleted(self, file: DataFile, fields: Sequence[NestedField]) -> Iterator[pa.RecordBatch]:
        """These columns of the rows that a position delete file keeps."""
        return deleted_rows(self._source(file), fields)

    def _source(self, file: DataFile) -> DataSource:
        if file.key_metadata is not None:
            raise UnsupportedTableError("encrypted files are not read", path=file.file_path)
        mapping, constants = self._layout.mapping, self._layout.constants(file)
        match file.file_format:
            case "PARQUET":
                return ParquetSource(
                    self._io, file.file_path, file.file_size_bytes, mapping, constants
                )
            case "ORC" if self._any_format:
                return OrcSource(self._io, file.file_path, mapping, constants)
            case "AVRO" if self._any_format:
                return AvroSource(self._io, file.file_path, mapping, constants)
        what = "no files of this format are read" if self._any_format else _ONLY_PARQUET
        raise UnsupportedTableError(what, path=file.file_path, value=file.file_format)

    def _with_lineage(self, task: FileScanTask, found: PositionedRows) -> pa.RecordBatch:
        first_id = task.data_file.first_row_id
        if not self._layout.has_lineage or first_id is None:
            return found.rows
        rows, at = found.rows, len(self._layout.schema.fields)
        ids = pa.array(np.arange(rows.num_rows, dtype=np.int64) + (first_id + found.first))
        columns = list(rows.columns)
        columns[at] = pc.coalesce(columns[at], ids)
        columns[at + 1] = pc.fill_null(columns[at + 1], task.sequence_number)
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)

    def _positions_in(self, file: DataFile) -> Mapping[str, Positions]:
        if file.is_deletion_vector:
            raise CorruptTableError("a deletion vector among position deletes", path=file.file_path)

        def load() -> tuple[Mapping[str, Positions], int]:
            rows = self._source(file).batches(DELETE_FIELDS)
            found = positions_by_path((batch.rows for batch in rows), path=file.file_path)
            return found, sum(len(path) + array.nbytes for path, array in found.items())

        return self._positions.get(file.file_path, load)

    def _deletes(self, task: FileScanTask, hidden: list[NestedField]) -> _Deletes:
        """What deletes rows of a data file; columns to read for it beyond the layout's and those
        that are `hidden` already are added to these."""
        by_fields: dict[tuple[int, ...], list[DataFile]] = {}
        for file in task.equality_deletes:
            if not file.equality_ids:
                raise CorruptTableError("equality deletes name no fields", path=file.file_path)
            by_fields.setdefault(tuple(sorted(file.equality_ids)), []).append(file)
        comparisons = []
        for ids, files in by_fields.items():
            columns = [self._compared(number, hidden, files[0]) for number in ids]
            paths = [path for path, _ in columns]
            comparisons.append(_Comparison(paths, self._deleted_values(files, columns)))
        return _Deletes(self.deleted_positions(task), comparisons)

    def _compared(
        self, number: int, hidden: list[NestedField], file: DataFile
    ) -> tuple[ColumnPath, NestedField]:
        """Where rows have a field, and the column that a delete file must have for it."""
        fields = [*self._layout.fields, *hidden]
        path = ColumnPath.find(fields, number)
        if path is not None:
            return path, only_field(fields[path.column], number)
        for schema in self._layout.older_schemas:
            path = ColumnPath.find(schema.fields, number)
            if path is not None:
                column = schema.fields[path.column]
                # Another column may have taken the name since.
                hidden.append(replace(column, name=f"{column.name} ({number})", required=False))
                return replace(path, column=len(fields)), only_field(column, number)
        raise CorruptTableError(
            "equality deletes compare a field no schema has", path=file.file_path, value=number
        )

    def _deleted_values(
        self, files: Sequence[DataFile], columns: Sequence[tuple[ColumnPath, NestedField]]
    ) -> RowValues:
        fields = [field for _, field in columns]
        paths = [replace(path, column=at) for at, (path, _) in enumerate(columns)]

        def load() -> tuple[RowValues, int]:
            parts = [self._deleted_columns(file, fields, paths) for file in files]
            values = RowValues.of(
                [pa.concat_arrays(of_field) for of_field in zip(*parts, strict=True)]
            )
            return values, values.size_bytes

        key = (tuple(paths), *(file.file_path for file in files))
        return self._values.get(key, load)

    def _deleted_columns(
        self, file: DataFile, fields: Sequence[NestedField], paths: Sequence[ColumnPath]
    ) -> Sequence[pa.Array]:
        """What one file of equality deletes has, a column for each compared field."""

        def load() -> tuple[Sequence[pa.Array], int]:
            found = [batch.rows for batch in self._source(file).batches(fields)]
            columns = [
                pa.concat_arrays(
                    [pa.nulls(0, arrow_type(path.type)), *(path.values(rows) for rows in found)]
                )
                for path in paths
            ]
            return columns, sum(column.nbytes for column in columns)

        return self._columns.get((tuple(paths), file.file_path), load)


@dataclass(frozen=True, slots=True)
class _Deletes:
    """The rows of one data file that are deleted."""

    positions: Positions
    comparisons: Sequence[_Comparison]

    def live_rows(self, found: PositionedRows) -> Any | None:
        """Which rows are not, as booleans of numpy; None when all live."""
        live = live_rows(self.positions, found.first, found.rows.num_rows)
        for comparison in self.comparisons:
            others = comparison.live_rows(found.rows)
            live = others if live is None else live & others
        return live


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Some fields of the rows, and the values of them that are deleted."""

    paths: Sequence[ColumnPath]
    values: RowValues

    def live_rows(self, rows: pa.RecordBatch) -> Any:
        return self.values.numbers([path.values(rows) for path in self.paths]) == ABSENT


def stored_vector(io: FileIO, file: DataFile, path: str) -> Positions:
    """The positions in a deletion vector, that of the data file at `path`.

    Raises CorruptTableError, UnsupportedTableError for one above the limits on reading,
    ObjectNotFoundError and StorageUnavailableError.
    """
    offset, length = file.content_offset, file.content_size_bytes
    if offset is None or length is None:
        content = _named_vector(io.read(file.file_path), path, file.file_path)
    else:
        if offset < 0 or length < 0:
            message = "a deletion vector begins before its file, or has no length"
            raise CorruptTableError(message, path=file.file_path, value=(offset, length))
        admit(length, path=file.file_path, what="a deletion vector")
        store, stored = io.place(file.file_path)
        content = store.get_range(stored, offset=offset, length=length)
    return decode_deletion_vector(content, path=file.file_path)


def _named_vector(body: bytes, referenced: str, path: str) -> bytes:
    """The vector of a data file, found through the footer of its Puffin file."""
    for blob in read_blobs(body, path=path):
        if (blob.type, blob.properties.get("referenced-data-file")) == (BLOB_TYPE, referenced):
            return body[blob.offset : blob.offset + blob.length]
    raise CorruptTableError(
        "a Puffin file lacks the vector it should hold", path=path, value=referenced
    )
