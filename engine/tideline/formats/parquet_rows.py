"""The rows of a Parquet base file, row group by row group, in batches sized by bytes.

Text that every row group holds in a small dictionary can stay so, which saves decoding and encoding
it where a file is rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.formats.arrow_stream import arrow_stream
from tideline.formats.parquet_footer import BaseFileFooter, check_columns, read_footer
from tideline.formats.row_batches import rows_of_batch
from tideline.formats.row_filter import RowFilter
from tideline.formats.row_group_statistics import known_of, trusted_columns
from tideline.parquet.calendar import FileCalendar
from tideline.parquet.column_encoding import is_text

# Text with at most this many encoded bytes per value is worth reading as a dictionary.
_DICTIONARY_BYTES_PER_VALUE_MAX = 2


class ParquetRows:
    """An open file. Raises what Arrow raises when it is no Parquet file, UnsupportedTableError for
    one of more columns than are read."""

    def __init__(
        self,
        stream: BinaryIO,
        *,
        path: str,
        pre_buffer: bool,
        keeps_dictionaries: bool,
        row_filter: RowFilter | None = None,
    ) -> None:
        source = arrow_stream(stream)
        metadata = pq.read_metadata(source)
        check_columns(metadata, path=path)
        self._path = path
        self._metadata = metadata
        self._row_filter = row_filter
        self._calendar = FileCalendar.of(metadata)
        self._file = pq.ParquetFile(
            source,
            metadata=metadata,
            read_dictionary=_dictionary_columns(metadata) if keeps_dictionaries else None,
            coerce_int96_timestamp_unit="us",
            pre_buffer=pre_buffer,
        )

    @property
    def schema(self) -> pa.Schema:
        return self._file.schema_arrow

    @property
    def row_count(self) -> int:
        return int(self._metadata.num_rows)

    @property
    def metadata(self) -> pq.FileMetaData:
        return self._metadata

    @property
    def is_in_old_calendar(self) -> bool:
        """Whether any value may be another than it looks like."""
        return self._calendar.is_old

    def footer(self) -> BaseFileFooter:
        return read_footer(self._metadata, path=self._path)

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Raises UnsupportedTableError for a value that is another one in the file's calendar."""
        for index in self._row_groups():
            yield from self.group_batches(index, names)

    def group_batches(self, index: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of one row group. Raises as `batches`."""
        group = self._metadata.row_group(index)
        for batch in self._file.iter_batches(
            batch_size=rows_of_batch(int(group.total_byte_size), int(group.num_rows)),
            row_groups=[index],
            columns=list(names),
            use_threads=False,
        ):
            self._calendar.check_all(batch, self._path)
            yield batch

    def _row_groups(self) -> Sequence[int]:
        """Those that may have rows that the filter selects."""
        every = range(self._metadata.num_row_groups)
        if self._row_filter is None:
            return every
        columns = trusted_columns(self._metadata, self._row_filter.schema)
        known = [(n, name) for n, name in columns.items() if name in self._row_filter.columns]
        return [
            index
            for index in every
            if self._row_filter.may_hold(known_of(self._metadata.row_group(index), known))
        ]


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
