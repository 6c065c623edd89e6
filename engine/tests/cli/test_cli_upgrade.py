"""`tideline upgrade` and `tideline downgrade`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tideline.cli.main import run
from tideline.hudi.open_table import open_table
from tideline.storage.location import StoreLocation
from tideline.testing.small_table import SmallTable, batch

pytestmark = pytest.mark.usefixtures("version_6")

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    table = SmallTable.create(StoreLocation.of(tmp_path / "table"))
    table.write("insert", batch(range(4), 1))
    table.write("upsert", batch([1], 2))
    return table


def printed_json(capsys: Captured) -> Any:
    return json.loads(capsys.readouterr().out)


def version_of(table: SmallTable) -> int:
    return open_table(table.location).config.version


def test_up_and_down_again(table: SmallTable, capsys: Captured) -> None:
    uri, rows = table.location.uri, table.values()
    assert run(["upgrade", uri, "--to", "9"]) == 0
    assert capsys.readouterr().out == (
        "The table went from version 6 to version 9.\n"
        "Its timeline was rewritten: 6 objects, 0 archived instants.\n"
    )
    assert version_of(table) == 9
    assert table.values() == rows
    assert run(["upgrade", uri, "--to", "9"]) == 0
    assert capsys.readouterr().out == "The table has version 9 already.\n"
    assert run(["downgrade", uri, "--to", "8", "--json"]) == 0
    report = printed_json(capsys)
    assert (report["from_version"], report["to_version"], report["done"]) == (9, 8, True)
    assert run(["downgrade", uri, "--to", "6"]) == 0
    assert version_of(table) == 6
    assert table.values() == rows


def test_a_dry_run_says_the_steps_and_the_properties(table: SmallTable, capsys: Captured) -> None:
    assert run(["upgrade", table.location.uri, "--to", "8", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "From version 6 to version 8:" in printed
    assert "1. write timeline and archive in the other layout" in printed
    assert "  hoodie.table.version = 8" in printed
    assert version_of(table) == 6
    assert run(["upgrade", table.location.uri, "--to", "8", "--dry-run", "--json"]) == 0
    report = printed_json(capsys)
    assert report["done"] is False
    assert report["properties"]["hoodie.timeline.layout.version"] == "2"


def test_the_wrong_direction_changes_nothing(table: SmallTable, capsys: Captured) -> None:
    assert run(["downgrade", table.location.uri, "--to", "9"]) != 0
    assert "this would be tideline upgrade" in capsys.readouterr().err
    assert run(["upgrade", table.location.uri, "--to", "7"]) != 0
    assert "a table is brought to version 6, 8, 9" in capsys.readouterr().err
    assert version_of(table) == 6
