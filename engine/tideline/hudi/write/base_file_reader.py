"""A stored base file, streamed for rewriting in the shape of the current schema.

1. Columns are matched by name, or where the schema has a history by id; what the file lacks is
   null, what the schema lacks is dropped.
2. Values are cast to the schema's types: widened numbers, two-level lists, other time units.
3. Text that the file holds dictionary encoded stays so, which saves decoding and encoding it.

Batches are sized by bytes, so that wide rows do not fill a worker's memory.
Source: Hudi `HoodieMergeHelper`, `HoodieAvroUtils.rewriteRecordWithNewSchema`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.formats.column_encoding import decoded, is_text
from tideline.formats.parquet_calendar import FileCalendar
from tideline.formats.parquet_footer import (
    BaseFileFooter,
    check_columns,
    is_broken_footer,
    read_footer,
)
from tideline.hudi.table.file_group import BaseFile
from tideline.hudi.table.stored_names import StoredName, StoredNames, renamed_array
from tideline.hudi.table.stored_value import converted_array
from tideline.hudi.write.handle_context import HandleContext
from tideline.hudi.write.meta_columns import COMMIT_SEQNO, COMMIT_TIME, PARTITION_PATH, RECORD_KEY
from tideline.hudi.write.virtual_key import virtual_keys
from tideline.storage.object_store import ObjectStore

KEPT_META_COLUMNS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH)
_BATCH_BYTES = 32 * 1024 * 1024
_BATCH_ROWS_MIN = 64
_BATCH_ROWS_MAX = 262_144
# Text with at most this many encoded bytes per value is worth reading as a dictionary.
_DICTIONARY_BYTES_PER_VALUE_MAX = 2


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """Stored rows and their record keys.

    `rows` has the meta columns but the file name, if the table has any, then the user columns.
    """

    keys: pa.Array
    rows: pa.RecordBatch


@contextmanager
def open_stored_file(
    ctx: HandleContext,
    store: ObjectStore,
    base: BaseFile,
    *,
    meta_columns: Sequence[str] = KEPT_META_COLUMNS,
    keeps_dictionaries: bool = True,
) -> Iterator[StoredFile]:
    """Open a base file to read it. Raises CorruptTableError when it is missing or no parquet file.

    `meta_columns` are those to read, where the table has any. Without `keeps_dictionaries` no
    column comes as an Arrow dictionary.
    """
    try:
        stream = store.open_reader(base.path)
    except ObjectNotFoundError as error:
        raise CorruptTableError(
            "base file is missing", table=ctx.table, instant=base.instant, path=base.path
        ) from error
    with closing(stream):
        source = pa.PythonFile(stream, mode="r")
        try:
            metadata = pq.read_metadata(source)
        except (ValueError, OSError) as error:
            if not is_broken_footer(error):
                raise
            raise CorruptTableError(
                "base file is not a parquet file",
                table=ctx.table,
                instant=base.instant,
                path=base.path,
                value=error,
            ) from error
        check_columns(metadata, path=base.path)
        is_remote = store.local_path(base.path) is None
        read = meta_columns if ctx.populate_meta_fields else ()
        yield StoredFile(ctx, base, source, metadata, is_remote, read, keeps_dictionaries)


class StoredFile:
    """The file inside `open_stored_file`."""

    def __init__(
        self,
        ctx: HandleContext,
        base: BaseFile,
        source: pa.NativeFile,
        metadata: pq.FileMetaData,
        is_remote: bool,
        meta_columns: Sequence[str],
        keeps_dictionaries: bool,
    ) -> None:
        self._ctx = ctx
        self._base = base
        self._metadata = metadata
        self._calendar = FileCalendar.of(metadata)
        self._file = pq.ParquetFile(
            source,
            metadata=metadata,
            read_dictionary=_dictionary_columns(metadata) if keeps_dictionaries else None,
            coerce_int96_timestamp_unit="us",
            # Few large requests instead of one for every column.
            pre_buffer=is_remote,
        )
        self._columns = self._match_columns(meta_columns)

    @property
    def row_count(self) -> int:
        return int(self._metadata.num_rows)

    def footer(self) -> BaseFileFooter:
        """The bloom filter and key range of the file."""
        return read_footer(self._metadata, path=self._base.path)

    def batches(self) -> Iterator[StoredBatch]:
        """All rows in file order. Raises CorruptTableError when the file cannot be read through."""
        for rows in self.row_batches():
            yield StoredBatch(self.keys(rows), rows)

    def row_batches(self) -> Iterator[pa.RecordBatch]:
        """All rows in file order, without looking at their keys. Raises as `batches`."""
        sources = [column.source for column in self._columns if column.source is not None]
        wanted = [column.name for column in self._columns]
        for batch in self._read(sources):
            try:
                arrays = [column.of(batch) for column in self._columns]
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise self._corrupt("base file does not fit the table's types", error) from error
            if arrays:
                yield pa.RecordBatch.from_arrays(arrays, wanted)
            else:
                yield batch

    def key_batches(self) -> Iterator[pa.Array]:
        """The record keys alone, in file order. Only where the table has meta columns."""
        for batch in self._read([RECORD_KEY]):
            yield decoded(batch.column(0))

    def _read(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        try:
            for index in range(self._metadata.num_row_groups):
                for batch in self._file.iter_batches(
                    batch_size=self._batch_rows(index),
                    row_groups=[index],
                    columns=list(names),
                    use_threads=False,
                ):
                    self._calendar.check_all(batch, self._base.path)
                    yield batch
        except (pa.ArrowInvalid, OSError) as error:
            raise self._corrupt("base file cannot be read", error) from error

    def _batch_rows(self, row_group: int) -> int:
        group = self._metadata.row_group(row_group)
        bytes_per_row = max(1, int(group.total_byte_size) // max(1, int(group.num_rows)))
        return min(max(_BATCH_BYTES // bytes_per_row, _BATCH_ROWS_MIN), _BATCH_ROWS_MAX)

    def keys(self, rows: pa.RecordBatch) -> pa.Array:
        """The record keys of rows of this file."""
        if self._ctx.populate_meta_fields:
            return decoded(rows.column(RECORD_KEY))
        return virtual_keys(
            rows,
            self._ctx.virtual_key_fields,
            qualified=self._ctx.virtual_keys_qualified,
        )

    def _match_columns(self, meta_columns: Sequence[str]) -> tuple[_Column, ...]:
        stored = self._file.schema_arrow
        history = self._ctx.history
        names = history.names_at(self._base.instant) if history else None
        folded = {name.casefold(): name for name in reversed(stored.names)}
        columns = []
        missing = [name for name in meta_columns if name not in stored.names]
        if missing:
            raise self._corrupt("base file lacks meta columns", ", ".join(missing))
        columns = [_Column(name, pa.string(), name, _same) for name in meta_columns]
        for field in self._ctx.stored_schema:
            known = StoredName(field.name) if names is None else names.of(field.name)
            name = known.name
            source = name if name is None or name in stored.names else folded.get(name.casefold())
            adapt = (
                _adapter(stored.field(source).type, field.type, known.inner) if source else _same
            )
            columns.append(_Column(field.name, field.type, source, adapt))
        return tuple(columns)

    def _corrupt(self, message: str, value: object) -> CorruptTableError:
        return CorruptTableError(
            message,
            table=self._ctx.table,
            instant=self._base.instant,
            path=self._base.path,
            value=value,
        )


@dataclass(frozen=True, slots=True)
class _Column:
    """One column to give, where it comes from (None: null) and how it gets its type."""

    name: str
    type: pa.DataType
    source: str | None
    adapt: Callable[[pa.Array], pa.Array]

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        if self.source is None:
            return pa.nulls(batch.num_rows, self.type)
        return self.adapt(batch.column(self.source))


def _same(column: pa.Array) -> pa.Array:
    return column


def _adapter(
    stored: pa.DataType, wanted: pa.DataType, names: StoredNames | None
) -> Callable[[pa.Array], pa.Array]:
    if names is not None:
        return lambda column: converted_array(renamed_array(column, names), wanted)
    if stored == wanted or (types.is_dictionary(stored) and stored.value_type == wanted):
        return _same
    return lambda column: converted_array(column, wanted)


def _dictionary_columns(metadata: pq.FileMetaData) -> list[str]:
    """Flat text columns that every row group holds in a small dictionary."""
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    schema = metadata.schema.to_arrow_schema()
    flat = {field.name for field in schema if is_text(field.type)}
    found = []
    for index in range(metadata.num_columns if groups else 0):
        name = metadata.schema.column(index).path
        if name in flat and all(_has_small_dictionary(group.column(index)) for group in groups):
            found.append(name)
    return found


def _has_small_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    return bool(
        chunk.has_dictionary_page
        and chunk.total_uncompressed_size <= _DICTIONARY_BYTES_PER_VALUE_MAX * chunk.num_values
    )
