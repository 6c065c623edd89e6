"""New position delete files of one partition (format version 2), sorted by path and position.

A file ends when it has the wanted size; with `write.delete.granularity` = `file` also where another
data file begins.

Source: Iceberg's specification, "Position Delete Files".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.data_file_writer import DataFileWriter
from tideline.iceberg.data.deletion_vector import Positions
from tideline.iceberg.data.file_layout import FileLayout
from tideline.iceberg.data.metrics_mode import FULL, MetricsConfig
from tideline.iceberg.data.parquet_settings import ParquetSettings
from tideline.iceberg.data.position_deletes import DELETE_FIELDS, FILE_PATH
from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent
from tideline.iceberg.metadata.data_locations import DataLocations
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO

GRANULARITY_PROPERTY = "write.delete.granularity"

_BATCH_ROWS = 8192


@dataclass(slots=True)
class PositionDeleteWriter:
    """The delete files of a partition, each finished before the next; `row_bytes` is about what a
    position takes."""

    io: FileIO
    metadata: TableMetadata
    spec_id: int
    partition: tuple[Any, ...]
    size_bytes_max: int
    row_bytes: float
    by_file: bool
    new_uuid: Callable[[], uuid.UUID] = field(default=uuid.uuid4)
    _writer: DataFileWriter | None = None
    _first: str = ""
    _last: str = ""

    def add(self, path: str, positions: Positions) -> Iterator[DataFile]:
        """Write the positions of a data file, whose path comes after those before it; yields files
        that are finished by that."""
        if self.by_file:
            yield from self.finish()
        for start in range(0, len(positions), _BATCH_ROWS):
            part = positions[start : start + _BATCH_ROWS]
            if self._writer is None:
                self._writer = self._begin()
                self._first = path
            self._last = path
            paths = pa.DictionaryArray.from_arrays(
                np.zeros(len(part), np.int8), pa.array([path], pa.string())
            )
            rows = [paths.cast(pa.string()), pa.array(part, pa.int64())]
            schema = arrow_schema(DELETE_FIELDS)
            self._writer.write(pa.RecordBatch.from_arrays(rows, schema=schema))
            if self._writer.size_bytes >= self.size_bytes_max:
                yield from self.finish()

    def finish(self) -> Iterator[DataFile]:
        """End the file that is being written, if any."""
        if self._writer is None:
            return
        file = self._writer.finish(spec_id=self.spec_id, partition=self.partition)
        self._writer = None
        # Whole paths, regardless of the footer: readers rely on bounds that are equal.
        yield replace(
            file,
            content=FileContent.POSITION_DELETES,
            sort_order_id=None,
            referenced_data_file=self._first if self._first == self._last else None,
            lower_bounds={**(file.lower_bounds or {}), FILE_PATH.field_id: self._first.encode()},
            upper_bounds={**(file.upper_bounds or {}), FILE_PATH.field_id: self._last.encode()},
        )

    def abandon(self, error: BaseException) -> None:
        """Leave no unfinished file behind."""
        if self._writer is not None:
            self._writer.abandon(error)

    def _begin(self) -> DataFileWriter:
        spec = self.metadata.spec(self.spec_id)
        name = f"{self.new_uuid()}-deletes.parquet"
        # Bloom filters are for the table's own columns.
        settings = ParquetSettings.of(self.metadata.properties, Schema(0, ()))
        schema = self.metadata.partition_schema(spec)
        return DataFileWriter(
            self.io,
            DataLocations.of(self.metadata).of_file(name, spec, self.partition, schema),
            FileLayout(0, DELETE_FIELDS, settings, MetricsConfig(FULL, {}), 0),
            row_bytes=self.row_bytes,
            size_bytes_max=self.size_bytes_max,
        )
