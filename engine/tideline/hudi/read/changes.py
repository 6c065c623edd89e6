"""The rows that commits inserted, updated and deleted, with what updated rows were before.

1. `change_plan` says which file groups each commit changed. Their rows are read right before and
   right after it, logs merged, one file group after the other.
2. A row that carries the commit's time was written by it: with a key that the file group had before
   it is an update, else it is new there. A row that the commit only copied keeps an older time.
3. A key that was there before and is not after has left the file group.
4. What left one file group and came to another in the same commit is an update: an overwrite, or a
   row that moved to another partition of a table whose keys are unique in all of it.

Memory depends on a file group's rows and on what one commit changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tideline.formats.row_changes import ChangeType, marked, schema_of_changes, updates
from tideline.hudi.capabilities.guard import require_by_properties
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.file_group.file_slice_merge import SliceContext
from tideline.hudi.index.uniqueness import global_index
from tideline.hudi.read.asked_range import AskedRange
from tideline.hudi.read.change_plan import ChangePlan, CommitStep, plan_changes
from tideline.hudi.read.partition_values import PartitionLayout
from tideline.hudi.read.point_in_time import Point
from tideline.hudi.read.slice_rows import SliceReader, SliceTask
from tideline.hudi.read.table_scan import scan_schema
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import COMMIT_TIME, PARTITION_PATH, RECORD_KEY
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant_time import InstantTime


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """The changes of a range of commits, oldest commit first.

    Batches have `_change_type` and `_change_instant`, the time of the commit, then the table's
    columns as at the end of the range. `until` is where it ends: begin after it the next time.
    """

    table: HoodieTable
    plan: ChangePlan
    schema: pa.Schema

    @classmethod
    def of(cls, table: HoodieTable, after: Point, until: Point | None = None) -> ChangeFeed:
        """The changes after `after`, up to `until` or now. Raises as `plan_changes`."""
        return cls.of_range(table, AskedRange.of(table, after, until))

    @classmethod
    def of_range(
        cls, table: HoodieTable, asked: AskedRange, only: Collection[str] | None = None
    ) -> ChangeFeed:
        """The changes of a range, in all partitions or these. Raises as `plan_changes`."""
        plan = plan_changes(table, asked, only)
        if any(file_slice.log_files for step in plan.steps for file_slice in step.after.values()):
            require_by_properties(table, Permission.MERGE_LOGS)
        newest = plan.steps[-1].timeline_after if plan.steps else plan.timeline
        return cls(table, plan, change_schema(table, scan_schema(table, newest)))

    @property
    def until(self) -> InstantTime:
        """Where the range ends."""
        return self.plan.until

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changes, commit after commit. Raises CorruptTableError for files not to be read."""
        for step in self.plan.steps:
            yield from self.of_commit(step)

    def of_commit(self, step: CommitStep) -> Iterator[pa.RecordBatch]:
        """The changes of one commit of the plan."""
        for changed in self._of_commit(step):
            yield from changed.to_batches()

    def read_all(self) -> pa.Table:
        """All of them in memory."""
        return pa.Table.from_batches(list(self.batches()), self.schema)

    def keys_are_global(self) -> bool:
        """Whether a key is one row in the whole table, and not in each partition."""
        return not self.table.config.partition_fields or global_index(self.table) is not None

    def _of_commit(self, step: CommitStep) -> Iterator[pa.Table]:
        reader = _Reader.of(self.table, self.schema, step, self.plan.timeline)
        time = step.instant.time
        lost, got = [], []
        for group in sorted({*step.before, *step.after}, key=str):
            before = reader.rows(step.before.get(group), step.timeline_before)
            after = reader.rows(step.after.get(group), step.timeline_after)
            parts = _split(before, after, str(time))
            if parts.updated_after.num_rows:
                yield updates(parts.updated_before, parts.updated_after, str(time), self.schema)
            lost.append(parts.lost)
            got.append(parts.got)
        if lost:
            yield from self._elsewhere(pa.concat_tables(lost), pa.concat_tables(got), time)

    def _elsewhere(self, lost: pa.Table, got: pa.Table, time: InstantTime) -> Iterator[pa.Table]:
        """What left a file group and came to none, the other way around, or moved."""
        is_global = self.keys_are_global()
        keys_lost, keys_got = (row_identity(rows, is_global=is_global) for rows in (lost, got))
        at = pc.index_in(keys_got, value_set=keys_lost)
        moved = pc.is_valid(at)
        if pc.any(moved).as_py():
            before, after = lost.take(at.filter(moved)), got.filter(moved)
            yield updates(before, after, str(time), self.schema)
        inserted = got.filter(pc.invert(moved))
        if inserted.num_rows:
            yield marked(inserted, ChangeType.INSERT, str(time), self.schema)
        deleted = lost.filter(pc.invert(pc.is_in(keys_lost, value_set=keys_got)))
        if deleted.num_rows:
            yield marked(deleted, ChangeType.DELETE, str(time), self.schema)


def change_schema(table: HoodieTable, columns: pa.Schema) -> pa.Schema:
    """What changes of rows with these columns have. Raises ConfigError when a name is taken."""
    return schema_of_changes(columns, table=table.uri)


@dataclass(frozen=True, slots=True)
class _RowsOfGroup:
    """The rows of one file group, by what a commit did to them."""

    updated_before: pa.Table
    updated_after: pa.Table
    lost: pa.Table
    got: pa.Table


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads slices as one schema, each as its timeline shows it."""

    table: HoodieTable
    target: pa.Schema
    layout: PartitionLayout | None
    merges: bool
    newest: ActiveTimeline

    @classmethod
    def of(
        cls, table: HoodieTable, schema: pa.Schema, step: CommitStep, newest: ActiveTimeline
    ) -> _Reader:
        target = pa.schema(list(schema)[2:])
        parts = [*step.before.values(), *step.after.values()]
        layout = PartitionLayout.of(table.config, target)
        return cls(table, target, layout, any(file_slice.log_files for file_slice in parts), newest)

    def rows(self, file_slice: FileSlice | None, timeline: ActiveTimeline) -> pa.Table:
        """The slice's rows; none for no slice."""
        if file_slice is None:
            return self.target.empty_table()
        context = SliceContext.of(
            self.table, timeline, self.target, schemas=self.newest, merges=self.merges
        )
        reader = SliceReader(context, self.target)
        task = SliceTask.of(file_slice, self.layout)
        batches = reader.rows(self.table.store, task, self.target.names)
        return pa.Table.from_batches(list(batches), self.target)


def _split(before: pa.Table, after: pa.Table, time: str) -> _RowsOfGroup:
    keys_before = before[RECORD_KEY].combine_chunks()
    written = after.filter(pc.equal(after[COMMIT_TIME], time))
    at = pc.index_in(written[RECORD_KEY], value_set=keys_before)
    known = pc.is_valid(at)
    stayed = pc.is_in(keys_before, value_set=after[RECORD_KEY].combine_chunks())
    return _RowsOfGroup(
        updated_before=before.take(at.filter(known)),
        updated_after=written.filter(known),
        lost=before.filter(pc.invert(stayed)),
        got=written.filter(pc.invert(known)),
    )


def row_identity(rows: pa.Table, *, is_global: bool) -> pa.Array:
    """What makes rows the same: their key, and their partition unless keys are unique in all."""
    keys = rows[RECORD_KEY].combine_chunks()
    if is_global:
        return keys
    return pc.binary_join_element_wise(rows[PARTITION_PATH].combine_chunks(), keys, "\0")
