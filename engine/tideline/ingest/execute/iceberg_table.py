"""An Iceberg table as ingests see it: the snapshot of rows has the checkpoint, and a property.

1. Columns that rows bring are added, and widened, before: a commit of its own, which a death leaves
   behind, and which changes no row.
2. One conditional commit makes the rows and the checkpoint visible. At each attempt the table is
   looked at again: another driver of the same ingest that has committed since the plan is a
   conflict, any other writer is not.
3. A process that dies before leaves files that no snapshot lists, for remove_orphan_files; one that
   dies after it a checkpoint that says that the range is in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tideline.clock import Clock, SystemClock
from tideline.commit_report import CommitReport
from tideline.errors import (
    ConfigError,
    ConflictError,
    InvalidDataError,
    ObjectNotFoundError,
    TableExistsError,
)
from tideline.hudi.table.missing_columns import MissingColumns
from tideline.hudi.table.partial_updates import UNAVAILABLE
from tideline.hudi.table.schema_change import NO_CHANGE, SchemaChange
from tideline.hudi.table.schema_evolution import evolve
from tideline.hudi.write.batch_rules import ARRIVAL, DELETED_FLAG
from tideline.iceberg.evolution.columns import AddColumn, WidenColumn
from tideline.iceberg.evolution.execute import plan_changes
from tideline.iceberg.evolution.step import Step
from tideline.iceberg.metadata.snapshot import MAIN
from tideline.iceberg.metadata.table_metadata import FORMAT_VERSION, TableMetadata
from tideline.iceberg.write.given_rows import GivenRows, StreamedRows, row_stream
from tideline.iceberg.write.new_schema import new_schema
from tideline.iceberg.write.write_operation import IcebergOperation
from tideline.iceberg.write.write_request import IcebergWrite, UpsertRules, WriterProgress
from tideline.iceberg_lake_table import IcebergLakeTable, create_iceberg
from tideline.iceberg_writing import write_given
from tideline.ingest.arrow_schema import arrow_schema
from tideline.ingest.execute.ingest_table import FILES_KEY, TakenRange
from tideline.ingest.execute.named_columns import NamedRows, as_arrived, as_named, names_in
from tideline.ingest.execute.table_access import OPERATION_PROPERTY, open_declared_iceberg
from tideline.ingest.operation.operation import CatalogEntry, IngestRange, Operation
from tideline.ingest.sources.checkpoint import INGEST_KEY, Checkpoint
from tideline.ingest.sources.iceberg_checkpoints import (
    iceberg_checkpoints,
    properties_of,
    properties_of_copies,
    require_iceberg_generation,
    summary_of,
)
from tideline.ingest.sources.iceberg_copies import (
    MAIN_KEY,
    PARENT,
    branch_for,
    copy_branch,
    require_no_other_copy,
)
from tideline.ingest.sources.source import Shape, Sweep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAMES_KEPT_MAX = 20
"""Metadata has the summaries of all snapshots."""
_SYSTEM_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class IcebergIngestTable:
    """See `IngestTable`; `lake` is None where the table was not there when this was opened."""

    operation: Operation
    lake: IcebergLakeTable | None = None
    clock: Clock = _SYSTEM_CLOCK

    @classmethod
    def open(cls, operation: Operation, clock: Clock = _SYSTEM_CLOCK) -> IcebergIngestTable:
        """Raises as `open_iceberg`, but where there is no table."""
        try:
            return cls(operation, open_declared_iceberg(operation.table, clock), clock)
        except ObjectNotFoundError:
            return cls(operation, None, clock)

    @property
    def uri(self) -> str:
        entry = self.operation.table.catalog
        return self.operation.table.location.uri if entry is None else entry.table

    @property
    def exists(self) -> bool:
        return self.lake is not None

    @property
    def record_key(self) -> tuple[str, ...]:
        return self.operation.table.record_key

    @property
    def ordering(self) -> tuple[str, ...]:
        return self.operation.table.ordering

    def columns(self) -> pa.Schema | None:
        return None if self.lake is None else self.lake.schema

    def checkpoints(self, work: IngestRange) -> dict[str, Checkpoint]:  # noqa: ARG002
        return {} if self.lake is None else iceberg_checkpoints(self.lake.metadata)

    def other_ingests(self, work: IngestRange) -> list[str]:
        return _others(self.checkpoints(work), work)

    def shape(self, shape: Shape) -> Shape:
        """An upsert takes values that were not available from the row before."""
        head = None if self.lake is None else self.lake.metadata.ref_snapshot()
        newest = "" if head is None else str(head.snapshot_id)
        found = replace(shape, newest_instant=newest)
        return replace(found, unavailable=UNAVAILABLE) if shape.can_delete else found

    def on_spark(self, shape: Shape, *, deletes: bool) -> Shape:
        """Rows without a value where the table must have one are at fault."""
        if deletes:
            return replace(shape, required=self.record_key)
        columns = self.columns()
        required = () if columns is None else [item.name for item in columns if not item.nullable]
        required = tuple(dict.fromkeys((*self.record_key, *required)))
        ordering = self.ordering if shape.can_delete else ()
        return replace(shape, required=required, ordering=ordering)

    def why_spark(self, work: IngestRange, size_bytes: int = 0) -> str | None:  # noqa: ARG002
        """Rows of an Iceberg table are written here."""
        IcebergOperation.named(work.write_operation, default=IcebergOperation.APPEND)
        return None

    def created(self) -> IcebergIngestTable:
        declared = self.operation.table.schema
        return self._created(arrow_schema(declared)) if declared else self.found()

    def upgraded(self) -> int | None:
        wanted, lake = self.operation.table.format_version, self.lake
        if lake is None or wanted is None or wanted <= lake.metadata.format_version:
            return None
        lake.alter().upgrade(wanted).commit()
        return wanted

    def found(self) -> IcebergIngestTable:
        return self if self.exists else IcebergIngestTable.open(self.operation, self.clock)

    def stand_in(self) -> IcebergIngestTable:
        return self

    def count_keys(self, rows: DataFrame) -> tuple[int, int]:
        from tideline.spark.source_files.landed_rows import count_rows_and_values

        return count_rows_and_values(rows, self.record_key)

    def try_rows(self, rows: DataFrame, work: IngestRange) -> None:  # noqa: ARG002
        from tideline.spark.source_files.landed_rows import computed_columns

        columns = computed_columns(rows.drop(ARRIVAL, DELETED_FLAG))
        self._steps(columns, missing=MissingColumns.OPTIONAL_ARE_NULL)

    def write(self, rows: Any, taken: TakenRange) -> CommitReport:
        operation = IcebergOperation.named(
            taken.work.write_operation, default=IcebergOperation.UPSERT
        )
        return self._written(rows, self._request(operation, taken))

    def write_all(self, rows: Any, taken: TakenRange) -> CommitReport:
        wanted, work = self._request(IcebergOperation.OVERWRITE, taken), taken.work
        progress = wanted.progress

        def require(now: TableMetadata) -> None:
            progress.require(now)
            if others := _others(iceberg_checkpoints(now), work):
                message = f"ingest {others[0]!r} has committed since this one began"
                raise ConflictError(message, table=self.uri)

        return self._written(rows, replace(wanted, progress=replace(progress, require=require)))

    def begin_again(self, rows: pa.Table, taken: TakenRange) -> CommitReport:
        """A branch takes the copy in, and readers of main see nothing of it."""
        branch = self._copy(taken.work) or branch_for(taken.work.name)
        progress = self._progress(taken, branch, main=PARENT)
        wanted = IcebergWrite(IcebergOperation.OVERWRITE, progress=progress, onto=branch)
        note = f"branch {branch} takes the copy in; readers of main see it once it is whole"
        report = self._written(rows, wanted)
        return replace(report, rows_deleted=0, notes=(*report.notes, note))

    def sweep(
        self,
        wanted: Sweep,  # noqa: ARG002
        bytes_max: int,  # noqa: ARG002
        taken: Callable[[bool], TakenRange],
        progress: Callable[[str], None],
    ) -> CommitReport:
        """The copy takes the place of main."""
        assert self.lake is not None, "there is a table to copy into"
        done, nothing = taken(True), self.lake.schema.empty_table()
        branch = self._copy(done.work)
        if branch is None:
            # Somebody took main to the copy.
            return self.write(nothing, done)
        progress(f"branch {branch} takes the place of main")
        request = self._request(IcebergOperation.APPEND, done)
        over = properties_of_copies(self.lake.metadata)
        last = replace(
            request.progress,
            properties=properties_of(done.work.name, done.checkpoint, is_copy=False),
            over=over,
        )
        return self._written(nothing, replace(request, progress=last, onto=MAIN, ends=True))

    def _request(self, operation: IcebergOperation, taken: TakenRange) -> IcebergWrite:
        """A write to main, or to the branch of a copy that is under way."""
        branch = self._copy(taken.work)
        head = None if branch is None or self.lake is None else self.lake.metadata.ref_snapshot()
        progress = self._progress(taken, branch, main="" if head is None else str(head.snapshot_id))
        return IcebergWrite(operation, branch=branch or MAIN, progress=progress)

    def _copy(self, work: IngestRange) -> str | None:
        if self.lake is None:
            return None
        return copy_branch(self.lake.metadata, work.name, work.former_name)

    def _written(self, rows: Any, wanted: IcebergWrite) -> CommitReport:
        if isinstance(rows, pa.Table):
            return self._written_as(rows, rows.schema, wanted)
        from tideline.spark.source_files.landed_rows import once_computed

        # Rows that cannot be computed make no table, and add no column to one.
        with once_computed(rows) as (computed, columns):
            return self._written_as(computed, columns, wanted)

    def _written_as(self, rows: Any, found: pa.Schema, wanted: IcebergWrite) -> CommitReport:
        operation = wanted.operation
        columns = _own_columns(found)
        made = self._created(columns)
        lake = made.lake
        assert lake is not None, "it was created"
        change = NO_CHANGE if operation is IcebergOperation.DELETE else made._evolved(columns)
        schema, rules = lake.schema, UpsertRules()
        if operation is IcebergOperation.UPSERT:
            flag = DELETED_FLAG if DELETED_FLAG in found.names else None
            rules = UpsertRules(names_in(schema, self.ordering), flag, UNAVAILABLE)
            if flag is not None and flag not in schema.names:
                schema = schema.append(pa.field(flag, pa.bool_()))
        key = names_in(lake.schema, self.record_key) if operation.is_keyed else ()
        write = replace(wanted, key=key, rules=rules)
        given = _given(rows, schema, operation)
        report = write_given(lake.table, given, write, self.clock)
        return replace(
            report,
            columns_added=change.added_texts,
            columns_widened=change.widened_texts,
            notes=(*report.notes, *change.notes),
        )

    def _progress(self, taken: TakenRange, copy: str | None, main: str) -> WriterProgress:
        """What the commit keeps, of the branch of a `copy` with where `main` is."""
        work, checkpoint = taken.work, taken.checkpoint
        names = json.dumps(taken.names[:NAMES_KEPT_MAX], ensure_ascii=False, separators=(",", ":"))

        def require(now: TableMetadata) -> None:
            require_iceberg_generation(now, work.name, work.former_name, work.generation)
            require_no_other_copy(now, copy, begins=main == PARENT)

        return WriterProgress(
            {
                **summary_of(work.name, checkpoint),
                INGEST_KEY: work.name,
                OPERATION_PROPERTY: taken.operation_id,
                FILES_KEY: names,
                **({} if copy is None else {MAIN_KEY: main}),
            },
            properties_of(work.name, checkpoint, is_copy=copy is not None),
            require=require,
        )

    def _created(self, columns: pa.Schema) -> IcebergIngestTable:
        """The table, with those of these columns that have a type where it is new: one with nothing
        but nulls waits for a value. Raises ConfigError for what cannot be."""
        known = self.found()
        if known.exists:
            return known
        target = self.operation.table
        entry = target.catalog or CatalogEntry("", target.location.uri)
        try:
            made = create_iceberg(
                entry.table,
                evolve(None, columns).schema,
                key=target.record_key,
                partition_by=target.partition_by,
                format_version=target.format_version or FORMAT_VERSION,
                properties=target.creation_properties,
                catalog=entry.catalog or None,
                catalog_properties=dict(entry.properties),
                storage_options=dict(target.location.options),
                clock=self.clock,
            )
        except TableExistsError:
            return self.found()
        return replace(self, lake=made)

    def _evolved(self, incoming: pa.Schema) -> SchemaChange:
        """Give the table the columns that rows bring. Raises InvalidDataError."""
        change, steps = self._steps(incoming)
        if not steps:
            return change
        assert self.lake is not None, "columns are those of a table"
        changes = self.lake.alter()
        for step in steps:
            changes.add(step)
        changes.commit()
        return change

    def _steps(
        self, incoming: pa.Schema, missing: MissingColumns = MissingColumns.NULL
    ) -> tuple[SchemaChange, list[Step]]:
        """How the columns of the table change, and that they can. Raises InvalidDataError."""
        if self.lake is None:
            return NO_CHANGE, []
        lake = self.lake
        evolved = evolve(lake.schema, incoming, missing=missing)
        steps = list(_changes(evolved.schema, evolved.change, lake.metadata.format_version))
        try:
            plan_changes(lake.metadata, steps, now_ms=self.clock.now_ms())
        except ConfigError as error:
            raise InvalidDataError(error.message, table=self.uri, value=error.value) from error
        return evolved.change, steps


def _others(checkpoints: Mapping[str, Checkpoint], work: IngestRange) -> list[str]:
    return sorted(set(checkpoints) - {work.name, work.former_name})


def _own_columns(schema: pa.Schema) -> pa.Schema:
    """Without what is no column of a table: the flag of deletes, and the order of arrival."""
    return pa.schema([item for item in schema if item.name not in (DELETED_FLAG, ARRIVAL)])


def _given(rows: Any, schema: pa.Schema, operation: IcebergOperation) -> GivenRows:
    """The rows by the table's names for their columns; those of a DataFrame stay Spark's."""
    adds = operation is IcebergOperation.APPEND
    if isinstance(rows, pa.Table):
        arrived = as_arrived(rows)
        table = as_named(_without_deletes(arrived) if adds else arrived, schema)
        return StreamedRows((row_stream(table),))
    from tideline.spark.iceberg.frame_rows import FrameRows
    from tideline.spark.source_files.landed_rows import not_deleted

    frame = rows if operation.is_keyed else rows.drop(ARRIVAL)
    if adds and DELETED_FLAG in frame.columns:
        frame = not_deleted(frame)
    return FrameRows(frame, ARRIVAL, NamedRows(schema))


def _without_deletes(rows: pa.Table) -> pa.Table:
    """A row that deletes another adds none."""
    if DELETED_FLAG not in rows.column_names:
        return rows
    stays = pc.invert(pc.fill_null(rows.column(DELETED_FLAG), False))
    return rows.filter(stays).drop_columns([DELETED_FLAG])


def _changes(schema: pa.Schema, change: SchemaChange, format_version: int) -> Iterator[Step]:
    def kind(name: str) -> Any:
        column = pa.schema([pa.field("column", _type_at(schema, name))])
        made = new_schema(column, (), has_nanoseconds=format_version > 2)
        return made.fields[0].type

    for name, _ in change.added:
        yield AddColumn(name, kind(name))
    for name, _, _ in change.widened:
        yield WidenColumn(name, kind(name))


def _type_at(schema: pa.Schema, name: str) -> pa.DataType:
    """The type of a column, or of a part of one, by its dotted name."""
    first, *parts = name.split(".")
    return reduce(_part, parts, schema.field(first).type)


def _part(kind: pa.DataType, name: str) -> pa.DataType:
    if pa.types.is_struct(kind):
        return kind.field(name).type
    return kind.item_type if pa.types.is_map(kind) else kind.value_type
