"""A table of Postgres, one of the lake, and the ingests between them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tideline.errors import StorageUnavailableError
from tideline.ingest.column_type import Column, ColumnType
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.execute.table_access import open_table
from tideline.ingest.execute.table_checkpoints import current_checkpoints
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import IngestRange, Operation, TableTarget
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.own_reach import own_reach
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.look import PostgresLook
from tideline.ingest.sources.postgres.ranges import PostgresRange
from tideline.ingest.sources.source import Limits, Lost, Nothing
from tideline.storage.location import StoreLocation
from tideline.testing.people_ingest import no_session
from tideline.testing.postgres_server import PostgresDatabase

_NAME = "orders"
_PAUSE_S = 0.05
_LIMITS = Limits(1, 0)


@dataclass
class PostgresFeed:
    """Ingests of one table into the table below `folder`."""

    folder: Path
    source: DeclaredPostgres
    columns: tuple[Column, ...] = ()
    key: tuple[str, ...] = ("id",)
    table_type: str = "MERGE_ON_READ"
    operation: str = "upsert"
    ordering: tuple[str, ...] = ()
    bad_rows_max: int | None = None
    results: list[OperationResult] = field(default_factory=list)

    @classmethod
    def of(
        cls, folder: Path, database: PostgresDatabase, table: str = "orders", **declared: Any
    ) -> PostgresFeed:
        slot = database.slot
        source = DeclaredPostgres(table=table, slot=slot, publication=slot)
        return cls(folder, replace(source, **declared))

    def typed(self, **types: str) -> PostgresFeed:
        """The same with these columns in the table."""
        columns = (Column(name, ColumnType.parse(kind)) for name, kind in types.items())
        return replace(self, columns=tuple(columns), results=[])

    @property
    def target(self) -> TableTarget:
        return TableTarget(
            _NAME,
            Location(f"file://{self.folder}/table"),
            self.key,
            ordering=self.ordering,
            table_type=self.table_type,
            schema=self.columns,
        )

    def checkpoint(self) -> Checkpoint | None:
        return current_checkpoints(open_table(self.target), _NAME).get(_NAME)

    def look(self) -> PostgresLook:
        checkpoint = self.checkpoint()
        position = None if checkpoint is None else checkpoint.position
        reach = own_reach(lambda _: StoreLocation.of(str(self.folder)).open())
        return self.source.positions(reach, position)

    def plan(self) -> Operation | Nothing | Lost:
        """The next operation, as a planner makes it."""
        checkpoint = self.checkpoint()
        position = None if checkpoint is None else checkpoint.position
        look = self.look()
        found = look.plan(position, _LIMITS)
        if isinstance(found, Nothing) and look.backlog(position, _LIMITS).remembered:
            found = self.source.no_range()
        if not isinstance(found, PostgresRange):
            assert isinstance(found, Nothing | Lost)
            return found
        generation = 0 if checkpoint is None else checkpoint.generation
        work = IngestRange(
            _NAME, self.source, found, generation, self.operation, bad_rows_max=self.bad_rows_max
        )
        return Operation(f"{_NAME}-ingest", self.target, work)

    def execute(self, operation: Operation) -> OperationResult:
        read = Operation.from_json_object(operation.to_json_object())
        assert read == operation
        result = execute_operation(read, session_factory=no_session)
        self.results.append(result)
        return result

    def drain(self) -> Lost | None:
        """Ingest until there is nothing more."""
        while isinstance(operation := self.plan(), Operation):
            result = self.execute(operation)
            assert result.exit_code == 0, result.message
        return operation if isinstance(operation, Lost) else None

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """The table's rows, by their first column."""
        table = open_table(self.target)
        if table is None:
            return []
        found = table.to_arrow().select(list(columns or ("id", "v")))
        return sorted((tuple(row.values()) for row in found.to_pylist()), key=lambda row: row[0])


def ingest_postgres_until(feed: PostgresFeed, stop: str) -> None:
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
