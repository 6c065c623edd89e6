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

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tideline.clock import Clock
from tideline.errors import ConflictError, InvalidDataError
from tideline.iceberg.commit.file_identity import file_key
from tideline.iceberg.commit.row_conflicts import ReadState
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.position_deletes import NO_POSITIONS
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.write.changed_files import ChangedFile, changed_files, kept_rows
from tideline.iceberg.write.fitted_rows import fitted_streams
from tideline.iceberg.write.given_changes import GivenChanges, fields_of
from tideline.iceberg.write.given_rows import GivenRows
from tideline.iceberg.write.held_rows import held_rows
from tideline.iceberg.write.keyed_rows import KeyedRows, TableKey
from tideline.iceberg.write.merged_rows import MergedRows
from tideline.iceberg.write.new_deletes import NewDeletes, own_deletes
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
    RowNumbers,
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

    def change(attempt: _Attempt) -> RowChange:
        rows = UpdatedRows.of(table.io, attempt.metadata, write.where, write.changes)
        attempt.look(rows.selection)
        if attempt.merges_on_read:
            attempt.take_out()
            attempt.files.add(rows.alone(attempt.changed))
        else:
            attempt.files.add(rows.among(attempt.changed))
        counts = RowCounts(updated=sum(file.count for file in attempt.changed))
        return attempt.change(counts, rows.selection)

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
        MatchingRows.of(write.where, metadata)
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
    schema = table.metadata.schema()
    key = TableKey.of(schema, write.key)
    fields, streams = fields_of(schema, key, write.rules), rows.streams()
    if write.operation is IcebergOperation.DELETE:
        fields, streams = key.fields, _only(streams, key.columns)
    WriteSettings.of(table.metadata, write.options)
    with (
        of_table(table.metadata.location),
        held_rows(fitted_streams(streams, fields), arrow_schema(fields)) as held,
    ):
        given = GivenChanges.of(held, schema, key, write.rules)
        return _until_first(table, write, _ByKey(write, schema, given).change, (), clock)


@dataclass(slots=True)
class _Attempt:
    """One look at a state of the table: what goes, and the files that are written for it."""

    table: IcebergTable
    write: IcebergWrite
    files: NewFiles
    deletes: NewDeletes
    changed: list[ChangedFile] = field(default_factory=list)
    passed: RowNumbers = field(default_factory=lambda: NO_POSITIONS)

    @classmethod
    def of(cls, table: IcebergTable, write: IcebergWrite) -> _Attempt:
        """On the table as it was read last."""
        files = NewFiles.of(table.io, table.metadata, write, takes_stored=True)
        deletes = NewDeletes(table.io, files.settings.applied(table.metadata))
        return cls(table, write, files, deletes)

    @property
    def metadata(self) -> TableMetadata:
        """The state of the table."""
        return self.files.metadata

    @property
    def row_level(self) -> str:
        """What properties call it."""
        named = {IcebergOperation.UPSERT: "merge", IcebergOperation.UPDATE: "update"}
        return named.get(self.write.operation, "delete")

    @property
    def merges_on_read(self) -> bool:
        return self.files.settings.merges_on_read(self.row_level, self.metadata)

    def look(self, selection: RowSelection, *, keeps_rows: bool = False) -> None:
        """Find the files that have selected rows, and the given rows that are passed over."""
        io, head = self.table.io, self.files.head
        found = list(changed_files(io, self.metadata, head, selection, keeps_rows=keeps_rows))
        self.changed = [file for file in found if file.count or file.is_whole]
        self.passed = np.concatenate([NO_POSITIONS, *(file.passed for file in found)])

    def take_out(self) -> None:
        """Write what stays, or which rows do not."""
        if self.merges_on_read:
            self.deletes.add(file for file in self.changed if not file.is_whole)
        else:
            self.files.add(kept_rows(self.table.io, self.metadata, self.changed))

    def change(
        self, counts: RowCounts, selection: RowSelection, added: Sequence[DataFile] = ()
    ) -> RowChange:
        """The change for the commit."""
        merges = self.merges_on_read
        gone = [file.task for file in self.changed if file.is_whole or not merges]
        needless_of = own_deletes if not isinstance(selection, AllRows) else _all_deletes
        needless = {file_key(file): file for task in gone for file in needless_of(task)}
        head, settings = self.files.head, self.files.settings
        read = ReadState(
            None if head is None else head.snapshot_id,
            tuple(file.task.data_file for file in self.changed),
            selection.pruning,
            frozenset(spec.spec_id for spec in self.metadata.partition_specs),
            self.metadata.current_schema_id,
            settings.ignores_new_rows(self.row_level),
        )
        return RowChange(
            counts,
            (*added, *self.files.written),
            tuple(task.data_file for task in gone),
            (*needless.values(), *self.deletes.removed),
            self.deletes.added,
            read,
        )


@dataclass(frozen=True, slots=True)
class _ByKey:
    """A write by key, made on one state of the table after another."""

    write: IcebergWrite
    schema: Schema
    given: GivenChanges

    def change(self, attempt: _Attempt) -> RowChange:
        """Write the files of an attempt."""
        metadata, given = attempt.metadata, self.given
        if metadata.schema() != self.schema:
            message = "the columns of the table changed meanwhile: nothing was written, write again"
            raise ConflictError(message, table=metadata.location)
        selection = KeyedRows.of(given.keys, metadata)
        if self.write.operation is IcebergOperation.DELETE:
            attempt.look(selection)
            attempt.take_out()
            return attempt.change(_deleted(attempt), selection)
        attempt.look(selection, keeps_rows=attempt.merges_on_read and not given.unavailable)
        merge = MergedRows(attempt.table.io, metadata, given, attempt.passed)
        if attempt.merges_on_read:
            attempt.take_out()
            attempt.files.add(merge.beside(attempt.changed))
        else:
            attempt.files.add(merge.among(attempt.changed))
        counts = RowCounts(merge.inserted, merge.updated, merge.deleted)
        return attempt.change(counts, selection)


def _replaced(
    table: IcebergTable, write: IcebergWrite, added: NewFiles | None, clock: Clock
) -> IcebergWritten:
    files = () if added is None else tuple(added.written)

    def change(attempt: _Attempt) -> RowChange:
        selection = _selection(attempt, added)
        attempt.look(selection)
        attempt.take_out()
        counts = _deleted(attempt, inserted=sum(file.record_count for file in files))
        return attempt.change(counts, selection, files)

    return _until_first(table, write, change, () if added is None else (added,), clock)


def _until_first(
    table: IcebergTable,
    write: IcebergWrite,
    change_of: Callable[[_Attempt], RowChange],
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
                attempt = _Attempt.of(table, write)
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


def _selection(attempt: _Attempt, added: NewFiles | None) -> RowSelection:
    write, metadata = attempt.write, attempt.metadata
    if write.where is not None:
        return MatchingRows.of(write.where, metadata)
    by_partition = write.operation is IcebergOperation.OVERWRITE_PARTITIONS
    # The table may have another spec by now: the rows were placed by this one.
    if by_partition and added is not None and not added.spec.is_unpartitioned:
        return RowsOfPartitions.of(added.written, added.spec, metadata)
    return AllRows()


def _all_deletes(task: FileScanTask) -> tuple[DataFile, ...]:
    return task.deletes


def _deleted(attempt: _Attempt, inserted: int = 0) -> RowCounts:
    return RowCounts(inserted, deleted=sum(file.count for file in attempt.changed))


def _only(
    streams: Iterable[pa.RecordBatchReader], names: Sequence[str]
) -> Iterator[pa.RecordBatchReader]:
    """The streams with these of their columns. Raises InvalidDataError where one lacks some: a
    default is no key that was given."""
    for rows in streams:
        found = [name for name in rows.schema.names if name in names]
        lacking = [name for name in names if name not in found]
        if lacking:
            raise InvalidDataError("rows lack a column of the key", value=", ".join(lacking))
        schema = pa.schema([rows.schema.field(name) for name in found])
        batches = (batch.select(found) for batch in rows)
        yield pa.RecordBatchReader.from_batches(schema, batches)
