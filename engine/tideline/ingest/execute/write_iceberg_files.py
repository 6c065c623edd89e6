"""Source files that a person names, written into an Iceberg table as one commit: `tideline write`.

1. Parquet files are read and written by this process, file by file, in bounded memory.
2. Text, read options, and files or rows at fault that are passed over are Spark's
   (`tideline.ingest.execute.write_iceberg_files_on_spark`); its tasks write the data files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tideline.clock import SystemClock
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.write.given_rows import StreamedRows
from tideline.iceberg.write.source_files import file_streams
from tideline.iceberg.write.write_request import IcebergWrite
from tideline.iceberg_writing import write_given
from tideline.ingest.execute.in_process import require_spark
from tideline.ingest.execute.write_files import SourceWrite, SourceWritten, usable_sources
from tideline.ingest.sources.files.reader import why_spark
from tideline.ingest.sources.source import ForSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_iceberg_sources(
    table: IcebergTable,
    write: IcebergWrite,
    wanted: SourceWrite,
    open_session: Callable[[], SparkSession],
) -> SourceWritten:
    """Write the files; `open_session` is called where Spark is needed.

    Raises InvalidDataError naming the files at fault, or that none is left, and as `write_given`;
    ConfigError where Spark is needed and not installed.
    """
    sources, skipped = usable_sources(wanted)
    folder, paths = sources.folder, sources.paths
    reason = _why_spark(wanted)
    if reason is None:
        streams = file_streams(folder.open(), folder.uri, paths)
        report = write_given(table, StreamedRows(streams), write, SystemClock())
        return SourceWritten(report, skipped)
    require_spark(ForSpark(reason))
    from tideline.ingest.execute.write_files_on_spark import write_on_spark
    from tideline.ingest.execute.write_iceberg_files_on_spark import IcebergTarget

    target = IcebergTarget(table, write)
    written = write_on_spark(target, open_session(), wanted, folder, paths)
    return replace(written, skipped={**skipped, **written.skipped})


def _why_spark(wanted: SourceWrite) -> str | None:
    if wanted.skips_bad_files or wanted.bad_rows_max is not None:
        return "files and rows that cannot be taken in are looked for by Spark"
    return why_spark(wanted.file_format, wanted.reading)
