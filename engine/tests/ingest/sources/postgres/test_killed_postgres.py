"""Ingests of a table are killed at any moment, in the copy and in the log, and so is the server.

The table of the lake ends as that of the server.
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

from tideline.hudi.check.finding import Severity
from tideline.ingest.execute.table_access import open_table
from tideline.ingest.sources.postgres.position import PostgresPosition
from tideline.ingest.sources.source import Nothing
from tideline.testing import writer_process
from tideline.testing.postgres_feed import PostgresFeed, ingest_postgres_until
from tideline.testing.postgres_server import PostgresDatabase

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

KILLS = 40
SERVER_KILLS = 4
ROWS = 1_500
DEADLINE_S = 300.0
STATEMENTS = (
    "insert into orders values ({key}, '{word}', {number}) on conflict (id) do update set n = 0",
    "update orders set n = {number} where id between {key} and {key} + 5",
    "update orders set v = repeat('{word}', 300) where id = {key}",
    "delete from orders where id between {key} and {key} + 2",
    "delete from orders where id = {key}; insert into orders values ({key}, 'again', {number})",
    "update orders set id = {other} where id = {key}"
    " and not exists (select 1 from orders where id = {other})",
)


class Writer(threading.Thread):
    """Changes the table until it is stopped, in transactions; some are rolled back."""

    def __init__(self, database: PostgresDatabase, seed: int) -> None:
        super().__init__(daemon=True)
        self._database = database
        self._rng = random.Random(seed)
        self.transactions = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                with self._database.connect() as connection:
                    while not self.stopping.is_set():
                        self._transaction(connection)
                        time.sleep(0.005)
            except psycopg.OperationalError:
                # The server was killed.
                time.sleep(0.1)

    def _transaction(self, connection: psycopg.Connection) -> None:
        rng = self._rng
        connection.execute("begin")
        for _ in range(rng.choice((1, 1, 3, 20))):
            statement = rng.choice(STATEMENTS).format(
                key=rng.randrange(ROWS),
                other=rng.randrange(2 * ROWS),
                number=rng.randrange(1000),
                word=rng.choice(("a", "bc", "def")),
            )
            connection.execute(statement.encode())
        connection.execute(rng.choice(("commit", "commit", "commit", "rollback")).encode())
        self.transactions += 1


def is_copying(feed: PostgresFeed) -> bool:
    checkpoint = feed.checkpoint()
    position = None if checkpoint is None else checkpoint.position
    return not isinstance(position, PostgresPosition) or position.copied is not None


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_no_change_is_lost_or_doubled(
    table_type: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    postgres.execute(
        "create table orders (id bigint primary key, v text, n int)",
        # Large values are stored apart.
        "alter table orders alter v set storage external",
        f"insert into orders select g, repeat('x', g), 0 from generate_series(1, {ROWS}) g",
    )
    feed = PostgresFeed.of(tmp_path, postgres, changes_max=300)
    feed = replace(feed.typed(id="long", v="string", n="int"), table_type=table_type)
    writer = Writer(postgres, seed)
    writer.start()
    stop = tmp_path / "stop"
    server_kills = set(rng.sample(range(KILLS), SERVER_KILLS))
    ends_s = time.monotonic() + DEADLINE_S
    workers = [writer_process.start(ingest_postgres_until, feed, str(stop)) for _ in range(2)]
    copying = 0
    try:
        for kill in range(KILLS):
            time.sleep(rng.uniform(0.05, 1.5))
            copying += is_copying(feed)
            while kill > KILLS // 2 and is_copying(feed):
                # The other kills are for the log.
                time.sleep(0.5)
                assert time.monotonic() < ends_s
            victim = rng.randrange(len(workers))
            workers[victim].kill()
            workers[victim].join()
            workers[victim] = writer_process.start(ingest_postgres_until, feed, str(stop))
            if kill in server_kills:
                postgres.server.kill()
                postgres.server.start()
        writer.stopping.set()
        writer.join()
    finally:
        stop.touch()
        for worker in workers:
            assert writer_process.join(worker) == 0
    assert feed.drain() is None
    assert isinstance(feed.plan(), Nothing)
    expected = postgres.execute("select id, v, n from orders order by id")
    assert feed.rows("id", "v", "n") == expected
    assert len(expected) > ROWS // 4
    print(f"{copying} kills before the end of the copy, {writer.transactions} transactions")
    assert copying
    table = open_table(feed.target)
    assert table is not None
    found = table.check(keys=True)
    assert not [item for item in found if item.severity is Severity.ERROR], found
