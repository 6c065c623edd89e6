"""New parquet data files: row groups that stream out, footer, and the metrics for the manifest.

1. Rows gather until they fill a row group; the first one decides how columns are encoded.
2. A file that would grow beyond the size limit is finished and the next one begun. The size of rows
   that still gather is estimated from those written, before that from the rows' sources.

Only one row group is held in memory. A file that fails leaves no object.
Source: Iceberg's `Parquet.WriteBuilder`, `RollingFileWriter`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.errors import CorruptTableError
from tideline.formats.column_encoding import dictionary_paths, leaf_columns
from tideline.iceberg.data.arrow_schema import (
    arrow_schema,
    as_stored,
    stored_schema,
    walk_leaves,
)
from tideline.iceberg.data.column_metrics import NanCounter, file_metrics
from tideline.iceberg.data.metrics_mode import MetricsConfig
from tideline.iceberg.data.parquet_settings import ParquetSettings
from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent
from tideline.iceberg.metadata.field_type import NestedField
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.table.file_io import FileIO

SCHEMA_KEY = "iceberg.schema"
_WRITE_BATCH_ROWS = 8192


@dataclass(frozen=True, slots=True)
class FileLayout:
    """What all new files of a table have in common; picklable."""

    schema_id: int
    fields: tuple[NestedField, ...]
    parquet: ParquetSettings
    metrics: MetricsConfig
    sort_order_id: int

    @property
    def schema_json(self) -> str:
        """What readers of Iceberg's own find in the footer."""
        return json.dumps(Schema(self.schema_id, self.fields).json(), separators=(",", ":"))


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
        self._row_bytes = row_bytes
        self._group_bytes_max = min(layout.parquet.row_group_bytes_max, 4 * size_bytes_max)
        self._pending: list[pa.RecordBatch] = []
        self._nans = NanCounter(layout.fields, layout.metrics)
        self._io = io
        self._stack = ExitStack()
        self._sink: pa.PythonFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._footer: list[Any] = []

    @property
    def is_open(self) -> bool:
        """Whether the object has been begun: not before the first row group is."""
        return self._sink is not None

    @property
    def size_bytes(self) -> float:
        """The file's length if it were finished now, without its footer."""
        written = 0.0 if self._sink is None else float(self._sink.tell())
        pending_rows = sum(batch.num_rows for batch in self._pending)
        flushed_rows = self.rows - pending_rows
        row_bytes = written / flushed_rows if flushed_rows else self._row_bytes
        return written + float(pending_rows * row_bytes)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows. Raises CorruptTableError for a null in a required column."""
        self._nans.add(batch)
        self._pending.append(batch)
        self.pending_bytes += batch.nbytes
        self.rows += batch.num_rows
        if self.pending_bytes >= self._group_bytes_max:
            self.flush()

    def flush(self) -> None:
        """Make a row group of what has gathered."""
        batches, self._pending, self.pending_bytes = self._pending, [], 0
        if self._writer is None:
            self._writer = self._open(batches)
        stored = [as_stored(batch, self._schema) for batch in batches]
        table = pa.Table.from_batches(stored, schema=self._schema)
        try:
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        except pa.ArrowInvalid as error:
            raise CorruptTableError(f"rows cannot be written: {error}", path=self.uri) from error

    def finish(self, *, spec_id: int, partition: tuple[Any, ...]) -> DataFile:
        """Write the footer. What the manifest is to say of the file."""
        if self._pending or self._writer is None:
            self.flush()
        assert self._writer is not None and self._sink is not None
        self._writer.add_key_value_metadata({SCHEMA_KEY: self._layout.schema_json})
        self._writer.close()
        size_bytes = int(self._sink.tell())
        self._stack.close()
        layout = self._layout
        metrics = file_metrics(self._footer[0], layout.fields, layout.metrics, self._nans.counts)
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
        if self._writer is not None:
            with suppress(Exception):
                self._writer.close()
        with suppress(BaseException):
            self._stack.__exit__(type(error), error, error.__traceback__)

    def _open(self, first_group: Sequence[pa.RecordBatch]) -> pq.ParquetWriter:
        settings = self._layout.parquet
        rows = pa.Table.from_batches(first_group, schema=arrow_schema(self._layout.fields))
        self._sink = pa.PythonFile(
            self._stack.enter_context(self._io.open_writer(self.uri)), mode="w"
        )
        return pq.ParquetWriter(
            self._sink,
            self._schema,
            compression=settings.codec,
            compression_level=settings.codec_level,
            use_dictionary=dictionary_paths(rows.select(self._schema.names)),
            data_page_size=settings.page_bytes_max,
            max_rows_per_page=settings.page_rows_max,
            dictionary_pagesize_limit=settings.dictionary_bytes_max,
            write_batch_size=_WRITE_BATCH_ROWS,
            store_schema=False,
            store_decimal_as_integer=True,
            bloom_filter_options=self._bloom_filters(rows.num_rows) or None,
            metadata_collector=self._footer,
        )

    def _bloom_filters(self, rows: int) -> Mapping[str, Mapping[str, Any]]:
        wanted = self._layout.parquet.bloom_filters
        if not wanted:
            return {}
        leaves = zip(walk_leaves(self._layout.fields), leaf_columns(self._schema), strict=True)
        return {
            path: {
                "ndv": wanted[number].distinct_values or max(1, rows),
                "fpp": wanted[number].false_positives,
            }
            for (number, _, _), (path, kind) in leaves
            if number in wanted and not pa.types.is_boolean(kind)
        }
