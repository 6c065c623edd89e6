"""Settings on the command line: refused where they are given, reported where they are stored."""

from __future__ import annotations

from pathlib import Path

import pytest

import tideline
from tideline.cli.main import run
from tideline.hudi.table.properties import update_table_properties


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "table")
    tideline.create(uri, record_key=["id"])
    return uri


def test_a_property_that_is_unknown_or_refused_creates_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for given, says in (
        ("hoodie.clean.commit.retained=1", "did you mean hoodie.clean.commits.retained?"),
        ("hoodie.datasource.hive_sync.enable=true", "set tideline.sync=hive"),
    ):
        arguments = ["create", f"{tmp_path}/new", "--record-key", "id", "--property", given]
        assert run(arguments) == 2
        assert says in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("command", [["plan", "cleaning"], ["execute", "cleaning"]])
def test_options_of_services_are_checked(
    uri: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, uri, "--option", "clean.retain_commits=3"]) == 0
    assert run([*command, uri, "--option", "clean.retain_commit=3"]) == 2
    assert "did you mean clean.retain_commits?" in capsys.readouterr().err


def test_stored_settings_without_effect_are_noted(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    update_table_properties(tideline.open(uri).hoodie_table.store, {"hoodie.colour": "red"})
    assert run(["show", uri]) == 0
    assert "Note: no setting is called hoodie.colour" in capsys.readouterr().out
    run(["check", uri])
    assert "no setting is called hoodie.colour" in capsys.readouterr().out


def test_a_shell_completes_names_of_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_TIDELINE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "tideline execute --option hoodie.clean.c")
    monkeypatch.setenv("COMP_CWORD", "3")
    run()
    assert capsys.readouterr().out == "plain,hoodie.clean.commits.retained=\n"
