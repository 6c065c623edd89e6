"""Rows as callers give them: streams of Arrow batches, or what writes files by its own tasks."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as ds

from tideline.formats.frame_rows import no_rows, pandas_rows
from tideline.iceberg.write.fitted_rows import fitted_streams
from tideline.iceberg.write.keyed_change import ChangeByKey, KeyedWrite, held_by_key
from tideline.iceberg.write.new_files import NewFiles

_BATCH_ROWS = 65_536


class GivenRows(Protocol):
    """The rows of one write."""

    def by_key(self, asked: KeyedWrite) -> AbstractContextManager[ChangeByKey]:
        """Take them up to write them by key. Raises InvalidDataError for rows that do not fit, and
        what reading them raises."""

    def write_into(self, files: NewFiles) -> None:
        """Make new files of them. Raises InvalidDataError for rows that do not fit, and what
        reading and writing them raise."""


@dataclass(frozen=True, slots=True)
class StreamedRows:
    """Rows in streams, which are read one after another."""

    readers: Iterable[pa.RecordBatchReader] = ()

    def by_key(self, asked: KeyedWrite) -> AbstractContextManager[ChangeByKey]:
        return held_by_key(self.readers, asked)

    def write_into(self, files: NewFiles) -> None:
        files.add(fitted_streams(self.readers, files.layout.fields))


def row_stream(rows: Any) -> pa.RecordBatchReader:
    """A reader of pyarrow's own forms, a Dataset, pandas and all that give Arrow streams, such as
    Polars and DuckDB; a stream is not held in memory. Raises ConfigError for anything else,
    InvalidDataError for values of pandas that have no common type."""
    given, library = rows, type(rows).__module__.partition(".")[0]
    if isinstance(rows, pa.RecordBatchReader):
        return rows
    if library == "pandas":
        rows = pandas_rows(rows) if hasattr(rows, "columns") else None
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return rows.to_reader(max_chunksize=_BATCH_ROWS)
    if isinstance(rows, ds.Dataset):
        return rows.scanner().to_reader()
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows)
    raise no_rows(given)
