"""A look over connections that are given finds what the client of Postgres finds, at a real
server."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.ingest.operation.operation import Operation
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.look import PostgresLook
from tideline.ingest.sources.postgres.position import PostgresPosition
from tideline.ingest.sources.postgres.wire.look import look_by
from tideline.ingest.sources.source import Limits, Nothing

pytest.importorskip("psycopg")

import psycopg

from tideline.ingest.sources.postgres.server import look_at
from tideline.testing.postgres_feed import PostgresFeed
from tideline.testing.postgres_server import PASSWORD, PostgresDatabase

pytestmark = pytest.mark.postgres

ORDERS = "create table orders (id bigint, at timestamptz, v text, primary key (at, id))"


def directly(host: str, port: int) -> socket.socket:
    try:
        return socket.create_connection((host, port), 3.0)
    except OSError as error:
        raise StorageUnavailableError(f"cannot connect: {error.strerror}") from error


def looked(
    source: DeclaredPostgres, uri: str, after: PostgresPosition | None = None, **more: str
) -> PostgresLook:
    return look_by(source, {"POSTGRES_URI": uri, **more}, directly, after)


def by_client(
    source: DeclaredPostgres, uri: str, after: PostgresPosition | None = None
) -> PostgresLook:
    return look_at(source, after, {"POSTGRES_URI": uri})


def settled(look: PostgresLook) -> PostgresLook:
    """Without what moves on a server that runs."""
    slot = look.slot and replace(look.slot, retained_bytes=0, safe_bytes=None, is_active=False)
    return replace(look, flushed=0, slot=slot)


def position_of(feed: PostgresFeed) -> PostgresPosition | None:
    checkpoint = feed.checkpoint()
    if checkpoint is None:
        return None
    assert isinstance(checkpoint.position, PostgresPosition)
    return checkpoint.position


def test_it_finds_what_the_client_finds(postgres: PostgresDatabase, tmp_path: Path) -> None:
    """Before and behind each commit of a first copy, and of changes."""
    feed = PostgresFeed.of(tmp_path, postgres, changes_max=2)
    feed = replace(feed, key=("at", "id"))
    uri, seen = postgres.uri, set()
    assert not looked(feed.source, uri).exists
    postgres.execute(
        ORDERS,
        "insert into orders select n, '2026-11-28 10:00+02'::timestamptz, 'x'"
        " from generate_series(1, 5) n",
    )
    for _ in range(20):
        after = position_of(feed)
        found = looked(feed.source, uri, after)
        assert settled(found) == settled(by_client(feed.source, uri, after))
        seen.add((found.slot is None, found.keys is None, found.ahead is None))
        operation = feed.plan()
        if isinstance(operation, Operation):
            assert feed.execute(operation).exit_code == 0
        elif len(feed.rows("id")) == 5:
            postgres.execute(
                "insert into orders select n, now(), null from generate_series(6, 8) n"
            )
        else:
            break
    assert len(feed.rows("id")) == 8
    assert seen == {(True, True, True), (False, False, True), (False, True, False)}
    postgres.execute("alter table orders rename to others")
    found = looked(feed.source, uri, after)
    assert found == by_client(feed.source, uri, after)
    assert found.renamed_to == "public.others"


def test_a_slot_that_somebody_reads_is_left_alone(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    """As a pod does while the operator looks."""
    postgres.execute(ORDERS)
    feed = replace(PostgresFeed.of(tmp_path, postgres), key=("at", "id"))
    assert feed.drain() is None
    after = position_of(feed)
    reader = psycopg.connect(f"{postgres.uri}?replication=database", autocommit=True)
    reader.pgconn.send_query(
        f"START_REPLICATION SLOT {postgres.slot} LOGICAL 0/0 "
        f"(proto_version '1', publication_names '{postgres.slot}')".encode()
    )
    try:
        while not postgres.execute("select active from pg_replication_slots where active"):
            pass
        found = looked(feed.source, postgres.uri, after)
    finally:
        reader.close()
    planned = found.plan(after, Limits(1, 7))
    assert isinstance(planned, Nothing)
    assert planned.until_ms == 2_007
    assert planned.reason == f"slot {postgres.slot} is being read: a slot is of one ingest"
    others = replace(found, is_shared=True).plan(after, Limits(1, 7))
    assert isinstance(others, Nothing)
    words = f"another table reads slot {postgres.slot}: it is this one's turn afterwards"
    assert (others.until_ms, others.reason) == (2_007, words)


def test_what_is_wrong_has_the_words_of_the_client(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    source = PostgresFeed.of(tmp_path, postgres).source
    postgres.execute("create table orders (id bigint)")
    with pytest.raises(ConfigError) as by_wire:
        looked(source, postgres.uri)
    with pytest.raises(ConfigError) as by_libpq:
        by_client(source, postgres.uri)
    assert by_wire.value.message == by_libpq.value.message


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("postgresql://tideline:another-word@127.0.0.1:{port}/{name}", "authentication failed"),
        ("postgresql://tideline:{password}@127.0.0.1:{port}/nowhere", "does not exist"),
        ("postgresql://tideline@127.0.0.1:{port}/{name}", "the connection string has none"),
        ("postgresql://tideline:{password}@127.0.0.1:{port}/{name}?sslmode=require", "has no TLS"),
    ],
)
def test_a_refused_client_is_told_why_without_its_password(
    uri: str, words: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    given = uri.format(port=postgres.server.port, name=postgres.name, password=PASSWORD)
    with pytest.raises(ConfigError, match=words) as caught:
        looked(PostgresFeed.of(tmp_path, postgres).source, given)
    assert PASSWORD not in str(caught.value)
    assert "another-word" not in str(caught.value)


def test_servers_are_tried_in_their_order(postgres: PostgresDatabase, tmp_path: Path) -> None:
    source = PostgresFeed.of(tmp_path, postgres).source
    postgres.execute(ORDERS)
    port = postgres.server.port
    pair = f"host=127.0.0.1,127.0.0.1 port=1,{port} user=tideline password='{PASSWORD}'"
    assert looked(source, f"{pair} dbname={postgres.name} target_session_attrs=primary").exists
    with pytest.raises(StorageUnavailableError, match=r"127\.0\.0\.1:1: cannot connect"):
        looked(source, f"{pair} dbname=x".replace(f",{port}", ",1"))


@pytest.mark.parametrize("password", ["Ünïcödé pa\u00a0ss", "\u2168 roman", "a\u00adb", "ﬁne"])
def test_passwords_are_written_as_the_server_does(
    password: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    source = PostgresFeed.of(tmp_path, postgres).source
    postgres.execute(ORDERS, f"create role {postgres.name} login password '{password}'")
    try:
        with pytest.raises(ConfigError, match="the server says: permission denied"):
            connected = postgres.server.uri(postgres.name, postgres.name, password)
            postgres.execute("revoke all on function pg_control_system() from public")
            looked(source, connected)
    finally:
        postgres.execute(
            "grant execute on function pg_control_system() to public", f"drop role {postgres.name}"
        )


def test_it_finds_the_partitions_that_the_client_finds(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        "create table orders (id bigint primary key, v text) partition by range (id)",
        "create table orders_1 partition of orders for values from (0) to (10)",
        "insert into orders values (1, 'x')",
    )
    feed = PostgresFeed.of(tmp_path, postgres)
    assert feed.drain() is None
    statements = (
        "create table orders_2 partition of orders for values from (10) to (20)",
        "insert into orders values (11, 'y')",
        "truncate orders_1",
        "drop table orders_1",
    )
    for statement in statements:
        postgres.execute(statement)
        after = position_of(feed)
        found = replace(looked(feed.source, postgres.uri, after), leaves_at=0)
        assert settled(found) == settled(
            replace(by_client(feed.source, postgres.uri, after), leaves_at=0)
        )
        assert found.leaves
        feed.drain()
    assert "was dropped" in found.leaf_lost
