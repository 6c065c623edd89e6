"""`tideline check`: findings for people and machines, an exit code, and repairs dry by default."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tideline.cli.main import run
from tideline.storage.location import StoreLocation
from tideline.testing.small_table import SmallTable, batch

ORPHAN = "p0/22222222-2222-2222-2222-222222222222-0_0-0-0_20300101000000000.parquet"


@pytest.fixture
def uri(tmp_path: Path) -> str:
    table = SmallTable.create(StoreLocation.of(tmp_path / "t"))
    table.write("insert", batch(range(4), 1))
    return str(tmp_path / "t")


def checked(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert run(["check", *arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_sound_table_says_so(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", uri, "--keys"]) == 0
    assert capsys.readouterr().out == "No findings: the table is sound.\n"
    assert checked(capsys, uri) == {"findings": [], "repairs": [], "repaired": False}


def test_warnings_leave_the_exit_code_alone_and_repair_is_dry(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (Path(uri) / ORPHAN).write_bytes(b"half a file")
    found = checked(capsys, uri, "--repair")
    assert [finding["severity"] for finding in found["findings"]] == ["warning"]
    assert found["repairs"] == [f"delete the file: {ORPHAN}"]
    assert (Path(uri) / ORPHAN).exists()
    done = checked(capsys, uri, "--repair", "--apply")
    assert done["repaired"] is True
    assert done["findings"] == []
    assert not (Path(uri) / ORPHAN).exists()


def test_errors_end_with_exit_code_one_and_an_advice(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (lost, *_) = sorted((Path(uri) / "p0").glob("*.parquet"))
    lost.unlink()
    assert run(["check", uri]) == 1
    printed = capsys.readouterr().out
    assert f"p0/{lost.name}" in printed
    assert "to repair: put it back from a copy" in printed
    assert printed.endswith("\n1 error\n")


def test_apply_alone_is_a_usage_error(uri: str) -> None:
    assert run(["check", uri, "--apply"]) == 2


def test_unfinished_files_of_dead_processes_are_reported_and_removed(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    unfinished = Path(uri) / "p0" / ".tmp-1"
    unfinished.write_bytes(b"half")
    found = checked(capsys, uri, "--repair")
    assert found["repairs"] == ["remove the unfinished files of dead processes: p0"]
    assert checked(capsys, uri, "--repair", "--apply")["findings"] == []
    assert not unfinished.exists()


def test_what_repairs_it_can_be_typed_as_it_is_printed(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (Path(uri) / ORPHAN).write_bytes(b"half a file")
    assert run(["check", uri]) == 0
    printed = capsys.readouterr().out.splitlines()
    command = next(line for line in printed if "to repair" in line).partition("tideline ")[2]
    assert run(command.split()) == 0
    assert not (Path(uri) / ORPHAN).exists()
