"""A stream, a table of the lake, and the ingests between them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from tideline.clock import SystemClock
from tideline.errors import StorageUnavailableError
from tideline.hudi.table.layout.known_layouts import TABLE_VERSION
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.ingest.column_type import Column, ColumnType
from tideline.ingest.execute.copy_again import plan_again, read_again
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.execute.open_ingest_table import open_ingest_table
from tideline.ingest.execute.table_access import (
    SessionFactory,
    open_declared_iceberg,
    open_table,
)
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import (
    HUDI,
    ICEBERG,
    IngestRange,
    Operation,
    TableTarget,
)
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.own_reach import own_reach
from tideline.ingest.sources.source import Limits, Lost, Nothing
from tideline.lake_table import LakeTable
from tideline.testing.people_ingest import no_session

NAME = "orders"
"""Of the ingest, and of the table."""
ICEBERG_MODES = ("copy-on-write", "merge-on-read")
KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ", *ICEBERG_MODES)
"""Of tables that changes go into: Hudi's, then Iceberg's."""
_PAUSE_S = 0.05
_LIMITS = Limits(1, 0)


@dataclass
class StreamFeed:
    """Ingests of one source into a table: the one at `location`, or else below `folder`."""

    folder: Path
    source: Any
    operation: str = "upsert"
    ordering: tuple[str, ...] = ()
    table_type: str = "MERGE_ON_READ"
    partition_by: tuple[str, ...] = ()
    bad_rows_max: int | None = None
    key: tuple[str, ...] = ("id",)
    schema: tuple[Column, ...] = ()
    table_version: int = TABLE_VERSION
    properties: Mapping[str, str] = field(default_factory=dict)
    write_properties: Mapping[str, str] = field(default_factory=dict)
    location: Location | None = None
    format: str = HUDI
    results: list[OperationResult] = field(default_factory=list)
    session_factory: SessionFactory = no_session

    def typed(self, **types: str) -> Self:
        """The same with these columns in the table."""
        return replace(self, schema=columns(**types), results=[])

    def into(self, kind: str) -> Self:
        """The same with a table of one of KINDS."""
        if kind not in ICEBERG_MODES:
            return replace(self, table_type=kind)
        return replace(self, format=ICEBERG, properties={"write.merge.mode": kind})

    @property
    def target(self) -> TableTarget:
        return TableTarget(
            NAME,
            self.location or Location(f"file://{self.folder}/table"),
            self.key,
            self.partition_by,
            ordering=self.ordering,
            table_type=self.table_type,
            table_version=self.table_version,
            schema=self.schema,
            creation_properties=self.properties,
            write_properties=self.write_properties,
            format=self.format,
        )

    def table(self) -> LakeTable | None:
        return open_table(self.target)

    def lake(self) -> LakeTable | IcebergLakeTable:
        """The table, which is there."""
        if self.format == ICEBERG:
            return open_declared_iceberg(self.target, SystemClock())
        found = self.table()
        assert found is not None
        return found

    def checkpoint(self) -> Checkpoint | None:
        operation = self._resync()
        return open_ingest_table(operation).checkpoints(operation.ingest).get(NAME)

    def look(self) -> Any:
        """What the source has now, from where the table has read to."""
        return self._look(self.checkpoint())

    def plan(self) -> Operation | Nothing | Lost:
        """The next operation, as a planner makes it."""
        checkpoint = self.checkpoint()
        position = None if checkpoint is None else checkpoint.position
        look = self._look(checkpoint)
        found = look.plan(position, _LIMITS)
        if isinstance(found, Nothing) and look.backlog(position, _LIMITS).remembered:
            found = self.source.no_range()
        if isinstance(found, Nothing | Lost):
            return found
        work = IngestRange(
            NAME,
            self.source,
            found,
            0 if checkpoint is None else checkpoint.generation,
            self.operation,
            bad_rows_max=self.bad_rows_max,
        )
        return Operation(f"{NAME}-ingest", self.target, work)

    def execute(self, operation: Operation) -> OperationResult:
        """Carry it out, as a process does that reads it."""
        read = Operation.from_json_object(operation.to_json_object())
        result = execute_operation(read, session_factory=self.session_factory)
        self.results.append(result)
        return result

    def again(self) -> OperationResult:
        """Begin to read the source again."""
        return read_again(self._resync())

    def plan_again(self) -> Operation:
        """The operation that begins it."""
        return plan_again(self._resync())

    def drain(self) -> Lost | None:
        """Ingest until there is nothing more."""
        while isinstance(operation := self.plan(), Operation):
            result = self.execute(operation)
            assert result.exit_code == 0, result.message
        return operation if isinstance(operation, Lost) else None

    def rows(self, *names: str) -> list[tuple[Any, ...]]:
        """The table's rows, in the order of their first column."""
        if not open_ingest_table(self._resync()).exists:
            return []
        found = self.lake().to_arrow(list(names or ("id", "v")))
        rows = (tuple(row.values()) for row in found.to_pylist())
        return sorted(rows, key=lambda row: (row[0], str(row[1:])))

    def _resync(self) -> Operation:
        work = IngestRange(NAME, self.source, self.source.no_range(), 0, self.operation)
        return Operation(f"{NAME}-resync", self.target, work)

    def _look(self, checkpoint: Checkpoint | None) -> Any:
        position = None if checkpoint is None else checkpoint.position
        return self.source.positions(own_reach(), position)


def ingest_until(feed: StreamFeed, stop: str) -> None:
    """Ingest what comes until the file `stop` exists, for a process that is killed meanwhile."""
    while not Path(stop).exists():
        try:
            operation = feed.plan()
        except StorageUnavailableError:
            operation = Nothing()
        if not isinstance(operation, Operation):
            assert isinstance(operation, Nothing), operation
            time.sleep(_PAUSE_S)
            continue
        result = feed.execute(operation)
        assert result.outcome is not Outcome.FAILED or result.is_safe_to_retry, result.message


def columns(**types: str) -> tuple[Column, ...]:
    """Columns by their names, with the text of their types."""
    return tuple(Column(name, ColumnType.parse(kind)) for name, kind in types.items())
