"""Two ingests of one table make its slot, its publication, and move the slot: the slower one is
asked to try again, and nothing is moved back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.errors import StorageUnavailableError
from tideline.ingest.sources.postgres import server
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.look import Slot
from tideline.ingest.sources.postgres.server import advance_slot, make_slot
from tideline.ingest.sources.postgres.server_table import ServerTable
from tideline.ingest.sources.postgres.session import Connection
from tideline.testing.postgres_feed import ORDERS, TEN, orders_feed
from tideline.testing.postgres_server import PostgresDatabase

pytestmark = pytest.mark.postgres
_RACES = 4


@pytest.fixture
def source(postgres: PostgresDatabase, tmp_path: Path) -> DeclaredPostgres:
    postgres.execute(ORDERS, TEN)
    return orders_feed(tmp_path, postgres).source


def test_the_slower_one_is_asked_to_try_again(
    source: DeclaredPostgres, postgres: PostgresDatabase
) -> None:
    def made(_: int) -> bool:
        try:
            make_slot(source, is_copied_again=False)
        except StorageUnavailableError:
            return False
        return True

    for _ in range(_RACES):
        with ThreadPoolExecutor(2) as pool:
            assert any(pool.map(made, range(2)))
        make_slot(source, is_copied_again=False)
        postgres.execute(
            f"select pg_drop_replication_slot('{source.slot}')",
            f"drop publication {source.publication}",
        )


def test_a_slot_that_was_made_meanwhile_is_no_mistake_of_the_user(
    source: DeclaredPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_slot(source, is_copied_again=False)
    monkeypatch.setattr(server, "find_slot", lambda *_: None)
    with pytest.raises(StorageUnavailableError, match="already exists"):
        make_slot(source, is_copied_again=False)


def test_a_publication_that_was_made_meanwhile_is_no_mistake_of_the_user(
    source: DeclaredPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_slot(source, is_copied_again=False)
    find, seen = server.find_table, list[ServerTable]()

    def find_late(declared: DeclaredPostgres, connection: Connection) -> ServerTable | None:
        found = find(declared, connection)
        if found is None or seen:
            return found
        seen.append(found)
        return replace(found, origin=replace(found.origin, entry=0))

    monkeypatch.setattr(server, "find_table", find_late)
    with pytest.raises(StorageUnavailableError, match="was made meanwhile"):
        make_slot(source, is_copied_again=True)


def test_a_slot_is_not_moved_back(
    source: DeclaredPostgres, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_slot(source, is_copied_again=False)

    def confirmed() -> int:
        query = "select confirmed_flush_lsn - '0/0' from pg_replication_slots where slot_name = "
        return int(postgres.execute(f"{query}'{source.slot}'")[0][0])

    before = confirmed()
    postgres.execute("update orders set n = 0")
    (flushed,) = postgres.execute("select pg_current_wal_flush_lsn() - '0/0'")[0]
    assert advance_slot(source, int(flushed))
    moved = confirmed()
    assert moved > before
    # What the slower one saw before.
    monkeypatch.setattr(server, "find_slot", lambda *_: Slot(before))
    assert not advance_slot(source, moved - 1)
    assert confirmed() == moved
