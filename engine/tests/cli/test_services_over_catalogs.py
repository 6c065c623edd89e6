"""`tideline adopt`, `plan` and `execute` on a table that a catalog keeps."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.cli.main import run

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

Captured = pytest.CaptureFixture[str]
_SMALL = ("--option", "min-input-files=2")


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/catalog.db"


@pytest.fixture
def theirs(catalog: str, tmp_path: Path) -> Table:
    """Three appends of PyIceberg's."""
    known = SqlCatalog("default", uri=catalog, warehouse=f"file://{tmp_path}/warehouse")
    known.create_namespace("db")
    rows = pa.table({"id": [1, 2]})
    table = known.create_table("db.orders", rows.schema)
    for _ in range(3):
        table.append(rows)
    return table


def answer(capsys: Captured, *words: str) -> Any:
    assert run([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_services_of_a_table_are_planned_and_run(
    theirs: Table, catalog: str, capsys: Captured
) -> None:
    where = ("db.orders", "--catalog", catalog)
    planned = answer(capsys, "plan", *where)["services"]
    named = {plan["service"] for plan in planned}
    assert {"rewrite_data_files", "expire_snapshots", "remove_orphan_files"} <= named
    execute = ("execute", "rewrite_data_files", *where, *_SMALL)
    assert run([*execute, "--dry-run"]) == 0
    assert "due" in capsys.readouterr().out
    assert len(list(theirs.refresh().scan().plan_files())) == 3
    assert run([*execute, "--yes"]) == 0
    assert "rewrite_data_files" in capsys.readouterr().out
    assert len(list(theirs.refresh().scan().plan_files())) == 1
    assert theirs.scan().to_arrow()["id"].to_pylist() == [1, 2] * 3


def test_adopting_prints_commands_that_work(theirs: Table, catalog: str, capsys: Captured) -> None:
    assert theirs.format_version == 2
    report = answer(capsys, "adopt", "db.orders", "--catalog", catalog)
    assert (report["format"], report["uri"], report["snapshots"]) == ("iceberg", "db.orders", 3)
    assert all(operation["may"] for operation in report["operations"])
    assert run(["adopt", "db.orders", "--catalog", catalog]) == 0
    printed = re.findall(r"^    tideline (.+)$", capsys.readouterr().out, re.MULTILINE)
    assert len(printed) == 2
    for command in printed:
        assert run(shlex.split(command)) == 0, command


def test_options_of_a_catalog_are_repeated(theirs: Table, catalog: str, capsys: Captured) -> None:
    assert theirs.format_version == 2
    words = ("adopt", "db.orders", "--catalog", catalog, "--catalog-option")
    assert run([*words, "echo=false"]) == 0
    assert capsys.readouterr().out.count("--catalog-option=echo=false") == 2
    assert run([*words, "token=abcdefgh"]) == 2
    assert "abcdefgh" not in capsys.readouterr().err


REFUSED = (
    (("plan", "compaction", "db.orders"), "the service is for Hudi tables"),
    (("execute", "cleaning", "db.orders", "--yes"), "the service is for Hudi tables"),
    (("plan", "db.nothing"), "the catalog has no such table"),
    (("adopt", "db.nothing"), "the catalog has no such table"),
)


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=[" ".join(words) for words, _ in REFUSED])
def test_what_is_refused_is_named(
    theirs: Table, catalog: str, capsys: Captured, words: tuple[str, ...], said: str
) -> None:
    assert theirs.format_version == 2
    assert run([*words, "--catalog", catalog]) in (1, 2)
    assert said in capsys.readouterr().err


def test_options_of_a_catalog_need_one(tmp_path: Path, capsys: Captured) -> None:
    for words in (("plan", str(tmp_path)), ("adopt", str(tmp_path))):
        assert run([*words, "--catalog-option", "warehouse=x"]) == 2
        assert "--catalog-option needs --catalog" in capsys.readouterr().err
