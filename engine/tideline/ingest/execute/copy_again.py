"""`tideline resync`: a table is read from its source again, into itself.

1. The source is looked at, and a range is planned that begins: it has no rows.
2. Its commit says that the table is read again. From then on each ingest of the table continues by
   what its newest commit says, as always: nothing of it depends on a process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from tideline.errors import ConfigError
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.execute.ingest_batch import DELETE, UPSERT
from tideline.ingest.execute.open_ingest_table import open_ingest_table
from tideline.ingest.execute.table_access import Progress
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.operation.result import OperationResult
from tideline.ingest.sources.checkpoint import Checkpoint, newest_of
from tideline.ingest.sources.own_reach import own_reach
from tideline.ingest.sources.source import Lost, Range
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def plan_again(operation: Operation) -> Operation:
    """The operation that begins to read the table of this ingest from its source again. Raises
    ConfigError, StorageUnavailableError."""
    work = operation.ingest
    checkpoints = open_ingest_table(operation).checkpoints(work)
    known = newest_of(checkpoints, work.name, work.former_name)
    if known is None:
        raise ConfigError(
            "the table has read nothing of this source yet: the next ingest reads all of it",
            table=operation.table.location.uri,
        )
    others = set(checkpoints) - {work.name, work.former_name}
    if others:
        raise ConfigError(
            f"the table has rows of {', '.join(sorted(others))} too, which are not in this source",
            table=operation.table.location.uri,
        )
    begin = replace(
        work,
        range=_begin(work, known),
        generation=known.generation,
        again_number=known.again,
    )
    return replace(operation, work=begin)


def read_again(operation: Operation, *, progress: Progress | None = None) -> OperationResult:
    """Carry it out. Raises as `plan_again`; other errors are a FAILED result."""
    return execute_operation(plan_again(operation), session_factory=_no_session, progress=progress)


def _no_session(_: Iterable[StoreLocation]) -> SparkSession:
    raise AssertionError("a commit without rows moves none")


def _begin(work: IngestRange, known: Checkpoint) -> Range:
    reach = own_reach()
    available = work.source.positions(reach, known.position)
    inserts = work.write_operation not in (UPSERT, DELETE)
    found = available.plan_again(known.position, inserts=inserts)
    if isinstance(found, Lost):
        raise ConfigError(str(found), path=work.source.uri)
    return found
