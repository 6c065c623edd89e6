"""Pieces of SQL."""

from __future__ import annotations

from typing import Any

from tideline.ingest.sources.postgres.session import Connection


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def one(connection: Connection, statement: str, given: tuple[object, ...] = ()) -> tuple[Any, ...]:
    found = connection.execute(statement.encode(), given or None).fetchone()
    assert found is not None
    return found
