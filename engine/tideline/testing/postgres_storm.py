"""A table of Postgres as the source of a storm: it is changed by transactions without a pause.

They insert, update and delete; change keys; leave large values that are stored apart as they were,
or write them; have one statement or thousands of changes. Some are rolled back, and one may stay
open while others commit. Some rows are inserted and never changed, so that no later change makes up
for one that is lost; some of those are deleted.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Event, Thread

import psycopg

# Ingests load it where rows move: here before processes are forked.
from tideline.ingest.sources.postgres import reader  # noqa: F401
from tideline.testing.postgres_feed import PostgresFeed
from tideline.testing.postgres_server import PostgresDatabase
from tideline.testing.stream_storm import ChangePace, Row

_ROWS = 3_000
_CHANGES_MAX = 150
"""Of one commit: the first copy takes twenty. Where it is copied again and again, fewer."""
_CHANGES_MAX_AGAIN = 800
_TRANSACTIONS_PER_COMMIT = 3
_FIRST_OF_ONCE = 1_000_000
_STATEMENTS = (
    "insert into orders values ({once}, '{word}', {number})",
    "insert into orders values ({once}, '{word}', {number})",
    "delete from orders where id = {once} - 40",
    "insert into orders values ({key}, '{word}', {number}) on conflict (id) do update set n = 0",
    "update orders set n = {number} where id between {key} and {key} + 5",
    "update orders set v = repeat('{word}', 3000) where id = {key}",
    "update orders set n = {number} where length(v) > 2000 and id between {key} and {key} + 300",
    "delete from orders where id between {key} and {key} + 2",
    "delete from orders where id = {key}; insert into orders values ({key}, 'again', {number})",
    "update orders set id = {other} where id = {key}"
    " and not exists (select 1 from orders where id = {other})",
)
_LARGE = (
    f"update orders set n = {{number}} where id > {{key}} and id < {_FIRST_OF_ONCE}",
    "insert into orders select g, '{word}', {number} from generate_series({key}, {other}) g"
    " on conflict (id) do update set n = excluded.n",
    "delete from orders where id between {key} and {key} + 200",
)


class PostgresChanges(Thread):
    """See `StormSource`. Changes are made by this thread until all is calm."""

    names = ("id", "v", "n")
    kills_per_server_kill = 40

    def __init__(self, database: PostgresDatabase, seed: int, *, reads_again: bool = False) -> None:
        super().__init__(daemon=True)
        database.execute(
            "create table orders (id bigint primary key, v text, n int)",
            # Large values are stored apart, as they are.
            "alter table orders alter v set storage external",
            "insert into orders select g, case when g % 50 = 0 then repeat('x', 3000) else 'x' end,"
            f" 0 from generate_series(1, {_ROWS}) g",
        )
        self.pace = ChangePace(_TRANSACTIONS_PER_COMMIT)
        self.reads_again = reads_again
        self._once = _FIRST_OF_ONCE
        self._database = database
        self._random = Random(seed)
        self._open: psycopg.Connection | None = None
        self._stopping = Event()
        self.start()

    def feed(self, folder: Path, table_type: str, number: int) -> PostgresFeed:
        """The ingests of one of several tables: each has a slot of its own."""
        slot = f"{self._database.slot}_{number}"
        changes_max = _CHANGES_MAX_AGAIN if self.reads_again else _CHANGES_MAX
        feed = PostgresFeed.of(
            folder, self._database, slot=slot, publication=slot, changes_max=changes_max
        )
        return replace(feed.typed(id="long", v="string", n="int"), table_type=table_type)

    def event(self, random: Random) -> str:
        """A large transaction, or one that stays open for long."""
        with suppress(psycopg.OperationalError):
            if self._open is not None:
                self._open.execute(random.choice(("commit", "rollback")).encode())
                self._open.close()
                self._open = None
                return "end of an open transaction"
            connection = self._database.connect()
            connection.execute(b"begin; set local lock_timeout = '2s'")
            with suppress(psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                connection.execute(self._filled(random.choice(_LARGE), random).encode())
                if random.random() < 0.5:
                    connection.execute(b"commit")
                    return "large transaction"
                self._open = connection
                return "open transaction"
            connection.close()
        self._open = None
        return "none"

    def kill(self) -> None:
        self._database.server.kill()
        self._database.server.start()

    def calm(self) -> None:
        assert self.is_alive(), "nothing changed the table any more"
        self._stopping.set()
        if self._open is not None:
            with suppress(psycopg.OperationalError):
                self._open.execute(b"rollback")
            self._open.close()
        self.join()

    def missing(self, found: Sequence[Row]) -> tuple[Sequence[Row], int]:  # noqa: ARG002
        """All rows, whatever the table has."""
        return self._database.execute("select id, v, n from orders order by id"), 0

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._database.connect() as connection:
                    connection.execute(b"set lock_timeout = '2s'")
                    while not self._stopping.is_set():
                        self._transaction(connection)
                        self.pace.wait()
            except (psycopg.OperationalError, psycopg.errors.UniqueViolation):
                # The server was killed, a transaction that is open has the rows, or one that was
                # has inserted the key meanwhile.
                time.sleep(0.1)

    def _transaction(self, connection: psycopg.Connection) -> None:
        random = self._random
        connection.execute(b"begin")
        for _ in range(random.choice((1, 1, 3, 20))):
            connection.execute(self._filled(random.choice(_STATEMENTS), random).encode())
        connection.execute(random.choice(("commit", "commit", "commit", "rollback")).encode())

    def _filled(self, statement: str, random: Random) -> str:
        key = random.randrange(_ROWS)
        self._once += 1
        return statement.format(
            key=key,
            once=self._once,
            other=key + random.randrange(_ROWS // 2),
            number=random.randrange(1000),
            word=random.choice(("a", "bc", "def")),
        )
