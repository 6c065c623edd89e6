"""A table of Postgres, one of the lake, and the ingests between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.testing.postgres_server import PostgresDatabase
from tideline.testing.stream_feed import StreamFeed


@dataclass
class PostgresFeed(StreamFeed):
    """Ingests of one table."""

    source: DeclaredPostgres

    @classmethod
    def of(
        cls, folder: Path, database: PostgresDatabase, table: str = "orders", **declared: Any
    ) -> PostgresFeed:
        slot = database.slot
        source = DeclaredPostgres(table=table, slot=slot, publication=slot)
        return cls(folder, replace(source, **declared))
