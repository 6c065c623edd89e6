"""`tideline savepoint` and `tideline restore`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tideline.cli.main import run
from tideline.storage.location import StoreLocation
from tideline.testing.small_table import SmallTable, batch

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    table = SmallTable.create(StoreLocation.of(tmp_path / "table"))
    table.write("insert", batch(range(4), 1))
    return table


@pytest.fixture
def uri(table: SmallTable) -> str:
    return table.location.uri


def printed_json(capsys: Captured) -> Any:
    return json.loads(capsys.readouterr().out)


def create(uri: str, capsys: Captured) -> str:
    assert run(["savepoint", "create", uri, "--by", "ann", "--comment", "before", "--json"]) == 0
    instant: str = printed_json(capsys)["instant"]
    return instant


def test_savepoints_are_created_listed_and_given_up(uri: str, capsys: Captured) -> None:
    assert run(["savepoint", "list", uri]) == 0
    assert capsys.readouterr().out == "No savepoints.\n"
    instant = create(uri, capsys)
    assert run(["savepoint", "list", uri, "--json"]) == 0
    (found,) = printed_json(capsys)["savepoints"]
    assert found["instant"] == instant
    assert (found["by"], found["comment"], found["files"]) == ("ann", "before", 2)
    assert run(["savepoint", "list", uri]) == 0
    assert "before" in capsys.readouterr().out
    assert run(["savepoint", "delete", uri, instant]) == 0
    assert f"Gave up {instant}" in capsys.readouterr().out
    assert run(["savepoint", "delete", uri, instant]) == 2
    assert "no savepoint of this instant" in capsys.readouterr().err


def test_restore_takes_the_table_back_and_says_file_by_file_what_went(
    table: SmallTable, uri: str, capsys: Captured
) -> None:
    before = table.values()
    instant = create(uri, capsys)
    table.write("upsert", batch([0, 5], 2))
    changed = table.values()
    assert run(["restore", uri, "--to", instant, "--dry-run", "--json"]) == 0
    preview = printed_json(capsys)
    assert preview["dry_run"] and preview["instant"] is None
    assert table.values() == changed
    assert run(["restore", uri, "--to", instant, "--json"]) == 0
    done = printed_json(capsys)
    assert done["undone"] == preview["undone"]
    assert [item["action"] for item in done["undone"]] == ["commit"]
    assert done["bytes_deleted"] > 0
    assert table.values() == before
    assert run(["restore", uri, "--to", instant]) == 0
    assert f"back at {instant}: 0 instants" in capsys.readouterr().out


def test_restore_needs_a_savepoint(uri: str, capsys: Captured) -> None:
    assert run(["restore", uri]) == 2
    assert run(["restore", uri, "--to", "20200101000000000"]) == 2
    assert "no savepoint of this instant (there are: none)" in capsys.readouterr().err
