"""Rows into new data files: by partition, and another file whenever one is large enough.

All rows of one known partition go straight to its file. Otherwise each batch is cut by partition
and every partition has a file of its own that gathers rows; when they hold too much together, the
fullest becomes a row group, and of too many open files the one used longest ago is finished.

Source: Iceberg's `RollingFileWriter`, `FanoutWriter`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tideline.iceberg.data.data_file_writer import CopiedRowGroup, DataFileWriter
from tideline.iceberg.data.file_layout import FileLayout
from tideline.iceberg.data.partition_values import PartitionSplitter, refuse_unstorable
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.data_locations import DataLocations
from tideline.iceberg.metadata.partition_spec import PartitionSpec, told_apart
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.table.file_io import FileIO

_PENDING_BYTES_MAX = 256 * 1024 * 1024
_OPEN_FILES_MAX = 100
_BATCHES_PER_FILE = 16
_BATCH_ROWS_MIN, _BATCH_ROWS_MAX = 128, 65_536


@dataclass(frozen=True, slots=True)
class Output:
    """Where new files go and how large they grow.

    `partition` is None when the rows are of several. File names are `name_prefix` and a number.
    """

    schema: Schema
    spec: PartitionSpec
    partition: tuple[Any, ...] | None
    locations: DataLocations
    name_prefix: str
    row_bytes: float
    """How much a row takes in the files it comes from."""
    size_bytes_max: int


def write_data_files(
    io: FileIO,
    layout: FileLayout,
    output: Output,
    batches: Iterable[pa.RecordBatch],
    *,
    copies: Iterable[CopiedRowGroup] = (),
) -> tuple[DataFile, ...]:
    """Write all rows, after those of the copies, which are of the known partition.

    When that fails no file remains. Raises what reading the batches and the copies raises, and
    InvalidDataError where a row has a partition value that no manifest can hold.
    """
    writer = _PartitionedWriter(io, layout, output)
    try:
        for copied in copies:
            writer.copy(copied)
        for batch in batches:
            writer.write(batch)
        return writer.finish()
    except BaseException as error:
        writer.abandon(error)
        raise


class _PartitionedWriter:
    def __init__(self, io: FileIO, layout: FileLayout, output: Output) -> None:
        self._io = io
        self._layout = layout
        self._output = output
        self._begun = 0
        self._open: OrderedDict[tuple[Any, ...], DataFileWriter] = OrderedDict()
        self._partitions: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._finished: list[DataFile] = []
        is_known = output.partition is not None
        self._splitter = None if is_known else PartitionSplitter(output.spec, output.schema)
        rows = output.size_bytes_max / max(1.0, output.row_bytes) / _BATCHES_PER_FILE
        self._batch_rows = min(_BATCH_ROWS_MAX, max(_BATCH_ROWS_MIN, int(rows)))

    def write(self, batch: pa.RecordBatch) -> None:
        for partition, rows in self._parts(batch):
            for start in range(0, rows.num_rows, self._batch_rows):
                self._append(partition, rows.slice(start, self._batch_rows))
        if self._splitter is not None:
            self._shed()

    def copy(self, copied: CopiedRowGroup) -> None:
        partition = self._output.partition
        assert partition is not None, "rows that are copied are of a known partition"
        key = told_apart(partition)
        current = self._open.get(key)
        room_bytes = self._output.size_bytes_max - copied.size_bytes
        if current is not None and current.size_bytes > room_bytes:
            self._finish(key)
        if key not in self._open:
            self._open[key] = self._begin(partition)
        self._open[key].copy(copied)

    def finish(self) -> tuple[DataFile, ...]:
        while self._open:
            self._finish(next(iter(self._open)))
        return tuple(self._finished)

    def abandon(self, error: BaseException) -> None:
        for writer in self._open.values():
            writer.abandon(error)
        self._io.remove_written(file.file_path for file in self._finished)

    def _parts(self, batch: pa.RecordBatch) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
        if self._splitter is not None:
            yield from self._splitter.split(batch)
        elif batch.num_rows:
            assert self._output.partition is not None
            yield self._output.partition, batch

    def _append(self, partition: tuple[Any, ...], rows: pa.RecordBatch) -> None:
        key = told_apart(partition)
        if key not in self._open:
            self._open[key] = self._begin(partition)
        self._open.move_to_end(key)
        writer = self._open[key]
        writer.write(rows)
        if writer.size_bytes >= self._output.size_bytes_max:
            self._finish(key)

    def _begin(self, partition: tuple[Any, ...]) -> DataFileWriter:
        output = self._output
        if output.partition is None:
            refuse_unstorable(partition, output.spec, output.schema)
        self._partitions[told_apart(partition)] = partition
        self._begun += 1
        name = f"{output.name_prefix}-{self._begun:05d}.parquet"
        return DataFileWriter(
            self._io,
            output.locations.of_file(name, output.spec, partition, output.schema),
            self._layout,
            row_bytes=output.row_bytes,
            size_bytes_max=output.size_bytes_max,
        )

    def _finish(self, key: tuple[Any, ...]) -> None:
        writer, partition = self._open[key], self._partitions[key]
        spec_id = self._output.spec.spec_id
        self._finished.append(writer.finish(spec_id=spec_id, partition=partition))
        del self._open[key], self._partitions[key]

    def _shed(self) -> None:
        """Keep memory and open files within bounds."""
        pending_bytes = sum(writer.pending_bytes for writer in self._open.values())
        while pending_bytes > _PENDING_BYTES_MAX:
            fullest = max(self._open.values(), key=lambda writer: writer.pending_bytes)
            pending_bytes -= fullest.pending_bytes
            fullest.flush()
        open_files = [key for key, writer in self._open.items() if writer.is_open]
        for partition in open_files[: max(0, len(open_files) - _OPEN_FILES_MAX)]:
            self._finish(partition)
