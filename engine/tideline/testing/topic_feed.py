"""Topics, a table, and the ingests between them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
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
from tideline.ingest.sources.kafka.declared import DeclaredKafka
from tideline.ingest.sources.kafka.records import KafkaRange
from tideline.ingest.sources.own_reach import own_reach
from tideline.ingest.sources.source import Limits, Lost, Nothing
from tideline.storage.location import StoreLocation
from tideline.testing.people_ingest import no_session

SCHEMA = tuple(
    Column(name, ColumnType.parse(kind))
    for name, kind in (("id", "long"), ("ts", "long"), ("v", "string"))
)
_NAME = "orders"
_PAUSE_S = 0.05


@dataclass
class TopicFeed:
    """Ingests of topics into the table below `folder`, by the record key `id`."""

    folder: Path
    source: DeclaredKafka
    operation: str = "upsert"
    ordering: tuple[str, ...] = ("ts",)
    table_type: str = "MERGE_ON_READ"
    partition_by: tuple[str, ...] = ()
    bad_rows_max: int | None = None
    key: tuple[str, ...] = ("id",)
    schema: tuple[Column, ...] = SCHEMA
    table_version: int = 8
    properties: dict[str, str] = field(default_factory=dict)
    results: list[OperationResult] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Path, brokers: str, *topics: str, **declared: Any) -> TopicFeed:
        source = DeclaredKafka(brokers=brokers, topics=topics, schema=SCHEMA)
        return cls(folder, replace(source, **declared))

    @property
    def target(self) -> TableTarget:
        return TableTarget(
            _NAME,
            Location(f"file://{self.folder}/table"),
            self.key,
            self.partition_by,
            ordering=self.ordering,
            table_type=self.table_type,
            table_version=self.table_version,
            schema=self.schema,
            creation_properties=self.properties,
        )

    def checkpoint(self) -> Checkpoint | None:
        return current_checkpoints(open_table(self.target), _NAME, source=self.source).get(_NAME)

    def plan(self) -> Operation | Nothing | Lost:
        """The next operation, as a planner makes it."""
        checkpoint = self.checkpoint()
        position = None if checkpoint is None else checkpoint.position
        reach = own_reach(lambda _: StoreLocation.of(str(self.folder)).open())
        available = self.source.positions(reach, position)
        found = available.plan(position, Limits(1, 0))
        if not isinstance(found, KafkaRange):
            assert isinstance(found, Nothing | Lost)
            return found
        work = IngestRange(
            _NAME,
            self.source,
            found,
            0 if checkpoint is None else checkpoint.generation,
            self.operation,
            bad_rows_max=self.bad_rows_max,
        )
        return Operation(f"{_NAME}-ingest", self.target, work)

    def execute(self, operation: Operation) -> OperationResult:
        result = execute_operation(operation, session_factory=no_session)
        self.results.append(result)
        return result

    def drain(self) -> Lost | None:
        """Ingest until there is nothing more."""
        while isinstance(operation := self.plan(), Operation):
            result = self.execute(operation)
            assert result.exit_code == 0, result.message
        return operation if isinstance(operation, Lost) else None

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """The table's rows, sorted."""
        table = open_table(self.target)
        if table is None:
            return []
        found = table.to_arrow().select(list(columns or ("id", "v")))
        return sorted(tuple(row.values()) for row in found.to_pylist())


def ingest_topics_until(feed: TopicFeed, stop: str) -> None:
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


def values(rows: Iterable[tuple[int, int, str | None]]) -> list[tuple[str, str]]:
    """Keys and JSON values of rows (id, ts, v)."""
    return [
        (str(number), json.dumps({"id": number, "ts": ts, "v": text})) for number, ts, text in rows
    ]
