"""Tables of Postgres that share a slot, one table of the lake for each, and the ingests between."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tideline.errors import StorageUnavailableError
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.look import STEP_BYTES
from tideline.ingest.sources.postgres.position import PostgresPosition
from tideline.ingest.sources.postgres.server import advance_slot
from tideline.ingest.sources.postgres.shared_slot import DeclaredSlot, Floor, SlotTable, floor_of
from tideline.ingest.sources.postgres.slot_tables import look_at_slot
from tideline.ingest.sources.source import Lost
from tideline.testing.postgres_feed import PostgresFeed
from tideline.testing.postgres_server import PostgresDatabase

_PAUSE_S = 0.05


@dataclass
class SharedSlotFeed:
    """Feeds of all tables that the server has, which are made on first sight."""

    folder: Path
    slot: DeclaredSlot
    changes_max: int = 1000
    table_type: str = "MERGE_ON_READ"
    step_bytes: int = STEP_BYTES

    @classmethod
    def of(cls, folder: Path, database: PostgresDatabase, changes_max: int) -> SharedSlotFeed:
        slot = database.slot
        return cls(folder, DeclaredSlot(slot, slot, "POSTGRES_URI"), changes_max)

    def tables(self) -> tuple[SlotTable, ...]:
        return tuple(table for table in look_at_slot(self.slot).tables if not table.obstacle)

    def feed(self, table: SlotTable) -> PostgresFeed:
        """The feed of one table."""
        source = DeclaredPostgres(
            table=table.full_name,
            slot=self.slot.slot,
            publication=self.slot.publication,
            changes_max=self.changes_max,
            step_bytes=self.step_bytes,
            is_shared=True,
        )
        folder = self.folder / table.full_name
        return PostgresFeed(folder, source, key=table.key, table_type=self.table_type)

    def named(self, name: str) -> PostgresFeed:
        """The feed of the table of this name in the schema public."""
        return next(self.feed(table) for table in self.tables() if table.name == name)

    def step(self, names: Iterable[str] = ()) -> list[OperationResult]:
        """One operation for each table, or those named, that has something to do."""
        results = []
        for table in self.tables():
            if names and table.name not in names:
                continue
            feed = self.feed(table)
            operation = feed.plan()
            assert not isinstance(operation, Lost), operation
            if isinstance(operation, Operation):
                results.append(feed.execute(operation))
        return results

    def floor(self) -> Floor | None:
        tables = self.tables()
        return floor_of(tables, {table.full_name: self._position(table) for table in tables})

    def move(self) -> Floor | None:
        """Let the slot move to what all tables have."""
        floor = self.floor()
        if floor is not None and floor.lsn is not None:
            advance_slot(self.slot, floor.lsn)
        return floor

    def drain(self) -> None:
        """Ingest until there is nothing more."""
        while results := self.step():
            for result in results:
                assert result.exit_code == 0, result.message
            self.move()

    def _position(self, table: SlotTable) -> PostgresPosition | None:
        checkpoint = self.feed(table).checkpoint()
        position = None if checkpoint is None else checkpoint.position
        return position if isinstance(position, PostgresPosition) else None


def ingest_tables_until(feeds: SharedSlotFeed, stop: str) -> None:
    """Ingest what comes to any table until the file `stop` exists, for a process that is killed
    meanwhile."""
    while not Path(stop).exists():
        try:
            results = feeds.step()
            feeds.move()
        except StorageUnavailableError:
            results = []
        for result in results:
            assert result.outcome is not Outcome.FAILED or result.is_safe_to_retry, result.message
        if not results:
            time.sleep(_PAUSE_S)
