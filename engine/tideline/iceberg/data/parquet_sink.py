"""Where the row groups of one new data file go: encoded by Arrow, or copied from files that exist.

An `EncodedSink` is Arrow's own writer on the file. A `SplicedSink` takes copied row groups too,
compressed anew where they have another codec: each encoded one is made in memory, as a file of its
own, and its bytes follow the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

import tideline
from tideline.formats.column_encoding import dictionary_paths, leaf_columns
from tideline.formats.parquet_bytes.page_transcoder import PageTranscoder
from tideline.formats.parquet_bytes.spliced_file import SplicedFile, StoredParquet
from tideline.formats.parquet_bytes.stored_footer import MAGIC, StoredRowGroup
from tideline.iceberg.data.arrow_schema import arrow_schema, as_stored, stored_schema
from tideline.iceberg.data.copy_rules import stored_codec
from tideline.iceberg.data.file_layout import FileLayout
from tideline.iceberg.metadata.field_type import walk_leaves

SCHEMA_KEY = "iceberg.schema"
_WRITE_BATCH_ROWS = 8192


@dataclass(frozen=True, slots=True)
class CopiedRowGroup:
    """A row group whose values go into a new file as they are encoded.

    `nans` by field id, which no footer has; `size_bytes` about as it will be stored.
    """

    source: StoredParquet
    group: StoredRowGroup
    nans: Mapping[int, int]
    size_bytes: int


class EncodedSink:
    """A file that Arrow writes; `first_rows` decide how columns are encoded."""

    def __init__(
        self, stream: BinaryIO, layout: FileLayout, first_rows: Sequence[pa.RecordBatch]
    ) -> None:
        self._layout = layout
        self._footer: list[Any] = []
        self._stream = pa.PythonFile(stream, mode="w")
        self._writer = _arrow_writer(self._stream, layout, first_rows, self._footer)

    @property
    def size_bytes(self) -> int:
        return int(self._stream.tell())

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        _write_group(self._writer, batches)

    def finish(self) -> Any:
        self._writer.add_key_value_metadata({SCHEMA_KEY: self._layout.schema_json})
        self._writer.close()
        return self._footer[0]

    def abandon(self) -> None:
        with suppress(Exception):
            self._writer.close()


class SplicedSink:
    """A file of copied row groups, and of those that were encoded in memory."""

    def __init__(self, stream: BinaryIO, layout: FileLayout, path: str) -> None:
        settings = layout.parquet
        codec, level = stored_codec(settings), settings.codec_level
        self._layout = layout
        self._path = path
        self._transcoder = PageTranscoder(codec, level)
        self._file = SplicedFile(stream, created_by=f"tideline version {tideline.__version__}")

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes

    def copy(self, copied: CopiedRowGroup) -> None:
        """Raises what reading the source raises, and CorruptTableError."""
        self._file.append(copied.source, copied.group, transcoder=self._transcoder)

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        memory = pa.BufferOutputStream()
        with _arrow_writer(memory, self._layout, batches, []) as writer:
            _write_group(writer, batches)
        encoded = StoredParquet.of_bytes(memoryview(memory.getvalue()), path=self._path)
        for group in encoded.footer.row_groups:
            self._file.append(encoded, group)

    def finish(self) -> Any:
        footer = self._file.finish({SCHEMA_KEY: self._layout.schema_json})
        framed = b"".join((MAGIC, footer, len(footer).to_bytes(4, "little"), MAGIC))
        self._transcoder.close()
        return pq.read_metadata(pa.BufferReader(framed))

    def abandon(self) -> None:
        self._transcoder.close()


def _arrow_writer(
    sink: Any, layout: FileLayout, first_rows: Sequence[pa.RecordBatch], footer: list[Any]
) -> pq.ParquetWriter:
    settings, schema = layout.parquet, stored_schema(layout.fields)
    rows = pa.Table.from_batches(first_rows, schema=arrow_schema(layout.fields))
    return pq.ParquetWriter(
        sink,
        schema,
        compression=settings.codec,
        compression_level=settings.codec_level,
        use_dictionary=dictionary_paths(rows.select(schema.names)),
        data_page_size=settings.page_bytes_max,
        max_rows_per_page=settings.page_rows_max,
        dictionary_pagesize_limit=settings.dictionary_bytes_max,
        write_batch_size=_WRITE_BATCH_ROWS,
        store_schema=False,
        store_decimal_as_integer=True,
        bloom_filter_options=_bloom_filters(layout, schema, rows.num_rows) or None,
        metadata_collector=footer,
    )


def _write_group(writer: pq.ParquetWriter, batches: Sequence[pa.RecordBatch]) -> None:
    stored = [as_stored(batch, writer.schema) for batch in batches]
    rows = pa.Table.from_batches(stored, schema=writer.schema)
    writer.write_table(rows, row_group_size=max(1, rows.num_rows))


def _bloom_filters(
    layout: FileLayout, schema: pa.Schema, rows: int
) -> Mapping[str, Mapping[str, Any]]:
    wanted = layout.parquet.bloom_filters
    if not wanted:
        return {}
    leaves = zip(walk_leaves(layout.fields), leaf_columns(schema), strict=True)
    return {
        path: {
            "ndv": wanted[number].distinct_values or max(1, rows),
            "fpp": wanted[number].false_positives,
        }
        for (number, _, _), (path, kind) in leaves
        if number in wanted and not pa.types.is_boolean(kind)
    }
