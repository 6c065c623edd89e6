"""Which ingests and writes this process carries out itself, and which are Spark's.

What Spark's expressions do (a transform in SQL, a condition for deletes) is Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec

from tideline.distribution import installation
from tideline.errors import ConfigError
from tideline.hudi.write.write_operation import WriteOperation
from tideline.ingest.execute.ingest_batch import IngestBatch
from tideline.ingest.operation.operation import IngestRange
from tideline.ingest.sources.source import Declared, ForSpark, Rows, Source
from tideline.lake_table import LakeTable
from tideline.machine import memory_bytes
from tideline.row_batch import running_zone

_MEMORY_SHARE = 8
"""A batch is held about twice while it is written, and file groups stream past it."""


def read_in_process(
    source: Source, batch: IngestBatch, left_out: frozenset[int]
) -> Rows | ForSpark:
    """The rows of a batch and what is bad in it, or why they are Spark's.

    Raises InvalidDataError where they do not fit, ConfigError, StorageUnavailableError.
    """
    work = batch.work
    reason = source.why_spark() or why_sql(work) or batch.table.why_spark(work)
    if reason is not None:
        return ForSpark(reason)
    found = source.read(batch.range, batch.shape(left_out), batch_bytes_max())
    if isinstance(found, ForSpark):
        return found
    return replace(found, bad=found.bad.limited(work.bad_rows_max))


def why_sql(work: IngestRange) -> str | None:
    """Why the SQL of an ingest is Spark's; None where it has none."""
    if work.transform is not None:
        return "a transform in SQL is Spark's"
    return None if work.delete_when is None else "a condition for deletes is Spark's"


def why_spark(
    table: LakeTable | None,
    operation: WriteOperation,
    options: Mapping[str, str],
    size_bytes: int = 0,
) -> str | None:
    """Why rows are written by Spark; None where they are not, or there is no table yet.

    Raises ConfigError for options that cannot be.
    """
    if table is None:
        return None
    # Rows that are not read need no Arrow.
    from tideline.in_process.run import why_spark as why_table_is

    _, config = table.writer.planned_write(operation, options)
    return why_table_is(size_bytes, table.hoodie_table, config, zone=running_zone())


def batch_bytes_max() -> int:
    """How many bytes of rows this process takes in at once."""
    from tideline.in_process.run import BATCH_BYTES_MAX

    return min(BATCH_BYTES_MAX, memory_bytes() // _MEMORY_SHARE)


def require_spark(needed: ForSpark, declared: Declared | None = None) -> None:
    """Raise the error that this process met, else ConfigError, where Spark is not installed, does
    not read the source, or would not say more of it."""
    if declared is not None and not declared.is_read_on_spark:
        raise needed.error or ConfigError(
            f"{needed.reason}, and Spark reads no source of this kind", path=declared.uri
        )
    if declared is not None and not declared.is_checked_on_spark and needed.error is not None:
        raise needed.error
    if find_spec("pyspark") is None:
        raise needed.error or ConfigError(
            f"this needs Spark ({needed.reason}): {installation('spark')}"
        )
