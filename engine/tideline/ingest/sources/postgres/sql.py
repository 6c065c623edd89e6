"""Parts of SQL statements."""

from __future__ import annotations

from typing import Any

from tideline.ingest.sources.postgres.session import Connection


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def number_of(oid: int) -> str:
    """A table's number as messages of the log have it, in SQL."""
    return f"'\\x{oid:08x}'::bytea"


LISTS_AND_SCHEMAS_SINCE = 150_000
"""The version whose publications have lists of columns, conditions for rows, and schemas."""


def server_version(connection: Connection) -> int:
    """150004 for 15.4."""
    (version,) = one_row(connection, "select current_setting('server_version_num')::int")
    return int(version)


def one_row(
    connection: Connection, statement: str, given: tuple[object, ...] = ()
) -> tuple[Any, ...]:
    found = connection.execute(statement.encode(), given or None).fetchone()
    assert found is not None
    return found


def whole(value: object) -> int:
    """A number of an answer. A server that lies says itself of what types its answers are."""
    if not isinstance(value, int):
        raise TypeError("an answer has no number where there is one")
    return value
