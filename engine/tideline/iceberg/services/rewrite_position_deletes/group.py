"""One group of position delete files rewritten, sorted by path and position.

1. A deleted position is kept when its data file belongs to the table, in this partition, and is no
   younger than the delete file: otherwise it deletes nothing, and must not begin to when it comes
   under the higher sequence number of its group.
2. Positions that several files delete are written once.
3. Paths are taken in order, so many at a time as have a bounded number of positions; with more than
   that, a first pass counts positions by path, and each further pass reads those of its paths.

Source: Iceberg's specification, "Position Delete Files"; `SparkRewritePositionDeleteRunner`.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tideline.iceberg.data.deletion_vector import Positions
from tideline.iceberg.data.parquet_rows import ParquetSource
from tideline.iceberg.data.position_delete_writer import GRANULARITY_PROPERTY, PositionDeleteWriter
from tideline.iceberg.data.position_deletes import (
    DELETE_FIELDS,
    FILE_PATH,
    merged,
    positions_by_path,
)
from tideline.iceberg.manifest.manifest_entry import DataFile, ManifestEntry
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.services.rewrite_position_deletes.plan import DeleteGroup
from tideline.iceberg.table.clean_up import remove_quietly
from tideline.iceberg.table.file_io import FileIO

POSITIONS_MAX = 8_000_000
"""Positions that are held at once."""


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
        out = self._writer()
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

    def _writer(self) -> PositionDeleteWriter:
        count = sum(entry.data_file.record_count for entry in self.group.entries)
        return PositionDeleteWriter(
            self.io,
            self.metadata,
            self.group.spec_id,
            self.group.partition,
            self.size_bytes_max,
            row_bytes=self.group.input_bytes / max(1, count),
            by_file=self.metadata.properties.get(GRANULARITY_PROPERTY, "").lower() == "file",
            new_uuid=self.new_uuid,
        )

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
