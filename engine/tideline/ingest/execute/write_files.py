"""Source files that a person names, written into a table as one commit: `tideline write`.

1. Parquet files whose rows fit in memory are read and written by this process.
2. What that is not for, and batches in which something does not fit, go through Spark, which says
   what is at fault (`tideline.ingest.execute.write_files_on_spark`). Nothing is written by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tideline.bad_input import BadRow
from tideline.commit_report import CommitReport
from tideline.errors import ConfigError, InvalidDataError
from tideline.hudi.write.config import refusing_missing_columns
from tideline.ingest.execute.in_process import batch_bytes_max, require_spark, why_spark
from tideline.ingest.sources.files.named_files import UNNAMABLE, Sources, find_sources
from tideline.ingest.sources.files.reader import read_files
from tideline.ingest.sources.files.reader import why_spark as why_files_are_spark
from tideline.ingest.sources.source import ForSpark
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SourceWrite:
    """What to write and how. `skips_bad_files`: they are passed over instead of failing the write.
    `bad_rows_max`: so many rows of a file are set aside, None for none. `token` is as in
    `LakeTable.write`. Rows are null in the optional columns of the table that their file lacks,
    unless the write is `strict`: then such a file is at fault."""

    location: StoreLocation
    file_format: str
    operation: str | None
    options: Mapping[str, str] = field(default_factory=dict)
    reading: Mapping[str, str] = field(default_factory=dict)
    skips_bad_files: bool = False
    bad_rows_max: int | None = None
    token: str | None = None
    strict: bool = False

    @property
    def write_options(self) -> Mapping[str, str]:
        """The options of the write. Raises ConfigError for those that contradict `strict`."""
        return refusing_missing_columns(self.options) if self.strict else self.options


@dataclass(frozen=True, slots=True)
class SourceWritten:
    """What came of it: the commit, files passed over with reasons, rows set aside by path."""

    report: CommitReport
    skipped: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, tuple[BadRow, ...]] = field(default_factory=dict)


def write_sources(
    table: LakeTable, open_session: Callable[[], SparkSession], wanted: SourceWrite
) -> SourceWritten:
    """Write the files; `open_session` is called where Spark is needed.

    Raises InvalidDataError naming the files at fault, or that none is left, and as
    `LakeTable.write` does; ConfigError where Spark is needed and not installed.
    """
    sources, skipped = usable_sources(wanted)
    folder, paths = sources.folder, sources.paths
    done = _write_in_process(table, wanted, folder, paths)
    if isinstance(done, CommitReport):
        return SourceWritten(done, skipped)
    require_spark(done)
    from tideline.ingest.execute.write_files_on_spark import HudiTarget, write_on_spark

    written = write_on_spark(HudiTarget(table, wanted), open_session(), wanted, folder, paths)
    return replace(written, skipped={**skipped, **written.skipped})


def usable_sources(wanted: SourceWrite) -> tuple[Sources, dict[str, str]]:
    """The files, and those that are passed over because no object can have their names, with the
    reason. Raises InvalidDataError for such files unless they are passed over, and for none."""
    sources = find_sources(wanted.location)
    unnamable = sources.unnamable
    if unnamable and not (wanted.skips_bad_files and sources.paths):
        more = f" (and {counted(len(unnamable) - 1, 'more file')})" if len(unnamable) > 1 else ""
        message = f"source file cannot be taken in: {UNNAMABLE}{more}"
        raise InvalidDataError(message, path=f"{sources.folder.uri}/{unnamable[0]}")
    return sources, dict.fromkeys(unnamable, UNNAMABLE)


def _write_in_process(
    table: LakeTable, wanted: SourceWrite, folder: StoreLocation, paths: Sequence[str]
) -> CommitReport | ForSpark:
    """The commit, or why it is for Spark; nothing has been written then."""
    operation, _ = table.writer.planned_write(wanted.operation, wanted.write_options)
    try:
        reason = why_files_are_spark(wanted.file_format, wanted.reading) or why_spark(
            table, operation, wanted.write_options
        )
        if reason is not None:
            return ForSpark(reason)
        rows = read_files(folder, paths, batch_bytes_max())
        if isinstance(rows, ForSpark):
            return rows
        reason = why_spark(table, operation, wanted.write_options, rows.table.nbytes)
        if reason is not None:
            return ForSpark(reason)
        return table.write(
            rows.table, wanted.operation, options=wanted.write_options, token=wanted.token
        )
    except (InvalidDataError, ConfigError) as error:
        return ForSpark("something does not fit", error)
