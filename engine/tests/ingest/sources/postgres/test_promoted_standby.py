"""A failover: a standby is promoted, and what the primary's slot had is nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideline.errors import ConfigError
from tideline.ingest.sources.source import Limits, Lost
from tideline.testing.planted_differences import verified
from tideline.testing.postgres_feed import ORDERS, TEN, look_by_wire, orders_feed, position
from tideline.testing.postgres_server import PostgresDatabase, own_server
from tideline.testing.postgres_standby import standby_of

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

NOW = Limits(1, 0)
PROMOTED = "another server was promoted: its log is of timeline 2, the table has read 1"


def test_it_is_named_and_a_copy_continues_with_the_new_primary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        own_server() as primary,
        PostgresDatabase(primary) as database,
        standby_of(primary) as standby,
    ):
        monkeypatch.setenv("POSTGRES_URI", database.uri)
        database.execute(ORDERS, TEN)
        found = orders_feed(tmp_path, database)
        assert found.drain() is None
        standby.wait_for_all()
        # What the primary has and the standby does not is lost to the source, not to the table.
        standby.kill()
        database.execute("insert into orders values (50, 'lost', 1)")
        assert found.drain() is None
        before = position(found)
        primary.kill()
        standby.start()
        standby.promote()

        promoted = PostgresDatabase(standby)
        promoted.name = database.name
        monkeypatch.setenv("POSTGRES_URI", promoted.uri)
        promoted.execute("insert into orders values (60, 'new', 1)")
        for lost in (
            found.plan(),
            look_by_wire(found.source, promoted.uri, before).plan(before, NOW),
        ):
            assert isinstance(lost, Lost)
            assert lost.what == PROMOTED
            assert "tideline resync" in lost.remedy
        with pytest.raises(ConfigError, match="another server was promoted"):
            verified(found.target, found.source)

        assert found.again().exit_code == 0
        assert found.drain() is None
        rows = promoted.execute("select id, v, n from orders order by id")
        assert [row[0] for row in rows if row[0] >= 50] == [60]
        assert found.rows("id", "v", "n") == rows
        promoted.execute("delete from orders where id = 60")
        assert found.drain() is None
        assert found.rows("id", "v", "n") == rows[:-1]
        primary.start()
