"""The rows that snapshots inserted, updated and deleted, with what updated rows were before.

1. `change_plan` says which files a snapshot brought, took away, or has other deletes for.
2. A snapshot that only brings rows, or only takes some away, is streamed.
3. Rows that it wrote again unchanged, as copy-on-write does, are on both sides: equal rows of a
   partition cancel each other, as often as they are there.
4. Of the rest a row that went and one that came are an update where they have the same key: the
   table's identifier fields, or else the row's id (format version 3). Without either they are a
   delete and an insert.

Memory depends on the rows that one snapshot wrote again in a partition, and on what it changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.formats.row_changes import ChangeType, marked, schema_of_changes, updates
from tideline.formats.row_codes import Codes, folded, occurrences, row_codes
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.file_rows import FileRows
from tideline.iceberg.data.nested_column import ColumnPath
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.read.change_plan import ChangedFiles, ChangeRange, changed_files
from tideline.iceberg.read.table_rows import missing_files_named
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.table.file_io import FileIO


@dataclass(frozen=True, slots=True)
class IcebergChangeFeed:
    """The changes of a range of snapshots, oldest first.

    Batches have `_change_type` and `_change_instant`, the snapshot's id, then the table's columns
    as at the end of the range. `until` is where it ends: begin after it the next time.
    """

    io: FileIO
    range: ChangeRange
    schema: pa.Schema

    @classmethod
    def of(cls, io: FileIO, changes: ChangeRange) -> IcebergChangeFeed:
        """The changes of a range. Raises ConfigError where a column is named as one of a change."""
        columns = arrow_schema(changes.metadata.schema().fields)
        return cls(io, changes, schema_of_changes(columns, table=io.location.uri))

    @property
    def until(self) -> int:
        """The id of the snapshot where the range ends."""
        return self.range.until

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changes, snapshot after snapshot. Raises CorruptTableError for files not to be
        read."""
        with missing_files_named(self.io):
            for snapshot in self.range.snapshots:
                yield from self.of_snapshot(snapshot)

    def of_snapshot(self, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
        """The changes of one snapshot of the range."""
        metadata = self.range.metadata
        files = changed_files(self.io, metadata, self.range.parent(snapshot), snapshot)
        step = _Step.of(self.io, self.range, files, str(snapshot.snapshot_id), self.schema)
        for changed in step.changes():
            yield from changed.to_batches()

    def read_all(self) -> pa.Table:
        """All of them in memory."""
        return pa.Table.from_batches(list(self.batches()), self.schema)


@dataclass(frozen=True, slots=True)
class ChangeKey:
    """What makes a row the same before and after: where its columns are; none without a key."""

    paths: tuple[ColumnPath, ...]

    @classmethod
    def of(cls, layout: RowLayout) -> ChangeKey:
        """The identifier fields, or the id of the row."""
        fields = layout.fields
        ids = layout.schema.identifier_field_ids
        found = [ColumnPath.find(fields, number) for number in ids]
        if found and None not in found:
            return cls(tuple(path for path in found if path is not None))
        at = len(layout.schema.fields)
        return cls((ColumnPath(at, (), fields[at].type),) if layout.has_lineage else ())

    def columns(self, rows: pa.Table) -> list[Any]:
        """The key of every row."""
        return [path.values(rows) for path in self.paths]


@dataclass(frozen=True, slots=True)
class _Step:
    """One snapshot's changes."""

    files: ChangedFiles
    reader: FileRows
    layout: RowLayout
    key: ChangeKey
    instant: str
    schema: pa.Schema

    @classmethod
    def of(
        cls, io: FileIO, changes: ChangeRange, files: ChangedFiles, instant: str, schema: pa.Schema
    ) -> _Step:
        layout = RowLayout.of(changes.metadata)
        reader = FileRows(io, layout, any_format=True)
        return cls(files, reader, layout, ChangeKey.of(layout), instant, schema)

    def changes(self) -> Iterator[pa.Table]:
        lost, got = self._other()
        if not self.files.lost and not any(item.num_rows for item in lost):
            yield from self._streamed(self.files.got, ChangeType.INSERT)
            yield from self._marked(got, ChangeType.INSERT)
            return
        if not self.files.got and not any(item.num_rows for item in got):
            yield from self._streamed(self.files.lost, ChangeType.DELETE)
            yield from self._marked(lost, ChangeType.DELETE)
            return
        for before, after in self._partitions():
            gone, come = _without_equal(before, after, len(self.layout.schema.fields))
            lost.append(gone)
            got.append(come)
        yield from self._paired(pa.concat_tables(lost), pa.concat_tables(got))

    def _other(self) -> tuple[list[pa.Table], list[pa.Table]]:
        """Rows of files that stay: deleted, and no longer deleted."""
        empty = arrow_schema(self.layout.fields).empty_table()
        lost, got = [empty], [empty]
        for before, after in self.files.other:
            for gone, come in self.reader.differences(before, after):
                lost.append(pa.Table.from_batches([gone]))
                got.append(pa.Table.from_batches([come]))
        return lost, got

    def _partitions(self) -> Iterator[tuple[pa.Table, pa.Table]]:
        """The rows of files that went and of those that came, partition by partition; all at once
        where a file was moved to another spec."""
        sides: dict[Any, tuple[list[FileScanTask], list[FileScanTask]]]
        sides = defaultdict(lambda: ([], []))
        specs = {task.spec_id for task in (*self.files.lost, *self.files.got)}
        for number, tasks in enumerate((self.files.lost, self.files.got)):
            for task in tasks:
                key = task.data_file.partition if len(specs) == 1 else ()
                sides[repr(key)][number].append(task)
        for lost, got in sides.values():
            yield self._rows(lost), self._rows(got)

    def _rows(self, tasks: Sequence[FileScanTask]) -> pa.Table:
        schema = arrow_schema(self.layout.fields)
        batches = [batch for task in tasks for batch in self.reader.batches(task)]
        return pa.Table.from_batches(batches, schema)

    def _streamed(self, tasks: Sequence[FileScanTask], kind: ChangeType) -> Iterator[pa.Table]:
        for task in tasks:
            for batch in self.reader.batches(task):
                yield from self._marked([pa.Table.from_batches([batch])], kind)

    def _marked(self, parts: Sequence[pa.Table], kind: ChangeType) -> Iterator[pa.Table]:
        for rows in parts:
            if rows.num_rows:
                yield marked(self._visible(rows), kind, self.instant, self.schema)

    def _visible(self, rows: pa.Table) -> pa.Table:
        return rows.select(range(len(self.layout.schema.fields)))

    def _paired(self, lost: pa.Table, got: pa.Table) -> Iterator[pa.Table]:
        if not self.key.paths:
            yield from self._marked([got], ChangeType.INSERT)
            yield from self._marked([lost], ChangeType.DELETE)
            return
        before, after = _both(self.key, lost, got)
        at = pc.index_in(after, value_set=before)
        is_update = pc.is_valid(at)
        if pc.any(is_update).as_py():
            old = self._visible(lost.take(at.filter(is_update)))
            new = self._visible(got.filter(is_update))
            yield updates(old, new, self.instant, self.schema)
        yield from self._marked([got.filter(pc.invert(is_update))], ChangeType.INSERT)
        is_gone = pc.invert(pc.is_in(before, value_set=after))
        yield from self._marked([lost.filter(is_gone)], ChangeType.DELETE)


def _both(key: ChangeKey, lost: pa.Table, got: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Numbers for the rows of both sides, equal where keys are; equal keys of a side count."""
    columns = [
        pa.chunked_array([*before.chunks, *after.chunks], before.type)
        for before, after in zip(key.columns(lost), key.columns(got), strict=True)
    ]
    count = lost.num_rows + got.num_rows
    old, new = _numbered(row_codes(columns, count), lost.num_rows)
    return pa.array(old), pa.array(new)


def _without_equal(before: pa.Table, after: pa.Table, width: int) -> tuple[pa.Table, pa.Table]:
    """Both without rows that are in both, as often as they are; the first columns are compared."""
    both = pa.concat_tables([before, after])
    old, new = _numbered(row_codes(both.columns[:width], both.num_rows), before.num_rows)
    return before.filter(pa.array(~np.isin(old, new))), after.filter(pa.array(~np.isin(new, old)))


def _numbered(codes: Codes, cut: int) -> tuple[Codes, Codes]:
    """Numbers for the rows before `cut` and for those behind: equal where the codes are, and as
    many equal ones come before on the same side."""
    ranks = np.concatenate([occurrences(codes[:cut]), occurrences(codes[cut:])])
    numbers = folded(codes, ranks)
    return numbers[:cut], numbers[cut:]
