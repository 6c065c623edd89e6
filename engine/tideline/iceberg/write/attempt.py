"""One look at a state of a table for a write that takes rows out: what goes, and what comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tideline.iceberg.commit.file_identity import file_key
from tideline.iceberg.commit.row_conflicts import ReadState
from tideline.iceberg.data.position_deletes import NO_POSITIONS
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.write.changed_files import ChangedFile, changed_files, kept_rows
from tideline.iceberg.write.new_deletes import NewDeletes, own_deletes
from tideline.iceberg.write.new_files import NewFiles
from tideline.iceberg.write.row_change import RowChange
from tideline.iceberg.write.row_selection import AllRows, RowNumbers, RowSelection
from tideline.iceberg.write.write_operation import IcebergOperation
from tideline.iceberg.write.write_request import IcebergWrite, RowCounts


@dataclass(slots=True)
class WriteAttempt:
    """One look at a state of the table: what goes, and the files that are written for it."""

    table: IcebergTable
    write: IcebergWrite
    files: NewFiles
    deletes: NewDeletes
    changed: list[ChangedFile] = field(default_factory=list)
    passed: RowNumbers = field(default_factory=lambda: NO_POSITIONS)

    @classmethod
    def of(cls, table: IcebergTable, write: IcebergWrite) -> WriteAttempt:
        """On the table as it was read last."""
        files = NewFiles.of(table.io, table.metadata, write, takes_stored=True)
        deletes = NewDeletes(table.io, files.settings.applied(files.metadata))
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

    @property
    def selected(self) -> int:
        """How many rows of the changed files go."""
        return sum(file.count for file in self.changed)

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


def _all_deletes(task: FileScanTask) -> tuple[DataFile, ...]:
    return task.deletes
