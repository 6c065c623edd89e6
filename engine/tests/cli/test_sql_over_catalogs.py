"""`tideline sql` over tables of a catalog, beside those at locations; and what has no rows yet."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import tideline
from tideline.cli.main import run


def test_a_query_joins_a_table_of_a_catalog_and_one_at_a_location(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"sqlite:///{tmp_path}/catalog.db"
    theirs = SqlCatalog("default", uri=address, warehouse=f"file://{tmp_path}/warehouse")
    theirs.create_namespace("db")
    rows = pa.table({"id": ["a", "b"], "n": [1, 2]})
    theirs.create_table("db.orders", rows.schema).append(rows)
    people = tideline.create(tmp_path / "people", record_key="id")
    people.write([{"id": "b", "name": "Bea"}])
    words = ["o=db.orders", f"p={people.uri}", "--catalog", address]
    query = "select name, n from o join p using (id)"
    assert run(["sql", *words, "-c", query, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [{"name": "Bea", "n": 2}]
    assert run(["sql", "db.nothing", "--catalog", address, "-c", "from t"]) == 1
    assert "the catalog has no such table" in capsys.readouterr().err


def test_a_table_without_columns_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tideline.create(tmp_path / "new", record_key="id")
    assert run(["read", table.uri]) == 0
    assert capsys.readouterr().out == "Nothing was written yet.\n"
