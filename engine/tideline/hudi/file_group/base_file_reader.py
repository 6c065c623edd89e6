"""A stored base file, streamed for rewriting in the shape of the current schema.

1. Columns are matched by name, or where the schema has a history by id; what the file lacks is
   null, what the schema lacks is dropped.
2. Values are cast to the schema's types: widened numbers, two-level lists, other time units.
3. Text that the file holds dictionary encoded stays so, where its format has that.

Source: Hudi `HoodieMergeHelper`, `HoodieAvroUtils.rewriteRecordWithNewSchema`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, cast

import pyarrow as pa
from pyarrow import types

from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.formats.base_file import OpenFile, StoredRows, open_sound_rows
from tideline.formats.parquet_footer import BaseFileFooter
from tideline.formats.parquet_rows import ParquetRows
from tideline.formats.row_filter import RowFilter
from tideline.hudi.file_group.bootstrapped_rows import joined_with_source
from tideline.hudi.file_group.handle_context import HandleContext
from tideline.hudi.file_group.held_range import HeldRange
from tideline.hudi.file_group.meta_columns import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    PARTITION_PATH,
    RECORD_KEY,
)
from tideline.hudi.keys.virtual_key import virtual_keys
from tideline.hudi.table.file_group import BaseFile
from tideline.hudi.table.stored_names import StoredName, StoredNames, renamed_array
from tideline.hudi.table.stored_value import converted_array
from tideline.parquet.column_encoding import decoded
from tideline.parquet.spliced_file import StoredParquet
from tideline.storage.object_store import ObjectStore

_HELD_BYTES_MAX = 8 * 1024 * 1024
_SMALL_BYTES_MAX = 1024 * 1024
_Read = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
KEPT_META_COLUMNS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH)


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """Stored rows and their record keys.

    `rows` has the meta columns but the file name, if the table has any, then the user columns. The
    first one is the file's of the number `first_row`.
    """

    keys: pa.Array
    rows: pa.RecordBatch
    first_row: int


@contextmanager
def open_stored_file(
    ctx: HandleContext,
    store: ObjectStore,
    base: BaseFile,
    *,
    meta_columns: Sequence[str] = KEPT_META_COLUMNS,
    keeps_dictionaries: bool = True,
    row_filter: RowFilter | None = None,
    is_read_whole: bool = False,
) -> Iterator[StoredFile]:
    """Open a base file to read it. Raises CorruptTableError when it is missing or not of the format
    that its name says, UnsupportedTableError for a format that is not read.

    `meta_columns` are those to read, where the table has any. Without `keeps_dictionaries` no
    column comes as an Arrow dictionary. Rows that `row_filter` does not select may be left out.
    `is_read_whole`: most of the file will be read.
    """
    try:
        stream = open_bytes(store, base, is_read_whole=is_read_whole)
    except ObjectNotFoundError as error:
        raise CorruptTableError(
            "base file is missing", table=ctx.table, instant=base.instant, path=base.path
        ) from error
    local_path = store.local_path(base.path)
    if is_read_whole and local_path is None and not isinstance(stream, io.BytesIO):
        stream = cast(BinaryIO, HeldRange(stream))
    with closing(stream):
        # The rows of a file in two parts are joined by their positions.
        row_filter = row_filter if base.is_plain else None
        file = OpenFile(stream, base.path, local_path, keeps_dictionaries, row_filter)
        rows = open_sound_rows(
            base.extension, file, role="base file", table=ctx.table, instant=base.instant
        )
        with joined_with_source(store, base, rows) as joined:
            found = meta_columns if ctx.populate_meta_fields else ()
            yield StoredFile(ctx, base, joined, stream, found)


def open_bytes(store: ObjectStore, base: BaseFile, *, is_read_whole: bool = False) -> BinaryIO:
    """The bytes of a base file: a small one, or one that is read whole anyway, in one request.

    Raises ObjectNotFoundError.
    """
    held_bytes_max = _HELD_BYTES_MAX if is_read_whole else _SMALL_BYTES_MAX
    if store.local_path(base.path) is None and 0 < base.size_bytes <= held_bytes_max:
        return io.BytesIO(store.get(base.path))
    return store.open_reader(base.path)


class StoredFile:
    """The file inside `open_stored_file`."""

    def __init__(
        self,
        ctx: HandleContext,
        base: BaseFile,
        rows: StoredRows,
        stream: BinaryIO,
        meta_columns: Sequence[str],
    ) -> None:
        self._ctx = ctx
        self._base = base
        self._rows = rows
        self._stream = stream
        self._columns = self._match_columns(meta_columns)

    @property
    def row_count(self) -> int:
        return self._rows.row_count

    def footer(self) -> BaseFileFooter:
        """The bloom filter and key range of the file."""
        return self._rows.footer()

    def batches(self) -> Iterator[StoredBatch]:
        """All rows in file order. Raises CorruptTableError when the file cannot be read through."""
        first_row = 0
        for rows in self.row_batches():
            yield StoredBatch(self.keys(rows), rows, first_row)
            first_row += rows.num_rows

    def row_batches(self) -> Iterator[pa.RecordBatch]:
        """All rows in file order, without looking at their keys. Raises as `batches`."""
        return self._shaped(self._rows.batches, self._columns)

    @property
    def parquet(self) -> ParquetRows | None:
        """The file's row groups, where these have the table's columns under their names and in
        their types; None of any other file."""
        is_same = all(
            column.source == column.name and column.adapt is _same for column in self._columns
        )
        return self._rows if is_same and isinstance(self._rows, ParquetRows) else None

    def open_bytes(self) -> StoredParquet:
        """The file as it is stored, to be read while no batches are being taken.

        Raises what `StoredParquet.open` raises.
        """
        size_bytes = self._stream.seek(0, io.SEEK_END)
        return StoredParquet.open(self._read_range, size_bytes, path=self._base.path)

    def hold(self, start: int, end: int) -> None:
        """Read bytes that several reads will ask for by one request, where requests count."""
        if isinstance(self._stream, HeldRange):
            self._stream.hold(start, end)

    def group_batches(
        self, number: int, names: Collection[str] | None = None
    ) -> Iterator[StoredBatch]:
        """The rows of one row group of `parquet`, of all columns or some, the keys' among these.

        Raises as `batches`.
        """
        rows = self.parquet
        assert rows is not None, "the file has row groups"
        columns = [column for column in self._columns if names is None or column.name in names]
        before = map(rows.metadata.row_group, range(number))
        first_row = sum(int(group.num_rows) for group in before)
        for batch in self._shaped(partial(rows.group_batches, number), columns):
            yield StoredBatch(self.keys(batch), batch, first_row)
            first_row += batch.num_rows

    def key_batches(self) -> Iterator[pa.Array]:
        """The record keys alone, in file order. Only where the table has meta columns."""
        for batch in self._read(self._rows.batches, [RECORD_KEY]):
            yield decoded(batch.column(RECORD_KEY))

    def _read_range(self, at: int, length: int) -> bytes:
        self._stream.seek(at)
        return self._stream.read(length)

    def _shaped(self, read: _Read, columns: Sequence[_Column]) -> Iterator[pa.RecordBatch]:
        """What is read, in the columns' names and types."""
        sources = [column.source for column in columns if column.source is not None]
        wanted = [column.name for column in columns]
        for batch in self._read(read, sources):
            try:
                arrays = [column.of(batch) for column in columns]
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise self._corrupt("base file does not fit the table's types", error) from error
            if arrays:
                yield pa.RecordBatch.from_arrays(arrays, wanted)
            else:
                yield batch

    def _read(self, read: _Read, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        try:
            yield from read(names)
        except (pa.ArrowInvalid, OSError) as error:
            raise self._corrupt("base file cannot be read", error) from error

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
        stored = self._rows.schema
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
