"""New parquet data files: row groups that stream out, footer, and the metrics for the manifest.

1. Rows gather until they fill a row group; the first one decides how columns are encoded.
2. A file that would grow beyond the size limit is finished and the next one begun. The size of rows
   that still gather is estimated from those written, before that from the rows' sources.

Row groups of other files may be copied into it first. Only one row group is held in memory. A file
that fails leaves no object.
Source: Iceberg's `Parquet.WriteBuilder`, `RollingFileWriter`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from tideline.errors import CorruptTableError
from tideline.iceberg.data.arrow_schema import as_stored, stored_schema
from tideline.iceberg.data.column_metrics import NanCounter, file_metrics
from tideline.iceberg.data.file_layout import FileLayout
from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent
from tideline.iceberg.table.file_io import FileIO
from tideline.parquet.parallel_sink import sink_for
from tideline.parquet.sink import ParquetSink, SplicedSink
from tideline.parquet.spliced_file import StoredParquet
from tideline.parquet.stored_footer import StoredRowGroup

SCHEMA_KEY = "iceberg.schema"


@dataclass(frozen=True, slots=True)
class CopiedRowGroup:
    """A row group whose values go into a new file as they are encoded.

    `nans` by field id, which no footer has; `size_bytes` about as it will be stored.
    """

    source: StoredParquet
    group: StoredRowGroup
    nans: Mapping[int, int]
    size_bytes: int


class DataFileWriter:
    """One new data file; batches have the layout's columns."""

    def __init__(
        self, io: FileIO, uri: str, layout: FileLayout, *, row_bytes: float, size_bytes_max: int
    ) -> None:
        self.uri = uri
        self.rows = 0
        self.pending_bytes = 0
        """Arrow bytes that gather."""
        self._layout = layout
        self._schema = stored_schema(layout.fields)
        self._encoding = layout.encoding
        self._row_bytes = row_bytes
        self._group_bytes_max = min(layout.parquet.row_group_bytes_max, 4 * size_bytes_max)
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._nans = NanCounter(layout.fields, layout.metrics)
        self._io = io
        self._stack = ExitStack()
        self._sink: ParquetSink | None = None

    @property
    def is_open(self) -> bool:
        """Whether the object has been begun: not before the first row group is."""
        return self._sink is not None

    @property
    def size_bytes(self) -> float:
        """The file's length if it were finished now, without its footer."""
        written = 0.0 if self._sink is None else float(self._sink.size_bytes)
        flushed_rows = self.rows - self._pending_rows
        row_bytes = written / flushed_rows if flushed_rows else self._row_bytes
        return written + float(self._pending_rows * row_bytes)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows. Raises CorruptTableError for a null in a required column."""
        self._nans.add(batch)
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self.pending_bytes += batch.nbytes
        self.rows += batch.num_rows
        if self.pending_bytes >= self._group_bytes_max:
            self.flush()

    def flush(self) -> None:
        """Make a row group of what has gathered."""
        batches, self._pending = self._pending, []
        self._pending_rows = self.pending_bytes = 0
        try:
            stored = [as_stored(batch, self._schema) for batch in batches]
            rows = pa.Table.from_batches(stored, schema=self._schema)
            if self._sink is None:
                self._sink = sink_for(self._opened(), self._encoding, rows)
            self._sink.write(rows)
        except pa.ArrowInvalid as error:
            raise CorruptTableError(f"rows cannot be written: {error}", path=self.uri) from error

    def copy(self, copied: CopiedRowGroup) -> None:
        """Take a row group with its values as they are encoded, before any rows are written.

        Raises CorruptTableError, and what reading it raises.
        """
        if self._sink is None:
            self._sink = SplicedSink(self._opened(), self._encoding)
        assert isinstance(self._sink, SplicedSink), "row groups are copied before any is encoded"
        self._sink.copy(copied.source, copied.group)
        self._nans.add_counts(copied.nans)
        self.rows += copied.group.rows

    def finish(self, *, spec_id: int, partition: tuple[Any, ...]) -> DataFile:
        """Write the footer. What the manifest is to say of the file."""
        if self._pending or self._sink is None:
            self.flush()
        assert self._sink is not None
        self._sink.finish({SCHEMA_KEY: self._layout.schema_json})
        size_bytes = self._sink.size_bytes
        layout = self._layout
        metrics = file_metrics(
            self._sink.metadata, layout.fields, layout.metrics, self._nans.counts
        )
        # Closed last: what fails before leaves no object.
        self._stack.close()
        return DataFile(
            content=FileContent.DATA,
            file_path=self.uri,
            file_format="PARQUET",
            spec_id=spec_id,
            partition=partition,
            record_count=self.rows,
            file_size_bytes=size_bytes,
            column_sizes=metrics.column_sizes,
            value_counts=metrics.value_counts,
            null_value_counts=metrics.null_value_counts,
            nan_value_counts=metrics.nan_value_counts,
            lower_bounds=metrics.lower_bounds,
            upper_bounds=metrics.upper_bounds,
            split_offsets=metrics.split_offsets,
            sort_order_id=layout.sort_order_id,
        )

    def abandon(self, error: BaseException) -> None:
        """Give the file up; no object remains."""
        if self._sink is not None:
            self._sink.abandon()
        with suppress(BaseException):
            self._stack.__exit__(type(error), error, error.__traceback__)

    def _opened(self) -> BinaryIO:
        return self._stack.enter_context(self._io.open_writer(self.uri))
