"""Tables that share a slot, where one is copied again, or all: deletes are swept, other tables read
the log as before, and the slot is held as long as it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.postgres import server as servers
from tideline.ingest.sources.postgres.connection import OfServer, connected
from tideline.ingest.sources.postgres.position import Phase
from tideline.ingest.sources.postgres.slot_tables import look_at_slot
from tideline.ingest.sources.source import Lost, Nothing
from tideline.testing.postgres_feed import position
from tideline.testing.postgres_server import PostgresDatabase
from tideline.testing.shared_slot_feed import SharedSlotFeed

pytestmark = pytest.mark.postgres

NAMES = ("items", "orders")


def filled(folder: Path, database: PostgresDatabase) -> SharedSlotFeed:
    for name in NAMES:
        database.execute(
            f"create table {name} (id bigint primary key, v text)",
            f"insert into {name} select g, 'v' || g from generate_series(1, 10) g",
        )
    feeds = SharedSlotFeed.of(folder, database, changes_max=4)
    feeds.drain()
    return feeds


def copy_again(feeds: SharedSlotFeed, *names: str) -> None:
    for name in names:
        result = feeds.named(name).again()
        assert result.outcome is Outcome.SUCCEEDED, result


def require_equal(feeds: SharedSlotFeed, database: PostgresDatabase) -> None:
    feeds.drain()
    for name in NAMES:
        feed = feeds.named(name)
        assert isinstance(feed.plan(), Nothing)
        assert (position(feed).phase, position(feed).again) == (Phase.LOG, None)
        assert feed.rows() == database.execute(f"select id, v from {name} order by id"), name


def confirmed(feeds: SharedSlotFeed) -> int:
    slot = look_at_slot(feeds.slot).slot
    assert slot is not None
    return slot.confirmed


@pytest.mark.parametrize("losing", ["", "drop table items", "alter publication {slot} drop table"])
def test_one_table_is_copied_again_beside_others(
    losing: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    feeds = filled(tmp_path, postgres)
    before = confirmed(feeds)
    if losing.startswith("drop"):
        postgres.execute(
            losing,
            "create table items (id bigint primary key, v text)",
            "insert into items select g, 'new' from generate_series(5, 12) g",
        )
    elif losing:
        postgres.execute(losing.format(slot=postgres.slot) + " items")
        assert isinstance(feeds.named("items").plan(), Lost)
    postgres.execute("delete from items where id in (1, 7, 10)")
    copy_again(feeds, "items")
    # The other one is read, and the slot stays for the one that is copied again.
    for number in range(8):
        postgres.execute(
            f"update orders set v = 'n{number}' where id <= 2",
            f"update items set v = 'n{number}' where id = {number + 5}",
            f"insert into items values ({number + 20}, 'late')",
            f"delete from items where id = {number + 19}",
        )
        for result in feeds.step(["orders"]):
            assert result.exit_code == 0
        if number % 2:
            for result in feeds.step(["items"]):
                assert result.exit_code == 0, result.message
        feeds.move()
        at = position(feeds.named("items"))
        assert confirmed(feeds) <= max(before, at.lsn or 0)
    require_equal(feeds, postgres)
    assert confirmed(feeds) > before
    postgres.execute(*(f"delete from {name} where id = 9" for name in NAMES))
    require_equal(feeds, postgres)


@pytest.mark.parametrize("losing", ["slot", "publication"])
def test_a_slot_that_is_lost_for_all_is_made_again_once(
    losing: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    """Each table is copied again when it is asked for, also while the others are not yet."""
    feeds = filled(tmp_path, postgres)
    if losing == "slot":
        postgres.execute(f"select pg_drop_replication_slot('{postgres.slot}')")
    else:
        postgres.execute(f"drop publication {postgres.slot}")
    postgres.execute(*(f"delete from {name} where id < 4" for name in NAMES))
    if losing == "slot":
        lost = feeds.named("orders").plan()
        assert isinstance(lost, Lost)
        assert "tideline resync" in str(lost)
    copy_again(feeds, "items")
    while isinstance(operation := feeds.named("items").plan(), Operation):
        assert feeds.named("items").execute(operation).exit_code == 0
    if losing == "slot":
        assert isinstance(feeds.named("orders").plan(), Lost)
    held = position(feeds.named("items")).lsn
    postgres.execute("update items set v = 'meanwhile' where id = 5")
    copy_again(feeds, "orders")
    assert held is not None and confirmed(feeds) <= held
    require_equal(feeds, postgres)


class Died(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("last", ["drop_replication", "publication", "create_logical"])
def test_a_death_while_the_slot_is_made_again_leaves_what_the_next_one_finishes(
    last: str, postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right behind each statement that changes the server."""
    feeds = filled(tmp_path, postgres)
    postgres.execute(f"drop publication {postgres.slot}", "delete from items where id < 4")
    copy_again(feeds, *NAMES)
    planned = feeds.named("items").plan()
    assert isinstance(planned, Operation)

    class Dying:
        def __init__(self, connection: Any) -> None:
            self._connection = connection

        def __getattr__(self, name: str) -> Any:
            return getattr(self._connection, name)

        def execute(self, statement: bytes | str, given: Any = None) -> Any:
            found = self._connection.execute(statement, given)
            text = statement if isinstance(statement, str) else statement.decode()
            words = {"publication": "create publication"}.get(last, f"pg_{last}")
            if words in text:
                raise Died
            return found

    @contextmanager
    def dying(source: OfServer, *variables: Mapping[str, str]) -> Iterator[Dying]:
        with connected(source, *variables) as connection:
            yield Dying(connection)

    with monkeypatch.context() as patched, pytest.raises(Died):
        patched.setattr(servers, "connected", dying)
        feeds.named("items").execute(planned)
    postgres.execute("update items set v = 'meanwhile' where id = 5")
    require_equal(feeds, postgres)
