"""From parquet files to the rows a table takes, in this process.

It is `tideline.spark.source_files.intake` without Spark.

What Spark's expressions do (a transform in SQL, a condition for deletes) is Spark's, and so is the
parsing of text. Nothing here checks: where something does not fit, Spark reads the files once more
and says which of them, or which rows, are at fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tideline.distribution import installation
from tideline.errors import ConfigError, TidelineError
from tideline.hudi.write.write_operation import WriteOperation
from tideline.ingest.execute.table_access import locate
from tideline.ingest.operation.operation import IngestFiles
from tideline.ingest.sources.files.named_files import PARQUET
from tideline.lake_table import LakeTable
from tideline.machine import memory_bytes
from tideline.row_batch import running_zone
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    import pyarrow as pa


_MEMORY_SHARE = 8
"""A batch is held about twice while it is written, and file groups stream past it."""


@dataclass(frozen=True, slots=True)
class ForSpark:
    """Why rows are taken in by Spark, in words; `error` is what this process met."""

    reason: str
    error: TidelineError | None = None


@dataclass(frozen=True, slots=True)
class InProcessIntake:
    """How files become rows; fields as in Spark's Intake. `reading` are Spark's read options."""

    location: StoreLocation
    file_format: str
    reading: Mapping[str, str] = field(default_factory=dict)
    transform: str | None = None
    delete_when: str | None = None

    @classmethod
    def of(cls, work: IngestFiles) -> InProcessIntake:
        """How the files of an ingest do."""
        place = locate(work.landing)
        return cls(place, work.file_format.value, work.options, work.transform, work.delete_when)

    def why_spark(
        self,
        table: LakeTable | None,
        operation: WriteOperation,
        options: Mapping[str, str],
        size_bytes: int = 0,
    ) -> str | None:
        """Why these files are Spark's, whatever is in them; None where they are not.

        `table` is None where there is none yet. Raises ConfigError for options that cannot be.
        """
        if self.file_format != PARQUET:
            return f"{self.file_format} is parsed by Spark"
        if self.reading:
            return "read options are Spark's"
        if self.transform is not None:
            return "a transform in SQL is Spark's"
        if self.delete_when is not None:
            return "a condition for deletes is Spark's"
        if table is None:
            return None
        from tideline.in_process.run import why_spark

        _, config = table.writer.planned_write(operation, options)
        return why_spark(size_bytes, table.hoodie_table, config, zone=running_zone())

    def rows(
        self,
        paths: Sequence[str],
        table: LakeTable | None,
        operation: WriteOperation,
        options: Mapping[str, str],
    ) -> pa.Table | ForSpark:
        """The rows of the files.

        Raises InvalidDataError where they do not fit, StorageUnavailableError.
        """
        reason = self.why_spark(table, operation, options)
        if reason is not None:
            return ForSpark(reason)
        from tideline.in_process.run import BATCH_BYTES_MAX
        from tideline.in_process.source_files.rows import read_source_rows

        size_bytes_max = min(BATCH_BYTES_MAX, memory_bytes() // _MEMORY_SHARE)
        found = read_source_rows(self.location.open(), paths, size_bytes_max)
        return ForSpark(found) if isinstance(found, str) else found


def require_spark(needed: ForSpark) -> None:
    """Raise the error that this process met, else ConfigError, where Spark is not installed."""
    if find_spec("pyspark") is not None:
        return
    if needed.error is not None:
        raise needed.error
    raise ConfigError(f"this needs Spark ({needed.reason}): {installation('spark')}")
