"""`read`, `show` and `list-files` of an Iceberg table, in a catalog and in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.cli.main import run
from tideline.testing.iceberg_delete_table import DeleteTable

sql_catalog = pytest.importorskip("pyiceberg.catalog.sql")


@pytest.fixture
def catalogued(tmp_path: Path) -> list[str]:
    """The arguments that name a table of three commits, the first of them tagged."""
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = sql_catalog.SqlCatalog("default", uri=uri, warehouse=tmp_path.as_uri())
    catalog.create_namespace("db")
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    table = catalog.create_table("db.orders", schema)
    with table.update_spec() as spec:
        spec.add_identity("day")
    for number, day in ((1, "mon"), (2, "tue"), (3, "mon")):
        table.append(pa.table({"id": pa.array([number], pa.int64()), "day": [day]}))
        if number == 1:
            newest = table.current_snapshot().snapshot_id
            table.manage_snapshots().create_tag(newest, "first").commit()
    warehouse = f"warehouse={tmp_path.as_uri()}"
    return ["db.orders", "--catalog", uri, "--catalog-option", warehouse]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_rows_of_a_table_in_a_catalog(
    catalogued: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = printed(capsys, "read", *catalogued)
    assert sorted(row["id"] for row in found["rows"]) == [1, 2, 3]
    assert found["complete"]
    limited = printed(capsys, "read", *catalogued, "--limit", "2")
    assert (len(limited["rows"]), limited["complete"]) == (2, False)
    first = printed(capsys, "read", *catalogued, "--as-of", "first")
    assert first["rows"] == [{"id": 1, "day": "mon"}]
    query = "select day, count(*) n from t group by day order by day"
    assert printed(capsys, "read", *catalogued, "--sql", query)["rows"] == [
        {"day": "mon", "n": 2},
        {"day": "tue", "n": 1},
    ]
    then = printed(capsys, "read", *catalogued, "--sql", query, "--as-of", "first")
    assert then["rows"] == [{"day": "mon", "n": 1}]


def test_files_and_what_it_is(catalogued: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    files = printed(capsys, "list-files", *catalogued)["files"]
    assert sorted(row["partition"] for row in files) == ["day=mon", "day=mon", "day=tue"]
    only = printed(capsys, "list-files", *catalogued, "--partition", "day=tue")["files"]
    assert [row["rows"] for row in only] == [1]
    assert len(printed(capsys, "list-files", *catalogued, "--as-of", "first")["files"]) == 1
    assert run(["list-files", *catalogued]) == 0
    assert "3 data files" in capsys.readouterr().out
    shown = printed(capsys, "show", *catalogued)
    assert (shown["format_version"], shown["data_files"]) == (2, 3)
    assert shown == printed(capsys, "iceberg", "show", *catalogued)


def test_what_is_deleted_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    made = DeleteTable.create()
    made.append("a", range(4))
    made.delete({"a": [1, 2]})
    uri = made.model.location.uri
    assert sorted(row["number"] for row in printed(capsys, "read", uri)["rows"]) == [0, 3]
    (file,) = printed(capsys, "list-files", uri)["files"]
    assert (file["rows"], len(file["delete_files"])) == (4, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--meta",), "--meta"),
        (("--read-optimized",), "--read-optimized"),
        (("--as-of", "nobody"), "no such snapshot"),
    ],
)
def test_what_an_iceberg_table_has_not(
    catalogued: list[str],
    options: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["read", *catalogued, *options]) == 2
    assert message in capsys.readouterr().err


def test_where_there_is_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("read", "show", "list-files"):
        assert run([command, str(tmp_path)]) == 1
        assert "Hudi" in capsys.readouterr().err
