"""Writing rows into an Iceberg table, from a stream of batches to the commit.

1. A write that took place already under the same token is found before a row is read.
2. New data files are written. A process that dies then leaves files that no snapshot lists; the
   service remove_orphan_files takes them away.
3. One conditional commit makes them the table's. Where it certainly did not take place the files
   are removed, and where that is unknown they stay.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from tideline.clock import Clock, SystemClock
from tideline.errors import ConflictError, TidelineError, UnknownOutcomeError
from tideline.iceberg.metadata.owner import refuse_publication
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import (
    CommitOutcome,
    Committed,
    Conflicted,
    Unknown,
    unknown_error,
)
from tideline.iceberg.write.fitted_rows import fitted_streams
from tideline.iceberg.write.new_files import NewFiles
from tideline.iceberg.write.row_change import EarlierWrite, RowChange, branch_head, commit_change
from tideline.iceberg.write.write_request import IcebergWrite, IcebergWritten, RowCounts
from tideline.iceberg.write.write_settings import WriteSettings

_SYSTEM_CLOCK = SystemClock()


def append_rows(
    table: IcebergTable,
    streams: Iterable[pa.RecordBatchReader],
    write: IcebergWrite,
    *,
    clock: Clock = _SYSTEM_CLOCK,
) -> IcebergWritten:
    """Add the rows of some streams to a table, as one commit.

    Raises InvalidDataError for rows that do not fit, ConflictError when other writers were always
    first, UnknownOutcomeError, ConfigError, UnsupportedTableError, CorruptTableError and
    StorageUnavailableError.
    """
    metadata = table.refresh()
    refuse_publication(metadata)
    earlier = write.earlier(metadata)
    if earlier is not None:
        return IcebergWritten(earlier, write.operation, is_repeat=True)
    settings = WriteSettings.of(metadata, write.options)
    head = branch_head(metadata, write.branch)
    files = NewFiles.of(table.io, metadata, settings, f"write-{uuid.uuid4()}", head)
    with of_table(metadata.location), files.discarded_on_failure():
        files.add(fitted_streams(streams, files.layout.fields))
    change = RowChange(RowCounts(inserted=files.rows), tuple(files.written))
    return publish(table, write, change, files, settings, clock)


def publish(
    table: IcebergTable,
    write: IcebergWrite,
    change: RowChange,
    files: NewFiles,
    settings: WriteSettings,
    clock: Clock,
) -> IcebergWritten:
    """Commit a change; its new files are removed where they are certainly of no use.

    Raises as `append_rows`.
    """
    try:
        outcome = commit_change(table.operations, write, change, settings, clock=clock)
    except TidelineError:
        # Of anything else, an interrupt say, it is not known what had been published by then.
        files.discard()
        raise
    return _settled(table, write, files, outcome)


@contextmanager
def of_table(location: str) -> Iterator[None]:
    """Names the table in errors about rows."""
    try:
        yield
    except TidelineError as error:
        error.table = error.table or location
        raise


def _settled(
    table: IcebergTable,
    write: IcebergWrite,
    files: NewFiles,
    outcome: CommitOutcome | EarlierWrite,
) -> IcebergWritten:
    place = table.metadata.location
    match outcome:
        case Committed(loaded, snapshot_id):
            table.take(loaded)
            made = None if snapshot_id is None else loaded.metadata.snapshot(snapshot_id)
            assert made is not None, "a commit of rows makes a snapshot"
            return IcebergWritten(made, write.operation)
        case EarlierWrite(snapshot):
            files.discard()
            return IcebergWritten(snapshot, write.operation, is_repeat=True)
        case Conflicted(reason):
            files.discard()
            message = f"not written, another writer was first: {reason}; write again"
            raise ConflictError(message, table=place)
        case Unknown() as unknown:
            raise _unknown(unknown, write, place)


def _unknown(outcome: Unknown, write: IcebergWrite, place: str) -> TidelineError:
    error = unknown_error(outcome, table=place, what="the rows are written")
    if write.token is None or not isinstance(error, UnknownOutcomeError):
        return error
    return UnknownOutcomeError(
        f"it is unknown whether the rows are written: {outcome.reason}. Write again with the same "
        "token: they are never written twice",
        table=place,
        instant=outcome.snapshot_id,
    )
