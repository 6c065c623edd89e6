"""A source of files where its rows are read: in this process what is plain parquet, else on Spark.

What Spark's options do is Spark's, and so is the parsing of text. Nothing is checked here: where
something does not fit, Spark reads the files once more and says which of them, or which rows, are
at fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tideline.bad_input import BadRow
from tideline.ingest.locate import locate
from tideline.ingest.sources.files.arrived import ArrivedFile
from tideline.ingest.sources.files.declared import DeclaredFiles
from tideline.ingest.sources.files.listing import files_of
from tideline.ingest.sources.files.look import list_arrived
from tideline.ingest.sources.files.position import FilesPosition
from tideline.ingest.sources.files.quarantine import quarantine, quarantine_rows, release_rows
from tideline.ingest.sources.files.settle import settle_files
from tideline.ingest.sources.source import (
    ForSpark,
    Position,
    Range,
    Rows,
    Settled,
    Shape,
    SparkRows,
)
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class FilesSource:
    """See `tideline.ingest.sources.source`."""

    declared: DeclaredFiles

    def why_spark(self) -> str | None:
        return why_spark(self.declared.file_format.value, self.declared.options)

    def read(
        self,
        taken: Range,
        shape: Shape,  # noqa: ARG002
        bytes_max: int,
    ) -> Rows | ForSpark:
        """The rows; only Spark leaves some out."""
        return read_files(locate(self.declared.landing), taken.names, bytes_max)

    def on_spark(self, session: SparkSession, shape: Shape, reading: Any) -> SparkRows:
        from tideline.ingest.sources.files.on_spark import FilesOnSpark

        return FilesOnSpark.of(self.declared, session, shape, reading)

    def release(self) -> None:
        """Files are not kept."""

    def set_part_aside(self, taken: Range, name: str, reason: str, now_ms: int) -> bool:
        store, file = self._store, files_of(taken).file(name)
        if not _is_unchanged(store, file):
            return False
        quarantine(store, file, reason=reason, now_ms=now_ms)
        release_rows(store, file, list_arrived(store, self.declared.file_format))
        return True

    def set_rows_aside(self, taken: Range, name: str, rows: Sequence[BadRow]) -> bool:
        store, file = self._store, files_of(taken).file(name)
        if not _is_unchanged(store, file):
            return False
        # Listed again: an earlier listing of this very run may have found other rows.
        listing = list_arrived(store, self.declared.file_format)
        quarantine_rows(store, file, [row.to_json_object() for row in rows], listing)
        return True

    def settle(self, position: Position, progress: Callable[[str], None]) -> Settled:
        assert isinstance(position, FilesPosition)
        return settle_files(self.declared, position, progress)

    @property
    def _store(self) -> ObjectStore:
        return locate(self.declared.landing).open()


def why_spark(file_format: str, options: Mapping[str, str]) -> str | None:
    """Why files are Spark's, whatever is in them; None where they are not."""
    if file_format != _PARQUET:
        return f"{file_format} is parsed by Spark"
    return "read options are Spark's" if options else None


def read_files(location: StoreLocation, paths: Sequence[str], bytes_max: int) -> Rows | ForSpark:
    """The rows of parquet files. Raises InvalidDataError where they do not fit,
    StorageUnavailableError."""
    # Rows that are not read need no Arrow.
    from tideline.in_process.source_files.rows import read_source_rows

    found = read_source_rows(location.open(), paths, bytes_max)
    return ForSpark(found) if isinstance(found, str) else Rows(found)


def _is_unchanged(store: ObjectStore, file: ArrivedFile) -> bool:
    info = store.head(file.path)
    # S3 gives milliseconds in a listing, but only seconds about a single object.
    return (
        info is not None
        and info.modified_ms // 1000 == file.modified_ms // 1000
        and info.size_bytes == file.size_bytes
    )
