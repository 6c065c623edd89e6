"""One group of position delete files rewritten, sorted by path and position.

1. A deleted position is kept when its data file belongs to the table, in this partition, and is no
   younger than the delete file: otherwise it deletes nothing, and must not begin to when it comes
   under the higher sequence number of its group.
2. Positions that several files delete are written once.
3. Paths are taken in order, so many at a time as have a bounded number of positions; with more than
   that, a first pass counts positions by path, and each further pass reads those of its paths.
4. A file ends when it has the wanted size; with `write.delete.granularity` = `file` also where
   another data file begins.

Source: Iceberg's specification, "Position Delete Files"; `SparkRewritePositionDeleteRunner`.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.data_file_writer import DataFileWriter
from tideline.iceberg.data.deletion_vector import Positions
from tideline.iceberg.data.file_layout import FileLayout
from tideline.iceberg.data.metrics_mode import FULL, MetricsConfig
from tideline.iceberg.data.parquet_rows import ParquetSource
from tideline.iceberg.data.parquet_settings import ParquetSettings
from tideline.iceberg.data.position_deletes import (
    DELETE_FIELDS,
    FILE_PATH,
    merged,
    positions_by_path,
)
from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent, ManifestEntry
from tideline.iceberg.metadata.data_locations import DataLocations
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.services.rewrite_position_deletes.plan import DeleteGroup
from tideline.iceberg.table.clean_up import remove_quietly
from tideline.iceberg.table.file_io import FileIO

GRANULARITY_PROPERTY = "write.delete.granularity"
POSITIONS_MAX = 8_000_000
"""Positions that are held at once."""

_BATCH_ROWS = 8192


@dataclass(slots=True)
class DeleteGroupRewrite:
    """Writes groups of one table; `live` has sequence numbers of data files by path."""

    io: FileIO
    metadata: TableMetadata
    group: DeleteGroup
    live: Mapping[str, int]
    size_bytes_max: int
    positions_max: int = POSITIONS_MAX
    positions_kept: int = 0
    new_uuid: Callable[[], uuid.UUID] = field(default=uuid.uuid4)

    def write(self) -> tuple[DataFile, ...]:
        """The new delete files, none when no position is left.

        Raises CorruptTableError, ObjectNotFoundError and StorageUnavailableError; then no new file
        remains.
        """
        written: list[DataFile] = []
        out = _Output(self)
        try:
            for paths in self._portions():
                for path, positions in self._positions(paths):
                    self.positions_kept += len(positions)
                    written += out.add(path, positions)
            written += out.finish()
        except BaseException as error:
            out.abandon(error)
            remove_quietly(self.io, (file.file_path for file in written))
            raise
        return tuple(written)

    def _applies(self, entry: ManifestEntry, path: str) -> bool:
        number = self.live.get(path)
        return number is not None and number <= (entry.sequence_number or 0)

    def _portions(self) -> Iterator[Sequence[str] | None]:
        """Paths to take together; None for all of them."""
        total = sum(entry.data_file.record_count for entry in self.group.entries)
        if total <= self.positions_max:
            yield None
            return
        counts: Counter[str] = Counter()
        for entry in self.group.entries:
            for batch in self._source(entry).batches((FILE_PATH,)):
                found = pc.value_counts(batch.rows.column(0))
                paths, numbers = found.field("values"), found.field("counts")
                for path, number in zip(paths.to_pylist(), numbers.to_pylist(), strict=True):
                    if self._applies(entry, path):
                        counts[path] += number
        portion: list[str] = []
        size = 0
        for path in sorted(counts):
            if portion and size + counts[path] > self.positions_max:
                yield portion
                portion, size = [], 0
            portion.append(path)
            size += counts[path]
        if portion:
            yield portion

    def _positions(self, paths: Sequence[str] | None) -> Iterator[tuple[str, Positions]]:
        found: dict[str, list[Positions]] = {}
        wanted = None if paths is None else pa.array(paths, pa.string())
        for entry in self.group.entries:
            batches = (batch.rows for batch in self._source(entry).batches(DELETE_FIELDS))
            if wanted is not None:
                batches = (
                    rows.filter(pc.is_in(rows.column(0), value_set=wanted)) for rows in batches
                )
            by_path = positions_by_path(batches, path=entry.data_file.file_path)
            for path, positions in by_path.items():
                if self._applies(entry, path):
                    found.setdefault(path, []).append(positions)
        for path in sorted(found):
            yield path, merged(found.pop(path))

    def _source(self, entry: ManifestEntry) -> ParquetSource:
        file = entry.data_file
        return ParquetSource(self.io, file.file_path, file.file_size_bytes, None, {})


class _Output:
    """The delete files of a group, one after another."""

    def __init__(self, rewrite: DeleteGroupRewrite) -> None:
        metadata, group = rewrite.metadata, rewrite.group
        self._rewrite = rewrite
        self._spec = metadata.spec(group.spec_id)
        self._locations = DataLocations.of(metadata)
        # Bloom filters are for the table's own columns.
        settings = ParquetSettings.of(metadata.properties, Schema(0, ()))
        config = MetricsConfig(FULL, {})
        self._layout = FileLayout(0, DELETE_FIELDS, settings, config, 0)
        self._by_file = metadata.properties.get(GRANULARITY_PROPERTY, "").lower() == "file"
        self._writer: DataFileWriter | None = None
        self._first = self._last = ""
        count = sum(entry.data_file.record_count for entry in group.entries)
        self._row_bytes = group.input_bytes / max(1, count)

    def add(self, path: str, positions: Positions) -> Iterator[DataFile]:
        """Write the positions of a data file; yields files that are finished by that."""
        if self._by_file:
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
            if self._writer.size_bytes >= self._rewrite.size_bytes_max:
                yield from self.finish()

    def finish(self) -> Iterator[DataFile]:
        """End the file that is being written, if any."""
        if self._writer is None:
            return
        group = self._rewrite.group
        file = self._writer.finish(spec_id=group.spec_id, partition=group.partition)
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
        rewrite = self._rewrite
        name = f"{rewrite.new_uuid()}-deletes.parquet"
        schema = rewrite.metadata.partition_schema(self._spec)
        return DataFileWriter(
            rewrite.io,
            self._locations.of_file(name, self._spec, rewrite.group.partition, schema),
            self._layout,
            row_bytes=self._row_bytes,
            size_bytes_max=rewrite.size_bytes_max,
        )
