"""Looking before leaping: dry runs change nothing, a question comes where a person can answer."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tideline
from tideline.cli.main import run
from tideline.storage.location import StoreLocation
from tideline.testing.iceberg_delete_table import DeleteTable
from tideline.testing.small_table import SmallTable, batch

Captured = pytest.CaptureFixture[str]
FEW_VERSIONS = ("--option", "hoodie.clean.commits.retained=1")


class Answering(io.StringIO):
    """Standard input of a person who has typed this."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def uri(tmp_path: Path) -> str:
    table = SmallTable.create(StoreLocation.of(tmp_path / "table"))
    for v in range(4):
        table.write("upsert", batch(range(4), v))
    return table.location.uri


@pytest.fixture
def iceberg_uri(tmp_path: Path) -> str:
    """A table with snapshots that are old, and a file that nothing refers to."""
    table = DeleteTable.create()
    table.append("a", range(10))
    table.append("b", range(10, 20))
    folder = tmp_path / "orders"
    store = table.model.location.open()
    for path, body in [(info.path, store.get(info.path)) for info in store.list()] + [
        ("data/stray.parquet", b"stray")
    ]:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
        os.utime(file, (time.time() - 9 * 86_400,) * 2)
    return str(folder)


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", Answering(text))


def state_of(uri: str) -> dict[str, bytes]:
    """Every file and its bytes, except those of locks."""
    folder = Path(uri.removeprefix("file://"))
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "lock" not in str(path.relative_to(folder))
    }


def newest(uri: str) -> str:
    last = tideline.open(uri).timeline().last()
    assert last is not None
    return str(last.time)


def printed_json(capsys: Captured) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_dry_run_of_a_creation_describes_the_table_and_makes_none(
    tmp_path: Path, capsys: Captured
) -> None:
    uri = str(tmp_path / "orders")
    arguments = ["create", uri, "--record-key", "id", "--partition-by", "day", "--ordering", "ts",
                 "--type", "merge_on_read", "--key-generator", "simple",
                 "--merge-mode", "commit_time_ordering", "--hive-style"]  # fmt: skip
    assert run([*arguments, "--dry-run", "--json"]) == 0
    planned = printed_json(capsys)
    assert not Path(uri).exists()
    assert run([*arguments, "--json"]) == 0
    made = printed_json(capsys)
    assert (planned.pop("dry_run"), made.pop("dry_run")) == (True, False)
    assert (made["type"], made["merge_mode"]) == ("MERGE_ON_READ", "COMMIT_TIME_ORDERING")
    assert made["properties"]["hoodie.datasource.write.hive_style_partitioning"] == "true"
    for item in (planned, made):
        del item["properties"]["hoodie.table.checksum"]
    assert planned == made
    assert run([*arguments, "--dry-run", "--json"]) == 2
    assert json.loads(capsys.readouterr().err)["error"] == "TableExists"


@pytest.mark.parametrize(
    "words",
    [
        ["savepoint", "create"],
        ["declare", "--index", "GLOBAL_BLOOM"],
        ["execute", "cleaning", *FEW_VERSIONS],
        ["execute", "archival"],
        ["execute", "rollback"],
        ["execute", "clustering", "--option", "hoodie.clustering.inline.max.commits=1"],
        ["check", "--repair", "--apply"],
    ],
)
def test_dry_runs_change_nothing(words: list[str], uri: str, capsys: Captured) -> None:
    Path(uri.removeprefix("file://"), ".hoodie/20200101000000000.commit.requested").touch()
    before = state_of(uri)
    place = 2 if words[0] in ("savepoint", "execute") else 1
    assert run([*words[:place], uri, *words[place:], "--dry-run", "--json"]) in (0, 1)
    captured = capsys.readouterr()
    assert isinstance(json.loads(captured.out), dict), captured.err
    assert state_of(uri) == before


def test_a_dry_run_of_a_service_is_its_plan(uri: str, capsys: Captured) -> None:
    assert run(["execute", "cleaning", uri, *FEW_VERSIONS, "--dry-run", "--json"]) == 0
    dry = printed_json(capsys)
    assert run(["plan", "cleaning", uri, *FEW_VERSIONS, "--json"]) == 0
    assert printed_json(capsys) == dry
    assert dry["services"][0]["bytes_deleted"] > 0
    assert run(["execute", "--dry-run"]) == 2


def test_a_dry_run_of_a_write_names_the_files_that_it_would_take(
    uri: str, tmp_path: Path, capsys: Captured
) -> None:
    source = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": ["z"], "part": ["p0"], "v": [1]}), source)
    before = state_of(uri)
    assert run(["write", uri, "--source", str(source), "--dry-run", "--json"]) == 0
    assert printed_json(capsys) == {
        "dry_run": True,
        "operation": "upsert",
        "source_files": [f"file://{source}"],
    }
    assert run(["write", uri, "--source", str(tmp_path / "nothing"), "--dry-run"]) == 1
    assert state_of(uri) == before


def test_without_a_terminal_what_deletes_goes_on(uri: str, capsys: Captured) -> None:
    assert run(["execute", "cleaning", uri, *FEW_VERSIONS]) == 0
    captured = capsys.readouterr()
    assert "deleted" in captured.out
    assert "[y/N]" not in captured.err


def test_a_person_is_asked_before_files_are_cleaned(
    uri: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    command = ["execute", "cleaning", uri, *FEW_VERSIONS]
    before = state_of(uri)
    for typed in ("\n", "n\n"):
        answer(monkeypatch, typed)
        assert run(command) == 130
        captured = capsys.readouterr()
        assert "cleaning deletes" in captured.err
        assert captured.err.endswith("tideline: nothing was changed\n")
    assert state_of(uri) == before
    answer(monkeypatch, "y\n")
    assert run(command) == 0
    assert state_of(uri) != before


def test_yes_skips_the_question(
    uri: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    answer(monkeypatch, "")
    assert run(["execute", "cleaning", uri, *FEW_VERSIONS, "--yes"]) == 0
    assert "[y/N]" not in capsys.readouterr().err


def test_a_service_that_deletes_nothing_does_not_ask(
    uri: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    answer(monkeypatch, "")
    assert run(["execute", "archival", uri]) == 0
    assert "[y/N]" not in capsys.readouterr().err


def test_a_declined_question_is_json_for_machines(
    uri: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    answer(monkeypatch, "n\n")
    assert run(["execute", "cleaning", uri, *FEW_VERSIONS, "--json"]) == 130
    captured = capsys.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err.rpartition("{")[1] + captured.err.rpartition("{")[2]) == {
        "error": "Declined",
        "message": "nothing was changed",
        "exit_code": 130,
    }


def test_a_person_is_asked_before_a_savepoint_is_given_up_and_a_restore(
    uri: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    kept = newest(uri)
    assert run(["savepoint", "create", uri, "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith(f"Would keep {kept}: ")
    assert run(["savepoint", "create", uri]) == 0
    SmallTable(StoreLocation.of(uri)).write("upsert", batch(range(4), 9))
    before = state_of(uri)
    assert run(["savepoint", "delete", uri, kept, "--dry-run"]) == 0
    assert f"Would give up {kept}" in capsys.readouterr().out
    for command in (["savepoint", "delete", uri, kept], ["restore", uri, "--to", kept]):
        answer(monkeypatch, "n\n")
        assert run(command) == 130
        assert "[y/N]" in capsys.readouterr().err
    assert state_of(uri) == before
    answer(monkeypatch, "y\n")
    assert run(["restore", uri, "--to", kept]) == 0
    assert "1 instant, " in capsys.readouterr().out


def test_a_person_is_asked_before_a_repair(
    uri: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    leftover = Path(uri.removeprefix("file://"), "p0", ".tmp-1")
    leftover.write_bytes(b"half")
    answer(monkeypatch, "n\n")
    assert run(["check", uri, "--repair", "--apply"]) == 130
    assert "would repair: " in capsys.readouterr().err
    assert leftover.exists()
    assert run(["check", uri, "--repair", "--apply", "--yes"]) == 0
    assert not leftover.exists()


def test_a_person_is_asked_before_snapshots_and_orphans_go(
    iceberg_uri: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    before = state_of(iceberg_uri)
    for words, question in (
        (["remove-orphans"], "Delete 1 file, 5 B, of "),
        (["expire", "--older-than", "1s", "--retain-last", "1"], "Expire 1 snapshot of "),
    ):
        command = ["iceberg", words[0], iceberg_uri, *words[1:]]
        answer(monkeypatch, "n\n")
        assert run(command) == 130
        assert question in capsys.readouterr().err
        assert state_of(iceberg_uri) == before
        answer(monkeypatch, "y\n")
        assert run(command) == 0
        assert state_of(iceberg_uri) != before
        before = state_of(iceberg_uri)
