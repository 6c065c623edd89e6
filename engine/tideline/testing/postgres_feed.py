"""A table of Postgres, one of the lake, and the ingests between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.testing.postgres_server import PostgresDatabase
from tideline.testing.stream_feed import StreamFeed

ORDERS = "create table orders (id bigint primary key, v text, n int)"
TEN = "insert into orders select g, 'v' || g, g from generate_series(1, 10) g"


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


def orders_feed(folder: Path, database: PostgresDatabase, **declared: Any) -> PostgresFeed:
    """That of the table ORDERS."""
    return PostgresFeed.of(folder, database, **declared).typed(id="long", v="string", n="int")
