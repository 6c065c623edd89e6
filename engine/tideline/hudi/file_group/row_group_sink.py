"""Where the row groups of a new base file go: encoded by Arrow, or copied from the one before it.

An `EncodedSink` is Arrow's own writer on the file. A `SplicedSink` also takes row groups of the
file that this one replaces, whole or with some columns anew: what it encodes it makes in memory, as
a file of its own, whose pages are put between the copied ones.

A row group with NaN in a column has no bounds of it (`held_footer`).
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import suppress
from typing import BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

import tideline
from tideline.formats.column_encoding import dictionary_paths
from tideline.formats.nan_columns import bounded_leaves, leaves_with_nan
from tideline.formats.parquet_bytes.held_footer import Chunk, HeldFooter
from tideline.formats.parquet_bytes.spliced_file import SplicedFile, StoredParquet
from tideline.formats.parquet_bytes.stored_footer import StoredRowGroup
from tideline.hudi.file_group.file_settings import ParquetSettings
from tideline.hudi.file_group.meta_columns import COMMIT_SEQNO, FILE_NAME, PARTITION_PATH

_WITHOUT_STATISTICS = frozenset({COMMIT_SEQNO, PARTITION_PATH, FILE_NAME})
_WRITE_BATCH_ROWS = 8192


class RowGroupSink(Protocol):
    """One base file that is being written."""

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

    def abandon(self) -> None:
        """Let go of what is unfinished."""


class EncodedSink:
    """A file that Arrow writes; the first row group decides how columns are encoded."""

    def __init__(self, stream: BinaryIO, settings: ParquetSettings) -> None:
        self._settings = settings
        self._footer = HeldFooter(stream)
        self._stream = pa.PythonFile(self._footer, mode="w")
        self._writer: pq.ParquetWriter | None = None
        self._row_groups = 0
        self._with_nan: list[Chunk] = []

    @property
    def size_bytes(self) -> int:
        return self._footer.size_bytes

    @property
    def schema(self) -> pa.Schema | None:
        return None if self._writer is None else self._writer.schema

    def write(self, rows: pa.Table) -> None:
        if self._writer is None:
            self._writer = self._open(rows)
        if rows.num_rows:
            self._writer.write_table(rows, row_group_size=rows.num_rows)
            self._with_nan += [(self._row_groups, leaf) for leaf in leaves_with_nan(rows)]
            self._row_groups += 1

    def finish(self, entries: Mapping[str, str]) -> None:
        assert self._writer is not None, "a row group was written, if an empty one"
        self._writer.add_key_value_metadata(dict(entries))
        self._footer.hold()
        self._writer.close()
        self._footer.release(self._with_nan)

    def abandon(self) -> None:
        if self._writer is not None:
            with suppress(Exception):
                self._writer.close()

    def _open(self, rows: pa.Table) -> pq.ParquetWriter:
        settings = self._settings
        return pq.ParquetWriter(
            self._stream,
            rows.schema,
            compression=settings.codec.arrow_name,
            use_dictionary=dictionary_paths(rows) if settings.uses_dictionaries else False,
            data_page_size=settings.page_bytes_max,
            write_statistics=[
                path for path in bounded_leaves(rows.schema) if path not in _WITHOUT_STATISTICS
            ],
            store_schema=False,
            write_batch_size=_WRITE_BATCH_ROWS,
        )


class SplicedSink:
    """A file of row groups of `source`, and of those that were encoded in memory."""

    def __init__(self, stream: BinaryIO, settings: ParquetSettings, source: StoredParquet) -> None:
        self._settings = settings
        self._source = source
        self._file = SplicedFile(
            stream,
            created_by=f"tideline version {tideline.__version__}",
            columns_of=source,
            keeps_indexes=False,
        )

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes

    @property
    def schema(self) -> pa.Schema | None:
        return None

    def write(self, rows: pa.Table) -> None:
        if rows.num_rows:
            encoded = encoded_in_memory(rows, self._settings)
            for group in encoded.footer.row_groups:
                self._file.append(encoded, group)

    def copy(self, group: StoredRowGroup, replacing: pa.Table | None) -> None:
        """Copy a row group of the source, but the columns that `replacing` has.

        Raises pyarrow.ArrowInvalid, CorruptTableError and what reading the source raises.
        """
        encoded = None if replacing is None else encoded_in_memory(replacing, self._settings)
        self._file.append(self._source, group, encoded)

    def finish(self, entries: Mapping[str, str]) -> None:
        self._file.finish(entries)

    def abandon(self) -> None:
        pass


def encoded_in_memory(rows: pa.Table, settings: ParquetSettings) -> StoredParquet:
    """A file with these rows in one row group, encoded as in a base file."""
    memory = io.BytesIO()
    sink = EncodedSink(memory, settings)
    sink.write(rows)
    sink.finish({})
    return StoredParquet.of_bytes(memory.getbuffer(), path="memory")
