"""A parquet file whose columns are encoded by several threads.

1. The columns of a row group are divided, in their order, into parts of about the same size.
2. Threads encode the parts in memory, each as a file of its own.
3. The pages of all parts are written as one row group.

Memory holds the encoded row group beside its rows. Each row group decides how its columns are
encoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

import pyarrow as pa

from tideline.machine import processors
from tideline.parquet.encoding import ParquetEncoding
from tideline.parquet.sink import (
    CopiesSink,
    EncodedSink,
    ParquetSink,
    encoded_in_memory,
    file_of_copies,
)
from tideline.parquet.spliced_file import StoredParquet

_THREADS_MAX = 4
_PARTS_PER_THREAD = 3
_BYTES_MIN = 8 * 1024 * 1024
"""Of a row group for which threads pay."""


def sink_for(stream: BinaryIO, encoding: ParquetEncoding, first: pa.Table) -> ParquetSink:
    """What writes a file that begins with these rows."""
    threads = min(_THREADS_MAX, processors())
    if threads > 1 and first.num_columns > 1 and first.nbytes >= _BYTES_MIN:
        return ParallelSink(stream, encoding, first.schema, threads=threads)
    return EncodedSink(stream, encoding)


class ParallelSink(CopiesSink):
    """A `ParquetSink` whose row groups are encoded column by column, in threads."""

    def __init__(
        self, stream: BinaryIO, encoding: ParquetEncoding, schema: pa.Schema, *, threads: int
    ) -> None:
        columns = encoded_in_memory(schema.empty_table(), encoding)
        super().__init__(file_of_copies(stream, columns))
        self._encoding = encoding
        self._parts = threads * _PARTS_PER_THREAD
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="columns")

    def write(self, rows: pa.Table) -> None:
        if rows.num_rows:
            parts = self._pool.map(self._encoded, _divided(rows, self._parts))
            self._file.append_columns(tuple(parts))

    def finish(self, entries: Mapping[str, str]) -> None:
        super().finish(entries)
        self._pool.shutdown()

    def abandon(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _encoded(self, columns: pa.Table) -> StoredParquet:
        return encoded_in_memory(columns, self._encoding)


def _divided(rows: pa.Table, parts: int) -> Iterator[pa.Table]:
    """Neighbouring columns, together about as large as the others."""
    share_bytes = rows.nbytes / parts
    numbers: list[int] = []
    size_bytes = 0.0
    for number, column in enumerate(rows.columns):
        numbers.append(number)
        size_bytes += column.nbytes
        if size_bytes >= share_bytes:
            yield rows.select(numbers)
            numbers, size_bytes = [], 0.0
    if numbers:
        yield rows.select(numbers)
