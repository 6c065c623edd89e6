"""Commits of a server of Postgres: until others see them, and until the log has them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from tideline.errors import StorageUnavailableError
from tideline.ingest.sources.postgres.connection import OfServer
from tideline.ingest.sources.postgres.session import Connection
from tideline.ingest.sources.postgres.sql import one_row

COMMITS_WAITED_S = 120.0
_POLL_S = 0.2


def wait_for_commits(source: OfServer, connection: Connection) -> None:
    """Until all transactions are over that were open when this was called."""
    (until,) = one_row(connection, "select pg_snapshot_xmax(pg_current_snapshot())::text")
    deadline_s = time.monotonic() + COMMITS_WAITED_S
    while True:
        (oldest,) = one_row(connection, "select pg_snapshot_xmin(pg_current_snapshot())::text")
        if int(oldest) >= int(until):
            return
        if time.monotonic() > deadline_s:
            message = f"a transaction has been open for {COMMITS_WAITED_S:.0f} s: the copy waits"
            raise StorageUnavailableError(message, path=source.uri)
        time.sleep(_POLL_S)


def flush(connection: Connection) -> None:
    """Have the log flushed up to here: without synchronous commits rows are seen earlier."""
    # Standbys are not waited for.
    connection.execute("set synchronous_commit = local")
    connection.execute("select pg_logical_emit_message(true, 'tideline', '')")


@contextmanager
def snapshot_after(
    source: OfServer, connection: Connection, xids: Collection[int]
) -> Iterator[None]:
    """A transaction that sees the rows of these."""
    deadline_s = time.monotonic() + COMMITS_WAITED_S
    while True:
        connection.execute("begin isolation level repeatable read read only")
        (snapshot,) = one_row(connection, "select pg_current_snapshot()::text")
        if not _open_in(snapshot) & set(xids):
            break
        connection.execute("rollback")
        if time.monotonic() > deadline_s:
            raise StorageUnavailableError("commits are not visible yet", path=source.uri)
        time.sleep(_POLL_S)
    yield
    connection.execute("rollback")


def _open_in(snapshot: str) -> set[int]:
    """Transactions that a snapshot does not see although they are in the log, as the log numbers
    them. Those that begin later are not in the log."""
    return {int(xid) & 0xFFFFFFFF for xid in snapshot.split(":")[2].split(",") if xid}
