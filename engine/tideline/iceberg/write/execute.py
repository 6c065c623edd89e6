"""Writing rows into an Iceberg table, from given rows to the commit.

1. A write that took place already under the same token is found before a row is read.
2. New data files are written. A process that dies then leaves files that no snapshot lists; the
   service remove_orphan_files takes them away.
3. One conditional commit makes them the table's. Where it certainly did not take place the files
   are removed, and where that is unknown they stay.

Writes that take rows out as well are in `row_writes`.
"""

from __future__ import annotations

from tideline.clock import Clock, SystemClock
from tideline.errors import ConflictError
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import Conflicted
from tideline.iceberg.write.given_rows import GivenRows
from tideline.iceberg.write.new_files import NewFiles
from tideline.iceberg.write.publish import (
    discarded_on_failure,
    earlier_write,
    of_table,
    publish,
)
from tideline.iceberg.write.row_change import RowChange
from tideline.iceberg.write.row_writes import (
    delete_matching,
    overwrite_rows,
    update_matching,
    write_by_key,
)
from tideline.iceberg.write.write_operation import IcebergOperation
from tideline.iceberg.write.write_request import IcebergWrite, IcebergWritten, RowCounts

_SYSTEM_CLOCK = SystemClock()


def write_rows(
    table: IcebergTable,
    rows: GivenRows,
    write: IcebergWrite,
    *,
    clock: Clock = _SYSTEM_CLOCK,
) -> IcebergWritten:
    """Do to a table what a write says, with given rows, as one commit.

    Raises InvalidDataError for rows that do not fit, ConflictError when other writers were always
    first, UnknownOutcomeError, ConfigError, UnsupportedTableError, CorruptTableError and
    StorageUnavailableError.
    """
    match write.operation:
        case IcebergOperation.APPEND:
            return append_rows(table, rows, write, clock=clock)
        case IcebergOperation.DELETE if write.where is not None:
            return delete_matching(table, write, clock=clock)
        case IcebergOperation.UPDATE:
            return update_matching(table, write, clock=clock)
        case IcebergOperation.UPSERT | IcebergOperation.DELETE:
            return write_by_key(table, rows, write, clock=clock)
    return overwrite_rows(table, rows, write, clock=clock)


def append_rows(
    table: IcebergTable,
    rows: GivenRows,
    write: IcebergWrite,
    *,
    clock: Clock = _SYSTEM_CLOCK,
) -> IcebergWritten:
    """Add rows beside those that are there. Raises as `write_rows`."""
    done = earlier_write(table, write)
    if done is not None:
        return done
    metadata = table.metadata
    files = NewFiles.of(table.io, metadata, write)
    with of_table(metadata.location), discarded_on_failure(files):
        rows.write_into(files)
    change = RowChange(RowCounts(inserted=files.rows), tuple(files.written))
    outcome = publish(table, write, change, (files,), files.settings, clock)
    if isinstance(outcome, Conflicted):
        message = f"not written, another writer was first: {outcome.reason}; write again"
        raise ConflictError(message, table=metadata.location)
    return outcome
