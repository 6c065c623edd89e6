"""Ingests of three tables by one slot are killed at any moment, in copies and in the log, and so is
the server. A table comes in the middle. All end as they are on the server.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from tideline.check_finding import Severity
from tideline.errors import StorageUnavailableError
from tideline.ingest.execute.table_access import open_table
from tideline.ingest.sources.postgres.position import PostgresPosition
from tideline.ingest.sources.source import Nothing
from tideline.testing import writer_process
from tideline.testing.postgres_server import PostgresDatabase
from tideline.testing.shared_slot_feed import SharedSlotFeed, ingest_tables_until

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

KILLS = 20
SERVER_KILLS = 2
ROWS = 400
DEADLINE_S = 300.0
TRANSACTIONS_PER_KILL = 30
NAMES = ("customers", "items", "orders")
LATE = "returns"
STATEMENTS = (
    "insert into {table} values ({key}, '{word}', {number}) on conflict (id) do update set n = 0",
    "update {table} set n = {number} where id between {key} and {key} + 5",
    "update {table} set v = repeat('{word}', 300) where id = {key}",
    "delete from {table} where id between {key} and {key} + 2",
    "update {table} set id = {other} where id = {key}"
    " and not exists (select 1 from {table} where id = {other})",
)


def created(name: str) -> tuple[str, str, str]:
    return (
        f"create table {name} (id bigint primary key, v text, n int)",
        # Large values are stored apart.
        f"alter table {name} alter v set storage external",
        f"insert into {name} select g, repeat('x', g), 0 from generate_series(1, {ROWS}) g",
    )


class Writer(threading.Thread):
    """Changes tables until it is stopped: one, or all in one transaction; some are rolled back.
    It makes so many transactions for each kill and no more, however slow the ingests are: each look
    decodes the log from the slot on, so that a writer without a bound leaves them behind."""

    def __init__(self, database: PostgresDatabase, seed: int) -> None:
        super().__init__(daemon=True)
        self._database = database
        self._rng = random.Random(seed)
        self.names: tuple[str, ...] = NAMES
        self.stopping = threading.Event()
        self.of_all = 0
        self._allowed = threading.Semaphore(0)

    def allow(self, transactions: int) -> None:
        self._allowed.release(transactions)

    def stop(self) -> None:
        self.stopping.set()
        self.allow(1)
        self.join()

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                with self._database.connect() as connection:
                    while not self.stopping.is_set():
                        self._allowed.acquire()
                        self._transaction(connection)
                        time.sleep(0.02)
            except psycopg.OperationalError:
                # The server was killed.
                time.sleep(0.1)

    def _transaction(self, connection: psycopg.Connection) -> None:
        rng, names = self._rng, self.names
        touched = names if rng.random() < 0.3 else (rng.choice(names),)
        connection.execute("begin")
        for name in touched:
            statement = rng.choice(STATEMENTS).format(
                table=name,
                key=rng.randrange(ROWS),
                other=rng.randrange(2 * ROWS),
                number=rng.randrange(1000),
                word=rng.choice(("a", "bc", "def")),
            )
            connection.execute(statement.encode())
        connection.execute(rng.choice(("commit", "commit", "commit", "rollback")).encode())
        self.of_all += len(touched) == len(names)


def are_copied(feeds: SharedSlotFeed, names: tuple[str, ...]) -> bool:
    for name in names:
        try:
            checkpoint = feeds.named(name).checkpoint()
        except StorageUnavailableError:
            # The slot is being made, by the server for a worker that was killed meanwhile.
            return False
        position = None if checkpoint is None else checkpoint.position
        if not isinstance(position, PostgresPosition) or position.copied is not None:
            return False
    return True


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_no_change_of_any_table_is_lost_or_doubled(
    table_type: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for name in NAMES:
        postgres.execute(*created(name))
    feeds = SharedSlotFeed.of(tmp_path, postgres, changes_max=100)
    feeds.table_type = table_type
    writer = Writer(postgres, seed)
    writer.start()
    stop = tmp_path / "stop"
    server_kills = set(rng.sample(range(KILLS), SERVER_KILLS))
    ends_s = time.monotonic() + DEADLINE_S
    workers = [writer_process.start(ingest_tables_until, feeds, str(stop)) for _ in range(2)]
    copying = 0
    try:
        for kill in range(KILLS):
            writer.allow(TRANSACTIONS_PER_KILL)
            time.sleep(rng.uniform(0.1, 3.0))
            if kill == KILLS // 2:
                while not are_copied(feeds, NAMES):
                    time.sleep(0.5)
                    assert time.monotonic() < ends_s
                postgres.execute(*created(LATE))
                writer.names = (*NAMES, LATE)
            copying += not are_copied(feeds, writer.names)
            victim = rng.randrange(len(workers))
            workers[victim].kill()
            workers[victim].join()
            workers[victim] = writer_process.start(ingest_tables_until, feeds, str(stop))
            if kill in server_kills:
                postgres.server.kill()
                postgres.server.start()
    finally:
        writer.stop()
        stop.touch()
        for worker in workers:
            assert writer_process.join(worker) == 0
    replace(feeds, changes_max=1000).drain()
    for name in (*NAMES, LATE):
        feed = feeds.named(name)
        assert isinstance(feed.plan(), Nothing)
        expected = postgres.execute(f"select id, v, n from {name} order by id")
        assert feed.rows("id", "v", "n") == expected, name
        table = open_table(feed.target)
        assert table is not None
        found = table.check(keys=True)
        assert not [item for item in found if item.severity is Severity.ERROR], found
    print(f"{copying} kills while a table was copied, {writer.of_all} transactions of all tables")
    assert copying
    assert writer.of_all
