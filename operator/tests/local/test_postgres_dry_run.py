"""`tideline run` of a table of Postgres: with --dry-run it changes nothing in the database, and it
says before the server gives the slot up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tideline.testing.postgres_server import NO_CHECKPOINTS, PostgresDatabase, fill_log, own_server
from tideline_operator.testing.local_run import declare_table, run_here

pytestmark = pytest.mark.postgres


def declared(folder: Path, database: PostgresDatabase) -> Path:
    source = f"{{format: postgres, table: public.orders, slot: {database.slot}}}"
    return declare_table(folder, source, trigger="{once: true}")


def test_a_dry_run_makes_neither_publication_nor_slot(
    postgres: PostgresDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    postgres.execute(
        "create table orders (id bigint primary key, v text)", "insert into orders values (1, 'a')"
    )
    path = declared(tmp_path, postgres)

    def made() -> list[tuple[object, ...]]:
        slots = (
            "select slot_name::text from pg_replication_slots where database = current_database()"
        )
        return postgres.execute(f"{slots} union all select pubname::text from pg_publication")

    capsys.readouterr()
    assert run_here(path, "--dry-run", "--json") == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert any("ingest" in json.dumps(event) for event in events)
    assert made() == []
    assert not (tmp_path / "table").exists()
    assert run_here(path) == 0
    assert len(made()) == 2


def test_a_slot_is_named_before_it_is_given_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"max_slot_wal_keep_size": "64MB"}
    with own_server(**NO_CHECKPOINTS, **settings) as server, PostgresDatabase(server) as database:
        monkeypatch.setenv("POSTGRES_URI", database.uri)
        database.execute("create table orders (id bigint primary key, v text)")
        path = declared(tmp_path, database)
        assert run_here(path) == 0
        assert "unreserved" not in capsys.readouterr().out
        database.execute("insert into orders values (1, 'a')")
        fill_log(database, 40, 40)
        assert run_here(path) == 0
        said = capsys.readouterr()
        words = f"slot {database.slot} is unreserved: the server gives it up at its next checkpoint"
        assert words in said.out + said.err
        (status,) = (tmp_path / "state").glob("*.status.json")
        seen = json.loads(status.read_text())["status"]
        assert seen["ingest"]["orders"]["slotState"] == "reserved"
        assert seen["ingest"]["orders"]["retainedBytes"] < 64 << 20
