"""Parquet files, read row group by row group: the wanted fields and where each row lies.

Bytes come straight from a local folder; from elsewhere a small file comes in one request and a
large one through a seekable stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.errors import CorruptTableError, StorageUnavailableError, UnsupportedTableError
from tideline.formats.arrow_stream import arrow_stream
from tideline.formats.row_filter import RowFilter
from tideline.formats.row_group_statistics import has_trusted_statistics, known_of, whole_columns
from tideline.iceberg.data.arrow_schema import arrow_type, field_id
from tideline.iceberg.data.name_mapping import MappedField, schema_with_ids
from tideline.iceberg.data.projection import Projection
from tideline.iceberg.metadata.field_type import NestedField
from tideline.iceberg.table.file_io import FileIO

_BATCH_BYTES = 32 * 1024 * 1024
_BATCH_ROWS_MAX = 65_536
_BATCH_ROWS_MIN = 256
_WHOLE_FILE_BYTES_MAX = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PositionedRows:
    """Rows that lie next to each other in a file, the first of them being row `first`."""

    rows: pa.RecordBatch
    first: int


class DataSource(Protocol):
    """A file of a table in one of the formats that are read."""

    def batches(
        self,
        wanted: Sequence[NestedField],
        part: FilePart | None = None,
        row_filter: RowFilter | None = None,
    ) -> Iterator[PositionedRows]:
        """The rows of a part of the file, or of all of it; those that a filter does not select may
        be left out."""


class FilePart(Protocol):
    """Some of a file's row groups."""

    def holds(self, number: int, offset: int) -> bool:
        """Whether row group `number`, which begins at `offset`, is one of them."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The part of a file whose row groups one task reads: those that begin in it."""

    start: int
    length: int

    def holds(self, number: int, offset: int) -> bool:  # noqa: ARG002
        return self.start <= offset < self.start + self.length


@dataclass(frozen=True, slots=True)
class RowGroups:
    """The row groups of these numbers."""

    numbers: frozenset[int]

    def holds(self, number: int, offset: int) -> bool:  # noqa: ARG002
        return number in self.numbers


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column of a file by its number, and the table's field that all of it is. Statistics count
    where their order is that of the field's values."""

    number: int
    field: NestedField
    has_trusted_statistics: bool


@dataclass(frozen=True, slots=True)
class ParquetSource:
    """A parquet file of a table; `constants` are its identity partition values by field id."""

    io: FileIO
    uri: str
    size_bytes: int
    mapping: Sequence[MappedField] | None
    constants: Mapping[int, Any]

    def batches(
        self,
        wanted: Sequence[NestedField],
        part: FilePart | None = None,
        row_filter: RowFilter | None = None,
    ) -> Iterator[PositionedRows]:
        """The rows of a part of the file, or of all of it, without row groups whose statistics
        contradict a filter.

        Raises CorruptTableError for a file that is broken, UnsupportedTableError for one without
        field ids in a table without a name mapping, StorageUnavailableError, ObjectNotFoundError.
        """
        with faults_of_file(self.uri):
            source = _source(self.io, self.uri, self.size_bytes)
            # Arrow's threads outlive a reader; they call no Python, which may be about to end.
            uses_threads = not isinstance(source, pa.PythonFile)
            with closing(_parquet(source)) as file:
                yield from self._read(file, wanted, part, row_filter, uses_threads)

    def _read(
        self,
        file: pq.ParquetFile,
        wanted: Sequence[NestedField],
        part: FilePart | None,
        row_filter: RowFilter | None,
        uses_threads: bool,
    ) -> Iterator[PositionedRows]:
        schema = schema_with_ids(file.schema_arrow, self.mapping, path=self.uri)
        projection = Projection.of(schema, wanted, constants=self.constants, path=self.uri)
        names = [schema.field(number).name for number in projection.sources]
        filtered = [
            (column.number, column.field.name)
            for column in stored_columns(file.metadata, schema, wanted)
            if column.has_trusted_statistics
            and row_filter is not None
            and column.field.name in row_filter.columns
        ]
        first = 0
        for number in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(number)
            is_wanted = part is None or part.holds(number, _offset(group))
            if is_wanted and (row_filter is None or row_filter.may_hold(known_of(group, filtered))):
                yield from self._group(file, number, projection, names, first, uses_threads)
            first += group.num_rows

    def _group(
        self,
        file: pq.ParquetFile,
        number: int,
        projection: Projection,
        names: Sequence[str],
        first: int,
        uses_threads: bool,
    ) -> Iterator[PositionedRows]:
        group = file.metadata.row_group(number)
        if not names:
            # All wanted fields are constants: only the number of rows matters.
            for at in range(0, group.num_rows, _BATCH_ROWS_MAX):
                count = min(_BATCH_ROWS_MAX, group.num_rows - at)
                yield PositionedRows(projection.rows({}, count), first + at)
            return
        row_bytes = max(1, group.total_byte_size // max(1, group.num_rows))
        size = min(_BATCH_ROWS_MAX, max(_BATCH_ROWS_MIN, _BATCH_BYTES // row_bytes))
        for batch in file.iter_batches(
            size, row_groups=[number], columns=names, use_threads=uses_threads
        ):
            columns = {
                source: batch.column(name)
                for source, name in zip(projection.sources, names, strict=True)
            }
            yield PositionedRows(projection.rows(columns, batch.num_rows), first)
            first += batch.num_rows


def open_parquet(io: FileIO, uri: str, size_bytes: int) -> pq.ParquetFile:
    """A parquet file of a table, to be closed; what it raises is named by `faults_of_file`."""
    return _parquet(_source(io, uri, size_bytes))


@contextmanager
def faults_of_file(uri: str) -> Iterator[None]:
    """Raises CorruptTableError for a file that is broken, UnsupportedTableError for one that uses
    what Arrow does not read, StorageUnavailableError."""
    try:
        yield
    except MemoryError:
        raise
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedTableError(f"a data file uses {error}", path=uri) from error
    except (pa.ArrowException, OSError) as error:
        # What Arrow itself finds wrong with a file's bytes has no number of the system's.
        if getattr(error, "errno", None) is not None:
            message = f"a data file could not be read: {error}"
            raise StorageUnavailableError(message, path=uri) from error
        raise CorruptTableError(f"a data file is broken: {error}", path=uri) from error


def stored_columns(
    metadata: pq.FileMetaData, schema: pa.Schema, wanted: Iterable[NestedField]
) -> Iterator[StoredColumn]:
    """Where a file, whose schema has field ids, has these fields. Parts of columns are none."""
    numbers = whole_columns(metadata)
    stored = {field_id(column): column for column in schema}
    for field in wanted:
        column = stored.get(field.field_id)
        if column is not None and column.name in numbers:
            is_same = column.type == arrow_type(field.type)
            is_trusted = is_same and has_trusted_statistics(column.type)
            yield StoredColumn(numbers[column.name], field, is_trusted)


def _offset(group: Any) -> int:
    """Where a row group begins, as writers record it in split offsets."""
    first = group.column(0)
    dictionary, data = first.dictionary_page_offset, first.data_page_offset
    return int(data if dictionary is None else min(dictionary, data))


def _source(io: FileIO, uri: str, size_bytes: int) -> Any:
    """The bytes of a file, as Arrow reads them."""
    local = io.local_path(uri)
    if local is not None:
        return pa.OSFile(local)
    is_small = size_bytes <= _WHOLE_FILE_BYTES_MAX
    return pa.BufferReader(io.read(uri)) if is_small else arrow_stream(io.open_reader(uri))


def _parquet(source: Any) -> pq.ParquetFile:
    return pq.ParquetFile(source, coerce_int96_timestamp_unit="us", arrow_extensions_enabled=False)
