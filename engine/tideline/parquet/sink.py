"""Where the row groups of a new parquet file go: encoded by Arrow, or copied from other files.

An `EncodedSink` is Arrow's own writer on the file. A `SplicedSink` also takes row groups of files
that exist, whole, compressed again in another codec, or with some columns encoded again: what it
encodes it makes in memory, as a file of its own, whose pages follow the copied ones.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.distribution import installed_version
from tideline.parquet.column_codecs import codec_options
from tideline.parquet.column_encoding import dictionary_paths, leaf_columns
from tideline.parquet.encoding import ParquetEncoding
from tideline.parquet.held_footer import Chunk, HeldFooter
from tideline.parquet.hidden_nulls import without_hidden_nulls
from tideline.parquet.nan_columns import bounded_leaves, leaves_with_nan
from tideline.parquet.page_transcoder import PageTranscoder
from tideline.parquet.spliced_file import SplicedFile, StoredParquet
from tideline.parquet.stored_footer import MAGIC, StoredRowGroup, file_tail

_WRITE_BATCH_ROWS = 8192


class ParquetSink(Protocol):
    """One parquet file that is being written."""

    @property
    def size_bytes(self) -> int:
        """How long it is so far."""

    @property
    def schema(self) -> pa.Schema | None:
        """That every row group must have, dictionaries included; None where each has its own."""

    def write(self, rows: pa.Table) -> None:
        """Encode a row group; one without rows is left out. Raises pyarrow.ArrowInvalid."""

    def finish(self, entries: Mapping[str, str]) -> None:
        """Write the footer with these key-value pairs, after at least one call of `write`."""

    @property
    def metadata(self) -> pq.FileMetaData:
        """Of the finished file."""

    def abandon(self) -> None:
        """Let go of what is unfinished."""


class EncodedSink:
    """A file that Arrow writes; the first row group decides how columns are encoded."""

    def __init__(self, stream: BinaryIO, encoding: ParquetEncoding) -> None:
        self._encoding = encoding
        self._footer = HeldFooter(stream)
        self._stream = pa.PythonFile(self._footer, mode="w")
        self._writer: pq.ParquetWriter | None = None
        self._row_groups = 0
        self._with_nan: list[Chunk] = []
        self._closed_with: list[pq.FileMetaData] = []
        self._written_footer = b""

    @property
    def size_bytes(self) -> int:
        return self._footer.size_bytes

    @property
    def schema(self) -> pa.Schema | None:
        return None if self._writer is None else self._writer.schema

    @property
    def metadata(self) -> pq.FileMetaData:
        if not self._with_nan:
            return self._closed_with[0]
        return pq.read_metadata(pa.BufferReader(MAGIC + self._written_footer))

    def write(self, rows: pa.Table) -> None:
        if self._writer is None:
            self._writer = _arrow_writer(self._stream, self._encoding, rows, self._closed_with)
        if rows.num_rows:
            self._writer.write_table(without_hidden_nulls(rows), row_group_size=rows.num_rows)
            if self._encoding.hides_nan:
                self._with_nan += [(self._row_groups, leaf) for leaf in leaves_with_nan(rows)]
            self._row_groups += 1

    def finish(self, entries: Mapping[str, str]) -> None:
        assert self._writer is not None, "a row group was written, if an empty one"
        self._writer.add_key_value_metadata(dict(entries))
        self._footer.hold()
        self._writer.close()
        self._written_footer = self._footer.release(self._with_nan, self._encoding.variants)

    def abandon(self) -> None:
        if self._writer is not None:
            with suppress(Exception):
                self._writer.close()


class CopiesSink:
    """A file that takes what other files have encoded: what sinks of such files have in common."""

    def __init__(self, file: SplicedFile) -> None:
        self._file = file
        self._footer = b""

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes

    @property
    def schema(self) -> pa.Schema | None:
        return None

    @property
    def metadata(self) -> pq.FileMetaData:
        footer = MAGIC + self._footer + file_tail(self._footer)
        return pq.read_metadata(pa.BufferReader(footer))

    def finish(self, entries: Mapping[str, str]) -> None:
        self._footer = self._file.finish(entries)


class SplicedSink(CopiesSink):
    """A file of copied row groups, and of those that were encoded in memory.

    `columns_of` is the file whose columns a copy may replace one by one; page indexes, which such a
    copy would break, are then left out.
    """

    def __init__(
        self, stream: BinaryIO, encoding: ParquetEncoding, columns_of: StoredParquet | None = None
    ) -> None:
        super().__init__(file_of_copies(stream, columns_of, keeps_indexes=columns_of is None))
        self._encoding = encoding
        self._transcoder = PageTranscoder(encoding.codec.stored, encoding.codec_level)

    def write(self, rows: pa.Table) -> None:
        if rows.num_rows:
            encoded = encoded_in_memory(rows, self._encoding)
            for group in encoded.footer.row_groups:
                self._file.append(encoded, group)

    def copy(
        self, source: StoredParquet, group: StoredRowGroup, replacing: pa.Table | None = None
    ) -> None:
        """Copy a row group, but the columns that `replacing` has.

        Raises pyarrow.ArrowInvalid, CorruptTableError and what reading the source raises.
        """
        encoded = None if replacing is None else encoded_in_memory(replacing, self._encoding)
        self._file.append(source, group, encoded, transcoder=self._transcoder)

    def finish(self, entries: Mapping[str, str]) -> None:
        super().finish(entries)
        self._transcoder.close()

    def abandon(self) -> None:
        self._transcoder.close()


def file_of_copies(
    stream: BinaryIO, columns_of: StoredParquet | None, *, keeps_indexes: bool = True
) -> SplicedFile:
    """A new file of ours that takes what other files have encoded; see `SplicedFile`."""
    created_by = f"tideline version {installed_version()}"
    return SplicedFile(
        stream, created_by=created_by, columns_of=columns_of, keeps_indexes=keeps_indexes
    )


def encoded_in_memory(rows: pa.Table, encoding: ParquetEncoding) -> StoredParquet:
    """A file with these rows in one row group, in none if there are no rows."""
    memory = io.BytesIO()
    sink = EncodedSink(memory, encoding)
    sink.write(rows)
    sink.finish({})
    return StoredParquet.of_bytes(memory.getbuffer(), path="memory")


def _arrow_writer(
    stream: Any, encoding: ParquetEncoding, first: pa.Table, footer: list[pq.FileMetaData]
) -> pq.ParquetWriter:
    """Of a file that begins with these rows; `footer` gets what it closes with."""
    dictionaries = dictionary_paths(first) if encoding.uses_dictionaries else []
    return pq.ParquetWriter(
        stream,
        first.schema,
        **codec_options(first, encoding, dictionaries),
        use_dictionary=dictionaries,
        data_page_size=encoding.page_bytes_max,
        max_rows_per_page=encoding.page_rows_max,
        dictionary_pagesize_limit=encoding.dictionary_bytes_max,
        write_statistics=_with_statistics(encoding, first.schema),
        write_batch_size=_WRITE_BATCH_ROWS,
        store_schema=False,
        store_decimal_as_integer=encoding.decimals_as_integers,
        bloom_filter_options=_bloom_filters(encoding, first) or None,
        metadata_collector=footer,
    )


def _with_statistics(encoding: ParquetEncoding, schema: pa.Schema) -> list[str] | bool:
    if not encoding.hides_nan:
        return True
    return [path for path in bounded_leaves(schema) if path not in encoding.unbounded]


def _bloom_filters(encoding: ParquetEncoding, first: pa.Table) -> dict[str, dict[str, Any]]:
    wanted = encoding.bloom_filters
    return {
        path: {
            "ndv": wanted[path].distinct_values or max(1, first.num_rows),
            "fpp": wanted[path].false_positives,
        }
        for path, kind in leaf_columns(first.schema)
        if path in wanted and not pa.types.is_boolean(kind)
    }
