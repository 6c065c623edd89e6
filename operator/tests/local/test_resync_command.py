"""`tideline resync`, and the same by `spec.resync`, as people meet them."""

from __future__ import annotations

from pathlib import Path

import pytest

import tideline
from tideline.cli.main import run
from tideline.testing.postgres_server import PostgresDatabase
from tideline_operator.testing.local_run import declare_table, run_here

pytestmark = pytest.mark.postgres

HUDI, ICEBERG = "type: MERGE_ON_READ", "format: Iceberg"
_SOURCE = """
apiVersion: tideline.dev/v1alpha1
kind: LakeSource
metadata: {{name: shop}}
spec:
  location: lake
  postgres: {{include: [public.*], slot: {slot}}}
  table: {{type: MERGE_ON_READ}}
"""


def declared(folder: Path, database: PostgresDatabase, number: int = 0, form: str = HUDI) -> Path:
    source = f"{{format: postgres, table: public.orders, slot: {database.slot}}}"
    spec = f"{form}\nresync: {{orders: {number}}}"
    return declare_table(folder, source, spec, trigger="{once: true}")


def stored(folder: Path, name: str = "table") -> list[int]:
    uri = str(folder / name)
    is_hudi = (folder / name / ".hoodie").exists()
    table = tideline.open(uri) if is_hudi else tideline.open_iceberg(uri)
    return sorted(table.to_arrow().column("id").to_pylist())


def commits(folder: Path, form: str) -> int:
    uri = str(folder / "table")
    if form == HUDI:
        return len(tideline.open(uri).timeline().instants)
    return len(tideline.open_iceberg(uri).snapshots)


@pytest.mark.slow_with("command Iceberg", "spec Iceberg")
@pytest.mark.parametrize(
    ("way", "form"),
    [("command", HUDI), ("spec", HUDI), ("command", ICEBERG), ("spec", ICEBERG)],
    ids=["command", "spec", "command Iceberg", "spec Iceberg"],
)
def test_a_table_that_lost_its_slot_is_copied_again(
    way: str,
    form: str,
    postgres: PostgresDatabase,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    postgres.execute(
        "create table orders (id bigint primary key, v text)",
        "insert into orders select g, 'a' from generate_series(1, 9) g",
    )
    path = declared(tmp_path, postgres, form=form)
    assert run_here(path) == 0
    postgres.execute(
        f"select pg_drop_replication_slot('{postgres.slot}')",
        "delete from orders where id in (2, 9)",
        "insert into orders values (10, 'b')",
    )
    capsys.readouterr()
    if way == "command":
        assert run(["resync", "-f", str(path)]) == 0
        assert "tideline run" in capsys.readouterr().out
        if form == ICEBERG:
            assert run(["verify", "-f", str(path)]) == 2
            assert stored(tmp_path) == [*range(1, 10)]
    else:
        path = declared(tmp_path, postgres, 1, form)
    assert run_here(path) == 0, capsys.readouterr()
    assert stored(tmp_path) == [1, 3, 4, 5, 6, 7, 8, 10]
    assert run(["verify", "-f", str(path)]) == 0
    # It is done once.
    before = commits(tmp_path, form)
    assert run_here(path) == 0
    assert commits(tmp_path, form) == before


def test_what_has_read_nothing_yet_is_refused_and_a_first_copy_is_not_made_twice(
    postgres: PostgresDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    postgres.execute(
        "create table orders (id bigint primary key, v text)",
        "insert into orders select g, 'a' from generate_series(1, 9) g",
    )
    path = declared(tmp_path, postgres, 3)
    assert run(["resync", "-f", str(path)]) == 2
    assert "the next ingest reads all of it" in capsys.readouterr().err
    assert run_here(path) == 0
    assert run_here(path) == 0
    history = tideline.open(str(tmp_path / "table")).timeline()
    assert len(history.writes().completed().instants) == 2


def test_tables_of_a_lakesource_are_named_as_on_the_server(
    postgres: PostgresDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("items", "orders"):
        postgres.execute(
            f"create table {name} (id bigint primary key, v text)",
            f"insert into {name} select g, 'a' from generate_series(1, 9) g",
        )
    postgres.execute("create table keyless (id int)")
    path = tmp_path / "source.yaml"
    path.write_text(_SOURCE.format(slot=postgres.slot))
    assert run_here(path) == 0
    postgres.execute(
        f"select pg_drop_replication_slot('{postgres.slot}')",
        "delete from orders where id in (2, 9)",
        "delete from items where id = 5",
    )
    capsys.readouterr()
    refused = {
        "": "several LakeTables may be meant: name one of default/shop-public-items, default/sh",
        "public.gone": "no LakeTable has this name or location",
        "public.keyless": "public.keyless is left: it has no primary key",
    }
    for name, words in refused.items():
        assert run(["resync", "-f", str(path), *name.split()]) == 2
        assert words in capsys.readouterr().err
    assert run(["resync", "-f", str(path), "public.orders", "--dry-run"]) == 0
    assert run(["resync", "-f", str(path), "public.orders"]) == 0
    # The other one says that it is lost.
    assert run_here(path) == 2
    assert "default/shop-public-items  stopped: postgres: " in capsys.readouterr().out
    assert stored(tmp_path, "lake/public/orders") == [1, 3, 4, 5, 6, 7, 8]
    assert run(["resync", "-f", str(path), str(tmp_path / "lake/public/items")]) == 0
    assert run_here(path) == 0, capsys.readouterr()
    assert stored(tmp_path, "lake/public/items") == [1, 2, 3, 4, 6, 7, 8, 9]
    for name in ("shop-public-items", "public.orders"):
        assert run(["verify", "-f", str(path), name]) == 0
