"""A table of Postgres, one of the lake, and the ingests between them."""

from __future__ import annotations

import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.look import PostgresLook
from tideline.ingest.sources.postgres.position import PostgresPosition
from tideline.ingest.sources.postgres.wire.look import look_by
from tideline.ingest.sources.source import Nothing
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


def position(found: PostgresFeed) -> PostgresPosition:
    """How far its table has read."""
    checkpoint = found.checkpoint()
    assert checkpoint is not None and isinstance(checkpoint.position, PostgresPosition)
    return checkpoint.position


def require_equal(found: PostgresFeed, database: PostgresDatabase) -> None:
    """Its table has the rows of ORDERS, and there is nothing more to read."""
    assert found.drain() is None
    assert isinstance(found.plan(), Nothing)
    assert found.rows("id", "v", "n") == database.execute("select id, v, n from orders order by id")


def look_by_wire(source: DeclaredPostgres, uri: str, after: PostgresPosition) -> PostgresLook:
    """As the operator looks."""
    return look_by(
        source,
        {"POSTGRES_URI": uri},
        lambda host, port: socket.create_connection((host, port), 3.0),
        after,
    )
