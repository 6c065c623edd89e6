"""Writes that take rows out of an Iceberg table: upserts, updates, deletes and overwrites.

1. Rows that come are written first, or held on disk where they take the places of stored ones.
2. The files with rows that go are looked for in the newest snapshot of the branch. Copy-on-write
   writes what stays of them into new files, merge-on-read writes delete files; a file without any
   row that stays goes as a whole.
3. One conditional commit. Where another writer committed what matters to it, the files of 2 are
   removed and 2 is done again; those of 1 stay.

A process that dies leaves files that no snapshot lists; the service remove_orphan_files takes them
away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tideline.clock import Clock
from tideline.errors import ConflictError
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.write.attempt import WriteAttempt
from tideline.iceberg.write.given_rows import GivenRows
from tideline.iceberg.write.keyed_change import KeyedWrite
from tideline.iceberg.write.new_files import NewFiles
from tideline.iceberg.write.publish import (
    discarded_on_failure,
    earlier_write,
    of_table,
    publish,
)
from tideline.iceberg.write.row_change import RowChange
from tideline.iceberg.write.row_selection import (
    AllRows,
    MatchingRows,
    RowSelection,
    RowsOfPartitions,
)
from tideline.iceberg.write.updated_rows import UpdatedRows
from tideline.iceberg.write.write_operation import IcebergOperation
from tideline.iceberg.write.write_request import IcebergWrite, IcebergWritten, RowCounts
from tideline.iceberg.write.write_settings import WriteSettings
from tideline.retry import RetryPolicy

_RETRIES = RetryPolicy.at_once(4)


def delete_matching(table: IcebergTable, write: IcebergWrite, *, clock: Clock) -> IcebergWritten:
    """Delete the rows for which `write.where` holds, as one commit.

    Raises ConfigError for what is no condition, ConflictError when other writers were always first,
    UnknownOutcomeError, UnsupportedTableError, CorruptTableError and StorageUnavailableError.
    """
    return earlier_write(table, write) or _replaced(table, write, None, clock)


def update_matching(table: IcebergTable, write: IcebergWrite, *, clock: Clock) -> IcebergWritten:
    """Give the rows for which `write.where` holds the values `write.changes`, as one commit. Raises
    as `delete_matching`, ConfigError for what is no value of a column, and InvalidDataError where
    a row cannot have it."""

    def change(attempt: WriteAttempt) -> RowChange:
        rows = UpdatedRows.of(table.io, attempt.metadata, write.where, write.changes)
        attempt.look(rows.selection)
        if attempt.merges_on_read:
            attempt.take_out()
            attempt.files.add(rows.alone(attempt.changed))
        else:
            attempt.files.add(rows.among(attempt.changed))
        return attempt.change(RowCounts(updated=attempt.selected), rows.selection)

    return earlier_write(table, write) or _until_first(table, write, change, (), clock)


def overwrite_rows(
    table: IcebergTable, rows: GivenRows, write: IcebergWrite, *, clock: Clock
) -> IcebergWritten:
    """Put rows in the places of all rows, of those that match `write.where`, or of those of the
    same partitions. Raises as `delete_matching`, and InvalidDataError for rows that do not fit."""
    done = earlier_write(table, write)
    if done is not None:
        return done
    metadata = table.metadata
    added = NewFiles.of(table.io, metadata, write)
    if write.where is not None:
        MatchingRows.of(write.where, added.metadata)
    with of_table(metadata.location), discarded_on_failure(added):
        rows.write_into(added)
    return _replaced(table, write, added, clock)


def write_by_key(
    table: IcebergTable, rows: GivenRows, write: IcebergWrite, *, clock: Clock
) -> IcebergWritten:
    """Put rows in the places of those with the same key, the others beside them; or delete those
    with the key of given rows. Of given rows with the same key the last one counts, or what
    `write.rules` says. Raises as `overwrite_rows`."""
    done = earlier_write(table, write)
    if done is not None:
        return done
    asked = KeyedWrite.of(table.metadata, write)
    WriteSettings.of(table.metadata, write.options)
    with of_table(table.metadata.location), rows.by_key(asked) as given:
        return _until_first(table, write, given.change, (), clock)


def _replaced(
    table: IcebergTable, write: IcebergWrite, added: NewFiles | None, clock: Clock
) -> IcebergWritten:
    files = () if added is None else tuple(added.written)

    def change(attempt: WriteAttempt) -> RowChange:
        selection = _selection(attempt, added)
        attempt.look(selection)
        attempt.take_out()
        inserted = sum(file.record_count for file in files)
        counts = RowCounts(inserted, deleted=attempt.selected)
        return attempt.change(counts, selection, files)

    return _until_first(table, write, change, () if added is None else (added,), clock)


def _until_first(
    table: IcebergTable,
    write: IcebergWrite,
    change_of: Callable[[WriteAttempt], RowChange],
    added: Sequence[NewFiles],
    clock: Clock,
) -> IcebergWritten:
    """Make the change, again wherever another writer was first."""
    reason = ""
    for _ in _RETRIES.attempts():
        done = None
        with discarded_on_failure(*added):
            if reason:
                done = earlier_write(table, write)
            if done is None:
                attempt = WriteAttempt.of(table, write)
                own = (attempt.files, attempt.deletes)
                with of_table(attempt.metadata.location), discarded_on_failure(*own):
                    change = change_of(attempt)
        if done is not None:
            for files in added:
                files.discard()
            return done
        outcome = publish(
            table, write, change, (*added, *own), attempt.files.settings, clock, may_repeat=own
        )
        if isinstance(outcome, IcebergWritten):
            return outcome
        reason = outcome.reason
    for files in added:
        files.discard()
    message = f"not written, other writers were always first: {reason}; write again"
    raise ConflictError(message, table=table.metadata.location)


def _selection(attempt: WriteAttempt, added: NewFiles | None) -> RowSelection:
    write, metadata = attempt.write, attempt.metadata
    if write.where is not None:
        return MatchingRows.of(write.where, metadata)
    by_partition = write.operation is IcebergOperation.OVERWRITE_PARTITIONS
    # The table may have another spec by now: the rows were placed by this one.
    if by_partition and added is not None and not added.spec.is_unpartitioned:
        return RowsOfPartitions.of(added.written, added.spec, metadata)
    return AllRows()
