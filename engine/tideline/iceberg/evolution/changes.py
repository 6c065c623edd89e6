"""Changes of one Iceberg table, as people write them down: `IcebergLakeTable.alter` gives them."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from tideline.clock import Clock
from tideline.errors import ConfigError
from tideline.iceberg.evolution.column_tree import Name
from tideline.iceberg.evolution.columns import (
    AddColumn,
    DropColumn,
    MoveColumn,
    Position,
    RenameColumn,
    SetDefault,
    SetDoc,
    SetIdentifier,
    SetRequired,
    WidenColumn,
)
from tideline.iceberg.evolution.execute import ChangePlan, execute_changes, plan_changes
from tideline.iceberg.evolution.partitioning import (
    AddPartitionField,
    RemovePartitionField,
    RenamePartitionField,
    SetSortOrder,
)
from tideline.iceberg.evolution.properties import (
    SetTableProperties,
    UnsetTableProperties,
    UpgradeFormat,
)
from tideline.iceberg.evolution.refs import (
    BRANCH,
    TAG,
    CreateRef,
    DropRef,
    FastForward,
    PublishStaged,
    RenameRef,
    Retain,
    Retention,
    Rollback,
)
from tideline.iceberg.evolution.step import Step
from tideline.iceberg.metadata.snapshot import MAIN
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import Committed, committed_location


class IcebergChanges:
    """Changes that `commit`, or the end of a `with` block, makes as one commit: all or none.

    Each method adds a change to those before it, on top of them, and returns the same object. A
    column is named `place.zip`, or by a tuple where names have dots.
    """

    def __init__(self, table: IcebergTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._steps: list[Step] = []

    def add(self, step: Step) -> Self:
        """Any change."""
        self._steps.append(step)
        return self

    def add_column(
        self,
        name: Name,
        type: Any,
        *,
        doc: str | None = None,
        required: bool = False,
        default: Any = None,
        first: bool = False,
        after: str | None = None,
        before: str | None = None,
    ) -> Self:
        """A new column, null in rows that are there, or with `default` (version 3). `type` is such
        as `"long"`, `"decimal(9, 2)"` or `"struct<city: string, zip: int>"`."""
        position = Position.of(first=first, after=after, before=before)
        return self.add(AddColumn(name, type, doc, required, default, position))

    def drop_column(self, name: Name) -> Self:
        """Leave a column out; its values in files are never seen again."""
        return self.add(DropColumn(name))

    def rename_column(self, name: Name, new_name: str) -> Self:
        """Give a column another name of its own; its values stay."""
        return self.add(RenameColumn(name, new_name))

    def change_type(self, name: Name, type: Any) -> Self:
        """Widen a column: int to long, float to double, decimals of more digits."""
        return self.add(WidenColumn(name, type))

    def set_optional(self, name: Name) -> Self:
        """Let rows have no value of a column."""
        return self.add(SetRequired(name, required=False))

    def set_required(self, name: Name) -> Self:
        """Of a column that these changes add, with a default."""
        return self.add(SetRequired(name, required=True))

    def set_doc(self, name: Name, doc: str | None) -> Self:
        """Say what a column is."""
        return self.add(SetDoc(name, doc))

    def set_default(self, name: Name, default: Any) -> Self:
        """What new rows have that do not name the column (version 3)."""
        return self.add(SetDefault(name, default))

    def move_column(
        self,
        name: Name,
        *,
        first: bool = False,
        after: str | None = None,
        before: str | None = None,
    ) -> Self:
        """Put a column first, or beside another of its struct."""
        position = Position.of(first=first, after=after, before=before)
        if position is None:
            raise ConfigError("a column goes somewhere: first, after or before another")
        return self.add(MoveColumn(name, position))

    def set_identifier_fields(self, *names: Name) -> Self:
        """The columns that identify a row; none: rows are not identified."""
        return self.add(SetIdentifier(names))

    def add_partition_field(self, term: str, name: str | None = None) -> Self:
        """File new files by `term` as well: `"region"`, `"day(ts)"`, `"bucket(16, id)"`."""
        return self.add(AddPartitionField(term, name))

    def drop_partition_field(self, given: str) -> Self:
        """By its name or its term; files that are there stay where they are."""
        return self.add(RemovePartitionField(given))

    def rename_partition_field(self, name: str, new_name: str) -> Self:
        """Give a partition field another name."""
        return self.add(RenamePartitionField(name, new_name))

    def set_sort_order(self, order: str) -> Self:
        """How new files are sorted: `"day(ts), id DESC NULLS LAST"`; empty: not at all."""
        return self.add(SetSortOrder(order))

    def set_properties(self, properties: Mapping[str, str]) -> Self:
        """Set properties of the table."""
        return self.add(SetTableProperties(dict(properties)))

    def unset_properties(self, *names: str) -> Self:
        """Forget properties."""
        return self.add(UnsetTableProperties(names))

    def upgrade(self, format_version: int) -> Self:
        """Continue in version 2 or 3 of the format; there is no way back."""
        return self.add(UpgradeFormat(format_version))

    def create_branch(
        self,
        name: str,
        as_of: Any = None,
        *,
        max_ref_age_ms: int | None = None,
        min_snapshots_to_keep: int | None = None,
        max_snapshot_age_ms: int | None = None,
        replace: bool = False,
        if_absent: bool = False,
    ) -> Self:
        """A branch at a snapshot, branch, tag or time, by default where the main branch is; how
        long it and its snapshots are kept is the table's setting where nothing is said. `replace`
        moves one that is there."""
        retention = Retention(max_ref_age_ms, min_snapshots_to_keep, max_snapshot_age_ms)
        return self.add(CreateRef(name, BRANCH, as_of, retention, replace, if_absent))

    def create_tag(
        self,
        name: str,
        as_of: Any = None,
        *,
        max_ref_age_ms: int | None = None,
        replace: bool = False,
        if_absent: bool = False,
    ) -> Self:
        """A tag, as `create_branch`."""
        retention = Retention(max_ref_age_ms)
        return self.add(CreateRef(name, TAG, as_of, retention, replace, if_absent))

    def drop_branch(self, name: str, *, if_present: bool = False) -> Self:
        """Forget a branch; what it alone kept is expired with the next snapshots."""
        return self.add(DropRef(name, BRANCH, if_present))

    def drop_tag(self, name: str, *, if_present: bool = False) -> Self:
        """Forget a tag."""
        return self.add(DropRef(name, TAG, if_present))

    def rename_branch(self, name: str, new_name: str) -> Self:
        """Give a branch another name."""
        return self.add(RenameRef(name, BRANCH, new_name))

    def fast_forward(self, branch: str = MAIN, to: Any = None) -> Self:
        """Take a branch to where another one is that is ahead of it: what was written and checked
        there is published."""
        return self.add(FastForward(branch, to))

    def set_branch_retention(
        self,
        name: str,
        *,
        max_ref_age_ms: int | None = None,
        min_snapshots_to_keep: int | None = None,
        max_snapshot_age_ms: int | None = None,
    ) -> Self:
        """How long a branch and its snapshots are kept; what is not named stays as it is."""
        retention = Retention(max_ref_age_ms, min_snapshots_to_keep, max_snapshot_age_ms)
        return self.add(Retain(name, BRANCH, retention))

    def set_tag_retention(self, name: str, max_ref_age_ms: int) -> Self:
        """How long a tag is kept."""
        return self.add(Retain(name, TAG, Retention(max_ref_age_ms)))

    def rollback(self, to: Any) -> Self:
        """Take the main branch back to a snapshot or time that it came from."""
        return self.add(Rollback(to))

    def set_current_snapshot(self, to: Any) -> Self:
        """Take the main branch to any snapshot, branch or tag."""
        return self.add(Rollback(to, any_snapshot=True))

    def publish(self, wap_id: str) -> Self:
        """Take the main branch to what Spark staged under `spark.wap.id`."""
        return self.add(PublishStaged(wap_id))

    def plan(self) -> ChangePlan:
        """What `commit` would do now; changes nothing. Raises ConfigError for what cannot be."""
        metadata = self._table.refresh()
        return plan_changes(metadata, self._steps, now_ms=self._clock.now_ms())

    def commit(self) -> str | None:
        """Make the changes; the location of the new metadata, None when there was nothing to do.

        Raises ConfigError for a change that cannot be, ConflictError when another writer was first
        and the changes cannot be made on what it left, UnknownOutcomeError when it is unknown
        whether they were made, StorageUnavailableError, CorruptTableError, UnsupportedTableError.
        """
        run = execute_changes(self._table.operations, self._steps, clock=self._clock)
        location = committed_location(run.outcome, table=self._table.io.location.uri)
        if isinstance(run.outcome, Committed):
            self._table.take(run.outcome.loaded)
        self._steps = []
        return location

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.commit()
