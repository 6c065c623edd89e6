"""What committed data files hold, read back for partitions of the metadata table.

1. Of a base file the footer says most. Columns are read where it has no bounds, and numbers with a
   floating point where bounds of the file's writer may leave NaN out.
2. Of a log all blocks of rows are read, those of instants that were undone as well: bounds are then
   wider than they need to be. Deletes count for nothing.
3. A column that came after a file, or after a block of a log, is null in all its rows.

Files are read by a few threads; a thread holds a column of one row group, or one block of a log.
What was found of a file is remembered, for no file changes once it is committed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.hudi.file_group.column_ranges import ranges_of_base_file, ranges_of_rows
from tideline.hudi.log.block_scan import LogBlock
from tideline.hudi.log.data_block import decode_data_block
from tideline.hudi.log.log_files import LogFiles
from tideline.hudi.table.file_group import BaseFile, LogFile, split_path
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.timeline.column_range import (
    ColumnRange,
    ColumnRanges,
    ValueKind,
    ValueType,
    retyped,
    united,
)
from tideline.parquet.calendar import SPARK_VERSION_KEY, FileCalendar
from tideline.storage.object_store import ObjectStore

_THREADS = 8
_PARQUET_MR = "parquet-mr"
_IN_CALENDARS = frozenset(ValueKind) - {
    ValueKind.BOOLEAN,
    ValueKind.INT,
    ValueKind.LONG,
    ValueKind.FLOAT,
    ValueKind.DOUBLE,
    ValueKind.STRING,
    ValueKind.BYTES,
    ValueKind.FIXED,
    ValueKind.DECIMAL,
    ValueKind.UUID,
    ValueKind.TIME_MILLIS,
    ValueKind.TIME_MICROS,
}
"""Kinds of values that are other days and times in the calendar of old files."""

Columns = Mapping[str, ValueType]


@dataclass(frozen=True)
class FileContents:
    """The files in one store."""

    store: ObjectStore
    _known: dict[tuple[str, frozenset[str]], ColumnRanges | None] = field(default_factory=dict)

    def ranges(self, paths: Collection[str], columns: Columns) -> Mapping[str, ColumnRanges | None]:
        """See `TableContents`. Raises what the store raises."""
        names = frozenset(columns)
        unknown = [path for path in paths if (path, names) not in self._known]
        with ThreadPoolExecutor(_THREADS) as pool:
            for path, found in zip(
                unknown, pool.map(lambda path: self._read(path, columns), unknown), strict=True
            ):
                if found is not None:
                    self._known[path, names] = found.ranges
        there = (path for path in paths if (path, names) in self._known)
        return {path: self._known[path, names] for path in there}

    def _read(self, path: str, columns: Columns) -> _Found | None:
        """None of a file that is gone."""
        file = parse_data_file(*split_path(path), 0)
        try:
            if isinstance(file, LogFile):
                return _Found(_of_log(self.store, file, columns))
            if isinstance(file, BaseFile) and file.is_plain:
                return _Found(_of_base_file(self.store, path, columns))
        except (ObjectNotFoundError, FileNotFoundError):
            return None
        except (CorruptTableError, UnsupportedTableError, pa.ArrowException):
            if self.store.head(path) is None:
                return None
        return _Found(None)


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found of a file that is there."""

    ranges: ColumnRanges | None


def _of_base_file(store: ObjectStore, path: str, columns: Columns) -> ColumnRanges | None:
    with store.open_reader(path) as stream:
        metadata = pq.read_metadata(stream)
    there = set(metadata.schema.to_arrow_schema().names)
    if FileCalendar.of(metadata).is_old and any(
        wanted.kind in _IN_CALENDARS for wanted in columns.values()
    ):
        return None
    is_ours = SPARK_VERSION_KEY.encode() in (metadata.metadata or {})
    found = ranges_of_base_file(
        store,
        path,
        metadata,
        [name for name in columns if name in there],
        leaves_nan_out=not is_ours and not metadata.created_by.startswith(_PARQUET_MR),
    )
    if found is None:
        return None
    return {**found, **_nulls(columns, there, metadata.num_rows)}


def _of_log(store: ObjectStore, log: LogFile, columns: Columns) -> ColumnRanges | None:
    parts: dict[str, list[ColumnRange]] = {name: [] for name in columns}
    files = LogFiles(store, (log,))
    for block in (LogBlock(log, frame) for frame in files.frames(log) if frame.kind.is_data):
        if block.is_partial:
            return None
        rows = decode_data_block(
            block.frame.kind, files.content(block), block.schema_json, list(columns), path=log.path
        )
        there = [name for name in columns if name in rows.schema.names]
        found = ranges_of_rows(rows.select(there).to_batches(), there)
        if found is None:
            return None
        for name, part in {**found, **_nulls(columns, there, rows.num_rows)}.items():
            typed = retyped(part, columns[name])
            if typed is None:
                return None
            parts[name].append(typed)
    return {name: united(those, columns[name]) for name, those in parts.items()}


def _nulls(columns: Columns, there: Iterable[str], rows: int) -> dict[str, ColumnRange]:
    """Ranges of the columns that are not there."""
    missing = set(columns).difference(there)
    return {name: ColumnRange(columns[name], None, None, rows, rows) for name in missing}
