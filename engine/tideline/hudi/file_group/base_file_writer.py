"""One base file being written: row groups, the footer with its bloom filter, the size.

1. Batches gather until they fill a row group; the file name column is added to them.
2. A row group of the file that this one replaces may be copied, but for columns whose new values
   are given and the file name.
3. Finishing writes the bloom filter, the key range and the calendar of dates into the footer.

Only one row group of Arrow data is held at a time, and the first keys: the filter of a file with
few rows is made for as many.
Source: Hudi `HoodieParquetWriter`, `HoodieBloomFilterWriteSupport`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

import pyarrow as pa
from pyarrow import types

from tideline.errors import InvalidDataError
from tideline.formats.bloom import BloomFilter
from tideline.formats.parquet_footer import BaseFileFooter
from tideline.hudi.file_group.column_ranges import ranges_of_base_file
from tideline.hudi.file_group.file_settings import ParquetSettings
from tideline.hudi.file_group.handle_context import HandleContext
from tideline.hudi.file_group.meta_columns import constant_column
from tideline.hudi.index.key_range import KeyRange, key_range
from tideline.hudi.table.file_group import join_path
from tideline.hudi.table.meta_column import COMMIT_SEQNO, FILE_NAME
from tideline.hudi.table.schema import META_COLUMNS
from tideline.hudi.timeline.column_range import ColumnRanges
from tideline.parquet.calendar import GREGORIAN_FOOTER
from tideline.parquet.column_encoding import decoded, encoded, without_unused_values
from tideline.parquet.encoding import ParquetEncoding
from tideline.parquet.sink import EncodedSink, ParquetSink, SplicedSink
from tideline.parquet.spliced_file import StoredParquet
from tideline.parquet.stored_footer import StoredRowGroup
from tideline.storage.object_store import ObjectStore

_HELD_BYTES_PER_KEY = 12
"""Twice what a filter takes per key: many files may be open at once."""


@contextmanager
def open_base_file(
    ctx: HandleContext,
    store: ObjectStore,
    partition: str,
    file_id: str,
    source: StoredParquet | None = None,
) -> Iterator[BaseFileWriter]:
    """Write one base file; no object remains when the block fails.

    Row groups of `source` may be copied into it.
    """
    name = ctx.base_file_name(file_id)
    path = join_path(partition, name)
    with store.open_writer(path) as stream:
        writer = BaseFileWriter(ctx, stream, name, path, source)
        try:
            yield writer
            writer.finish()
        except BaseException:
            writer.abandon()
            raise
    writer.measure(store)


class BaseFileWriter:
    """The file inside `open_base_file`.

    Batches have all meta columns but the last, then the user columns in the context's order, or
    only these in a table without meta columns. Text columns may be dictionaries.
    """

    def __init__(
        self,
        ctx: HandleContext,
        stream: BinaryIO,
        name: str,
        path: str,
        source: StoredParquet | None = None,
    ) -> None:
        self.name = name
        self.path = path
        self.rows = 0
        self.size_bytes = 0
        """Length of the file, once finished."""
        self.column_ranges: ColumnRanges | None = None
        """Of the columns that are indexed, once the file is published."""
        self._ctx = ctx
        self._settings = ctx.parquet
        self._fields = file_fields(ctx)
        self._bloom: BloomFilter | None = None
        self._keys: KeyRange | None = None
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self.pending_bytes = 0
        """Arrow bytes held until their row group is written."""
        self._new_keys: list[pa.Array] = []
        self._unfiltered: list[pa.Array] = []
        self._flushed_bytes = 0
        encoding = file_encoding(ctx.parquet)
        self._source = source
        self._copies = None if source is None else SplicedSink(stream, encoding, source)
        self._sink: ParquetSink = self._copies or EncodedSink(stream, encoding)

    @property
    def estimated_bytes(self) -> float:
        """Length of the file if it were finished now, without its footer."""
        return float(self._sink.size_bytes) + self.pending_bytes * self.compression

    @property
    def compression(self) -> float:
        """Bytes in the file per byte of Arrow data; 1 until the first row group is written."""
        return float(self._sink.size_bytes) / self._flushed_bytes if self._flushed_bytes else 1.0

    def add_keys(self, keys: pa.Array) -> None:
        """Add to the footer record keys that are new to the file group."""
        if self._ctx.populate_meta_fields and len(keys):
            self._new_keys.append(keys)

    def continue_footer(self, footer: BaseFileFooter) -> None:
        """Start from the footer of the file this one replaces, before keys are added."""
        if footer.bloom is not None and self._ctx.bloom.is_written:
            self._bloom = footer.bloom
            self._bloom.max_entries = self._ctx.bloom.max_entries
        if footer.min_key is not None and footer.max_key is not None:
            self._keys = KeyRange(footer.min_key, footer.max_key)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows, finishing row groups as they fill. Raises InvalidDataError."""
        if self._ctx.populate_meta_fields:
            batch = _with_file_name(batch, self.name)
        while batch.num_rows:
            part = batch.slice(0, self._row_group_room(batch))
            self._pending.append(part)
            self._pending_rows += part.num_rows
            self.pending_bytes += part.nbytes
            self.rows += part.num_rows
            if (
                self._pending_rows >= self._settings.row_group_rows_max
                or self.pending_bytes >= self._settings.row_group_bytes_max
            ):
                self.flush()
            batch = batch.slice(part.num_rows)

    @property
    def holds_little(self) -> bool:
        """Whether rows are pending that would make a small row group."""
        return self._pending_rows > 0 and self._settings.is_small_row_group(
            self._pending_rows, self.pending_bytes
        )

    def copy(self, group: StoredRowGroup, replacing: Sequence[pa.RecordBatch]) -> None:
        """Append a row group of the source, some columns with new values, whatever is pending
        first.

        `replacing` are batches of all its rows with these columns, the file name not among them;
        without any only the file name is new. Raises InvalidDataError, CorruptTableError.
        """
        assert self._copies is not None and self._source is not None, "the file has a source"
        if self._pending:
            self.flush()
        named = list(replacing)
        if self._ctx.populate_meta_fields:
            names = constant_column(self.name, group.rows)
            named = [_with_file_name(batch, self.name) for batch in named] or [
                pa.RecordBatch.from_arrays([names], [FILE_NAME])
            ]
        table = self._table(named) if named else None
        with self._faults_named():
            self._copies.copy(self._source, group, table)
        self.rows += group.rows

    def finish(self) -> None:
        """Write what is pending and the footer; `size_bytes` is known then."""
        if self._pending or not self.rows:
            self.flush()
        self._absorb_keys()
        entries = dict(GREGORIAN_FOOTER)
        if self._ctx.populate_meta_fields:
            keys = self._keys if self.rows else None
            footer = BaseFileFooter(
                self._finished_bloom(),
                keys.min_key if keys else None,
                keys.max_key if keys else None,
            )
            entries |= footer.to_metadata()
        self._sink.finish(entries)
        self.size_bytes = self._sink.size_bytes

    def measure(self, store: ObjectStore) -> None:
        """Find the ranges of the columns that are indexed, after the file was published."""
        if self._ctx.indexed_columns is not None:
            metadata, columns = self._sink.metadata, self._ctx.indexed_columns
            self.column_ranges = ranges_of_base_file(store, self.path, metadata, columns)

    def abandon(self) -> None:
        """Close the parquet writer, whose file is about to be thrown away, before its stream."""
        self._sink.abandon()

    def _absorb_keys(self) -> None:
        """Put the new keys into the footer, many at a time because each time has its price."""
        keys = pa.chunked_array(self._new_keys, pa.string())
        found = key_range(keys)
        if found is not None:
            self._keys = found.union(self._keys)
            self._filter_keys(keys)
        self._new_keys = []

    def _filter_keys(self, keys: pa.ChunkedArray) -> None:
        """Add to the filter, or hold the keys until it is known how large it has to be."""
        settings = self._ctx.bloom
        if not settings.is_written:
            return
        if self._bloom is None:
            # A copy: keys may be slices of buffers that hold whole batches.
            self._unfiltered.append(pa.concat_arrays([*keys.chunks, pa.array([], pa.string())]))
            held_bytes = sum(keys.nbytes for keys in self._unfiltered)
            if held_bytes >= settings.num_entries * _HELD_BYTES_PER_KEY:
                self._bloom = self._sized_bloom(settings.num_entries)
            elif sum(map(len, self._unfiltered)) >= settings.num_entries:
                self._bloom = self._sized_bloom()
        else:
            self._bloom.add_keys(keys)

    def _sized_bloom(self, keys_min: int = 0) -> BloomFilter:
        """A filter of the keys that were held, made for so many at least."""
        keys = pa.chunked_array(self._unfiltered, pa.string())
        self._unfiltered = []
        settings = self._ctx.bloom
        bloom = BloomFilter.sized(
            max(len(keys), keys_min),
            settings.num_entries,
            settings.error_rate,
            settings.max_entries,
        )
        bloom.add_keys(keys)
        return bloom

    def _finished_bloom(self) -> BloomFilter | None:
        return self._bloom or (self._sized_bloom() if self._ctx.bloom.is_written else None)

    def _row_group_room(self, batch: pa.RecordBatch) -> int:
        bytes_per_row = max(1, int(batch.nbytes) // int(batch.num_rows))
        by_bytes = (self._settings.row_group_bytes_max - self.pending_bytes) // bytes_per_row + 1
        by_rows = self._settings.row_group_rows_max - self._pending_rows
        return min(by_bytes, by_rows, int(batch.num_rows))

    def flush(self) -> None:
        """Write what is pending as a row group. Raises InvalidDataError."""
        table = self._table(self._pending)
        with self._faults_named():
            self._sink.write(table)
        self._absorb_keys()
        self._flushed_bytes += self.pending_bytes
        self._pending, self._pending_rows, self.pending_bytes = [], 0, 0

    @contextmanager
    def _faults_named(self) -> Iterator[None]:
        try:
            yield
        except pa.ArrowInvalid as error:
            raise InvalidDataError(
                "rows cannot be stored as the table's schema says",
                table=self._ctx.table,
                instant=self._ctx.instant,
                path=self.path,
                value=error,
            ) from error

    def _table(self, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        """One row group of batches that all have the same columns, in the file's order."""
        names = set(batches[0].schema.names) if batches else None
        stored = [item for item in self._fields if names is None or item.name in names]
        columns = [
            self._column(field, [batch.column(index) for batch in batches])
            for index, field in enumerate(stored)
        ]
        fields = [
            field.with_type(column.type) for field, column in zip(stored, columns, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))

    def _column(self, field: pa.Field, chunks: list[pa.Array]) -> pa.ChunkedArray:
        """One column of the row group: a dictionary in every row group of the file, or in none."""
        schema = self._sink.schema
        if schema is not None:
            is_encoded = types.is_dictionary(schema.field(field.name).type)
        else:
            is_encoded = any(types.is_dictionary(chunk.type) for chunk in chunks)
        if not is_encoded:
            return pa.chunked_array([decoded(chunk) for chunk in chunks], field.type)
        indexed = pa.dictionary(pa.int32(), field.type)
        return without_unused_values(
            pa.chunked_array([encoded(chunk) for chunk in chunks], indexed)
        )


def _with_file_name(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """Behind the other meta columns."""
    names = constant_column(name, batch.num_rows)
    return batch.add_column(len(META_COLUMNS) - 1, FILE_NAME, names)


def file_encoding(settings: ParquetSettings) -> ParquetEncoding:
    """How base files are encoded."""
    return ParquetEncoding(
        settings.codec,
        page_bytes_max=settings.page_bytes_max,
        uses_dictionaries=settings.uses_dictionaries,
        hides_nan=True,
        leaves_incompressible=True,
        unbounded=frozenset({COMMIT_SEQNO, FILE_NAME}),
    )


def file_fields(ctx: HandleContext) -> list[pa.Field]:
    """The columns of a base file."""
    fields = list(ctx.stored_schema)
    if not ctx.populate_meta_fields:
        return fields
    return [*(pa.field(name, pa.string()) for name in META_COLUMNS), *fields]
