"""Turns at a slot: the session that has waited longest is next.

1. A slot is used by one session at a time. Those that want it queue at a lock of the server, which
   gives it to them in their order. Polling has none: one may wait for ever.
2. The lock is of a transaction, and ends with it. A session that dies has none, nor has one behind
   a pool of connections.
3. It gives an order and excludes nobody, the slot does. Where the lock is held too long, by
   anybody at all, the slot is used as without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tideline.ingest.sources.postgres.connection import LOCKED, TIMED_OUT, OfSlot, is_code
from tideline.ingest.sources.postgres.session import Connection

_TAKE = "select pg_advisory_xact_lock(hashtextextended('tideline turn ' || %s, 0))"


@contextmanager
def turn_at(source: OfSlot, connection: Connection, waited_s: float) -> Iterator[None]:
    """A transaction in which it is this session's turn, once that has come, or has not for so
    long."""
    connection.execute("begin")
    try:
        connection.execute(f"set local lock_timeout = {max(1, int(waited_s * 1000))}".encode())
        try:
            connection.execute(_TAKE, (source.slot,))
        except Exception as error:
            if not (is_code(error, LOCKED) or is_code(error, TIMED_OUT)):
                raise
            end_turn(connection)
        yield
    except BaseException:
        # The connection may be gone; the first error says why.
        with suppress(Exception):
            connection.execute("rollback")
        raise
    connection.execute("rollback")


def end_turn(connection: Connection) -> None:
    """Give a turn up, also after a statement that failed; a transaction without one follows."""
    connection.execute("rollback")
    connection.execute("begin")
