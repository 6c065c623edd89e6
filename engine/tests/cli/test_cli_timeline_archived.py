"""`timeline --archived` continues where the active timeline ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tideline.cli.main import run
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import execute_archival
from tideline.storage.location import StoreLocation
from tideline.testing.fixtures import fixture_table
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = pytest.mark.usefixtures("version_6")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Six commits, four of them archived."""
    table = SmallTable.create(StoreLocation.of(tmp_path / "t"))
    for version in range(1, 7):
        table.write("upsert", batch(range(4), version))
    opened = open_fresh(table.location)
    with opened.lock().acquire(timeout_s=60):
        execute_archival(opened, ArchivalConfig(commits_min=2, commits_max=3))
    return str(tmp_path / "t")


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(["list-instants", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_archived_instants_come_before_the_active_ones(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(listed(capsys, uri)["instants"]) == 2
    shown = listed(capsys, uri, "--archived")
    assert [row.get("archived", False) for row in shown["instants"]] == [True] * 4 + [False] * 2
    times = [row["instant"] for row in shown["instants"]]
    assert times == sorted(times)
    assert shown["total"] == 6
    assert shown["instants"][0]["inserted"] == 4


def test_the_limit_counts_both_and_says_when_there_is_more(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = listed(capsys, uri, "--archived", "--limit", "3")
    assert (len(shown["instants"]), shown["total"]) == (3, None)
    assert len(listed(capsys, uri, "--archived", "--limit", "6")["instants"]) == 6
    assert run(["list-instants", uri, "--archived", "--limit", "3"]) == 0
    assert "Older instants not shown" in capsys.readouterr().out


@pytest.mark.fixtures
def test_the_archive_of_a_table_of_hudis_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    table = fixture_table("hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor")
    shown = listed(capsys, str(table), "--archived")
    archived = [row for row in shown["instants"] if row.get("archived")]
    assert [row["action"] for row in archived] == [
        "deltacommit", "deltacommit", "deltacommit", "commit", "replacecommit",
    ]  # fmt: skip
    assert [row["operation"] for row in archived[-2:]] == ["compact", "cluster"]


def test_a_commit_that_cannot_be_read_is_listed_as_such(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (*_, newest) = sorted((Path(uri) / ".hoodie").glob("*.commit"))
    newest.write_bytes(newest.read_bytes()[:100])
    sound, broken = listed(capsys, uri)["instants"]
    assert (sound["operation"], broken["operation"]) == ("upsert", "unreadable")
    assert newest.name in broken["error"]
    assert run(["list-instants", uri]) == 0
    assert "unreadable" in capsys.readouterr().out
