"""What a server of Postgres can have or lack, each by its name and with a remedy."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.postgres import ahead as aheads
from tideline.ingest.sources.postgres import commits
from tideline.ingest.sources.postgres import connection as connections
from tideline.ingest.sources.postgres import server as servers
from tideline.ingest.sources.postgres.connection import connected
from tideline.ingest.sources.source import Lost, Reach
from tideline.storage.location import StoreLocation
from tideline.testing.postgres_feed import PostgresFeed
from tideline.testing.postgres_server import (
    PASSWORD,
    PostgresDatabase,
    PostgresServer,
    own_server,
)

pytestmark = pytest.mark.postgres

ORDERS = "create table orders (id bigint primary key, v text, n int)"


def feed(folder: Path, database: PostgresDatabase, **declared: Any) -> PostgresFeed:
    return PostgresFeed.of(folder, database, **declared).typed(id="long", v="string", n="int")


def failure(found: PostgresFeed) -> str:
    operation = found.plan()
    assert isinstance(operation, Operation), operation
    result = found.execute(operation)
    assert result.outcome is Outcome.FAILED, result
    return result.message


@pytest.fixture
def small_server() -> Iterator[PostgresServer]:
    """One that keeps little log and has no logical log at first."""
    with own_server(wal_level="replica") as server:
        yield server


def test_a_process_whose_connections_are_decided_on_makes_none(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = feed(tmp_path, postgres)

    def connect(host: str, port: int) -> socket.socket:
        raise StorageUnavailableError(f"{host}:{port} is not connected to")

    store = StoreLocation.of(str(tmp_path)).open()
    reach = Reach(lambda _: store, {"POSTGRES_URI": postgres.uri}, connect=connect)
    address = f"127.0.0.1:{postgres.server.port}"
    with pytest.raises(StorageUnavailableError, match=f"{address} is not connected to"):
        found.source.positions(reach, None)


def test_without_a_connection_the_variable_is_named(
    postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = feed(tmp_path, postgres)
    monkeypatch.delenv("POSTGRES_URI")
    with pytest.raises(ConfigError, match="POSTGRES_URI is not set"):
        found.look()
    monkeypatch.setenv("ORDERS_URI", postgres.uri)
    replace(found, source=replace(found.source, connection="ORDERS_URI")).look()


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("postgresql://tideline:a-wrong-password@127.0.0.1:{port}/{name}", "authentication failed"),
        ("postgresql://tideline:{password}@127.0.0.1:{port}/nowhere", "does not exist"),
        ("postgresql://nobody:{password}@127.0.0.1:{port}/{name}", "authentication failed"),
        ("host=127.0.0.1 port={port} passwort={password}", "invalid connection option"),
        ("postgresql://tideline:{password}@[/{name}", "refuses this client"),
    ],
)
def test_a_refused_client_is_told_why_without_its_password(
    uri: str, words: str, postgres: PostgresDatabase, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    given = uri.format(port=postgres.server.port, name=postgres.name, password=PASSWORD)
    monkeypatch.setenv("POSTGRES_URI", given)
    with pytest.raises(ConfigError, match=words) as caught:
        feed(tmp_path, postgres).look()
    assert PASSWORD not in str(caught.value)
    assert "a-wrong-password" not in str(caught.value)


def test_a_server_that_does_not_answer_is_asked_again(
    postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTGRES_URI", f"postgresql://tideline:{PASSWORD}@127.0.0.1:1/x")
    with pytest.raises(StorageUnavailableError, match="the server does not answer") as caught:
        feed(tmp_path, postgres).look()
    assert PASSWORD not in str(caught.value)


def test_a_user_without_the_rights_is_told_which(
    postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = f"{postgres.name}_reader"
    postgres.execute(
        ORDERS,
        f"create role {reader} login password '{PASSWORD}'",
        f"grant select on orders to {reader}",
    )
    try:
        monkeypatch.setenv("POSTGRES_URI", postgres.server.uri(postgres.name, user=reader))
        found = feed(tmp_path, postgres)
        assert "the user needs REPLICATION, to own the table" in failure(found)
        # With the publication made by its owner, REPLICATION and SELECT are enough.
        postgres.execute(
            f"create publication {postgres.slot} for table orders",
            f"alter role {reader} replication",
            "insert into orders values (1, 'a', 1)",
        )
        assert found.drain() is None
        assert found.rows() == [(1, "a")]
        # The log has rows that a policy hides: no copy is made without them.
        postgres.execute(
            "alter table orders enable row level security",
            "create policy few on orders using (id > 1)",
        )
        found.again()
        with pytest.raises(ConfigError, match=r"row-level security policy.*BYPASSRLS"):
            found.drain()
        postgres.execute(f"alter role {reader} bypassrls")
        assert found.drain() is None
        assert found.rows() == [(1, "a")]
        with connected(found.source) as connection:
            assert connection.execute("show tcp_user_timeout").fetchone() == ("60000",)
    finally:
        monkeypatch.setenv("POSTGRES_URI", postgres.uri)
        postgres.execute(f"drop owned by {reader}", f"drop role {reader}")


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (("create table orders (id bigint, v text)",), "the table has no primary key"),
        ((ORDERS, "alter table orders replica identity nothing"), "or no replica identity"),
        (("create view orders as select 1::bigint as id",), "only tables are read"),
    ],
)
def test_tables_whose_changes_say_too_little_are_refused(
    statements: tuple[str, ...], words: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(*statements)
    with pytest.raises(ConfigError, match=words):
        feed(tmp_path, postgres).look()


def test_a_record_key_is_that_of_the_changes(postgres: PostgresDatabase, tmp_path: Path) -> None:
    postgres.execute(ORDERS)
    other = replace(feed(tmp_path, postgres), key=("n",))
    assert "recordKey is n, and rows of orders are known by id" in failure(other)
    ordered = replace(feed(tmp_path, postgres), ordering=("n",))
    assert "leave spec.ordering out" in failure(ordered)
    inserting = replace(feed(tmp_path, postgres), operation="insert")
    assert "the operation of the ingest must be upsert" in failure(inserting)


@pytest.mark.parametrize(
    ("publication", "words"),
    [
        ("for table others", "does not have the table: alter publication"),
        ("for table orders with (publish = 'insert')", "leaves changes out: alter publication"),
        ("for table orders with (publish = 'insert, update, delete')", "truncate"),
        (
            "for table orders (v, n)",
            "leaves out id, of the table's key: alter publication mine drop",
        ),
    ],
)
def test_a_publication_that_leaves_something_out_is_refused(
    publication: str, words: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        ORDERS,
        "create table others (id int primary key)",
        "alter table orders replica identity full",
        f"create publication mine {publication}",
    )
    found = feed(tmp_path, postgres, publication="mine")
    try:
        message = failure(found)
    except ConfigError as error:
        message = str(error)
    assert words in message


def test_a_slot_that_is_older_than_its_publication_is_named(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        ORDERS, f"select pg_create_logical_replication_slot('{postgres.slot}', 'pgoutput')"
    )
    postgres.execute("insert into orders values (1, 'a', 1)")
    # One that is of several tables is moved by what has them all.
    found = feed(tmp_path / "shared", postgres, is_shared=True)
    ((version,),) = postgres.execute("select current_setting('server_version_num')::int")
    if version < 180_000:
        with pytest.raises(ConfigError, match="is older than publication"):
            found.drain()
    else:
        # Such a server passes over what is older: none of it is of a table that is published later.
        assert found.drain() is None
        assert found.rows() == [(1, "a")]
    own = feed(tmp_path / "own", postgres)
    assert own.drain() is None
    assert own.rows() == [(1, "a")]


def test_a_slot_of_another_plugin_or_database_is_refused(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        ORDERS, f"select pg_create_logical_replication_slot('{postgres.slot}', 'test_decoding')"
    )
    with pytest.raises(ConfigError, match="is of another database or plugin"):
        feed(tmp_path, postgres).look()


def test_a_slot_in_use_is_waited_for_and_then_named(
    postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute(ORDERS)
    found = feed(tmp_path, postgres)
    found.drain()
    monkeypatch.setattr(aheads, "_BUSY_S", 0.3)
    reader = psycopg.connect(f"{postgres.uri}?replication=database", autocommit=True)
    reader.pgconn.send_query(
        f"START_REPLICATION SLOT {postgres.slot} LOGICAL 0/0 "
        f"(proto_version '1', publication_names '{postgres.slot}')".encode()
    )
    try:
        with pytest.raises(StorageUnavailableError, match="a slot is of one ingest"):
            found.look()
    finally:
        reader.close()
    monkeypatch.setattr(aheads, "_BUSY_S", 20.0)
    found.look()


def test_transactions_that_were_open_are_waited_for_before_the_copy(
    postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute(ORDERS)
    found = feed(tmp_path, postgres)
    for waiting in (commits, servers):
        monkeypatch.setattr(waiting, "COMMITS_WAITED_S", 0.5)
    with postgres.connect() as connection:
        connection.execute("begin")
        connection.execute("insert into orders values (1, 'a', 1)")
        operation = found.plan()
        assert isinstance(operation, Operation)
        result = found.execute(operation)
        assert result.outcome is Outcome.FAILED
        assert result.is_safe_to_retry
        connection.execute("commit")
    assert found.drain() is None
    assert found.rows() == [(1, "a")]


def test_a_server_without_a_logical_log_is_named_and_one_that_dropped_it(
    small_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PostgresDatabase(small_server) as database:
        monkeypatch.setenv("POSTGRES_URI", database.uri)
        database.execute(ORDERS)
        found = feed(tmp_path, database)
        assert "wal_level is replica: set it to logical" in failure(found)
        database.execute(
            "alter system set wal_level = logical",
            "alter system set max_slot_wal_keep_size = '1MB'",
        )
        small_server.kill()
        small_server.start()
        found.drain()
        for _ in range(3):
            database.execute(
                "select pg_logical_emit_message(false, 'x', repeat('x', 20000000))",
                "select pg_switch_wal()",
                "checkpoint",
            )
        lost = found.drain()
        assert isinstance(lost, Lost)
        assert "the server has given up slot" in lost.what
        assert "tideline resync" in lost.remedy


def test_another_database_behind_the_address_is_named(
    postgres: PostgresDatabase, small_server: PostgresServer, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    postgres.execute(ORDERS)
    found = feed(tmp_path, postgres)
    found.drain()
    with PostgresDatabase(small_server) as other:
        other.execute(ORDERS)
        monkeypatch.setenv("POSTGRES_URI", other.uri)
        lost = found.drain()
    assert isinstance(lost, Lost)
    assert lost.what.startswith("another database answers: it is of system ")


def test_the_settings_of_a_connection_are_the_same_whatever_the_server_has(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        "create table orders (id bigint primary key, at timestamptz, d date)",
        f"alter database {postgres.name} set datestyle = 'German'",
        f"alter database {postgres.name} set timezone = 'Asia/Tokyo'",
        "insert into orders values (1, '2026-11-28 10:00:00+00', '2026-11-28')",
    )
    found = PostgresFeed.of(tmp_path, postgres).typed(id="long", at="timestamp", d="date")
    assert found.drain() is None
    postgres.execute("insert into orders select 2, at, d from orders")
    assert found.drain() is None
    first, second = found.rows("id", "at", "d")
    assert first[1:] == second[1:]
    assert first[1].isoformat() == "2026-11-28T10:00:00+00:00"
    assert connections.is_code(psycopg.errors.UndefinedTable("x"), "42P01")
