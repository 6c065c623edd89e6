"""How the command line looks: help, usage errors, completion, former names, width, progress."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

import tideline
from tideline.cli import output
from tideline.cli.command import TidelineCommand
from tideline.cli.main import run, tideline_command
from tideline.cli.progress import progress

SHARED = {"--json", "--endpoint", "--region", "--path-style", "--allow-http", "--ca-bundle"}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "table")
    tideline.create(uri, record_key="id")
    return uri


def uncoloured(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def help_of(*words: str, columns: int = 80) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tideline", *words, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": str(columns)},
    )
    return done.stdout


def on_terminal(*arguments: str, columns: int, answer: str = "") -> tuple[int, str]:
    """Run the command line on a terminal so wide; its exit code and all that it shows."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ["COLUMNS"] = str(columns)
        os.execv(sys.executable, [sys.executable, "-m", "tideline", *arguments])
    shown = b""
    if answer:
        os.write(terminal, answer.encode())
    while True:
        try:
            chunk = os.read(terminal, 65_536)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.decode()


def all_commands() -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []

    def collect(path: str, group: click.Group) -> None:
        context = click.Context(group, info_name=path)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            if isinstance(command, click.Group):
                collect(f"{path} {name}", command)
            else:
                found.append((f"{path} {name}", command))

    collect("tideline", tideline_command)
    return found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bogus"], "bogus"),
        (["show"], "URI"),
        (["show", "x", "--bogus"], "--bogus"),
        (["list-instants", "x", "--limit", "-1"], "limit"),
    ],
)
def test_a_usage_error_is_one_json_object_on_stderr(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    error = json.loads(captured.err)
    assert (error["error"], error["exit_code"]) == ("UsageError", 2)
    assert message in error["message"]


def test_every_command_takes_json() -> None:
    lacking = [
        name
        for name, command in all_commands()
        if not any("--json" in parameter.opts for parameter in command.params)
    ]
    assert lacking == []


def test_what_changes_something_has_a_dry_run_and_what_deletes_takes_a_yes() -> None:
    options = {
        name.removeprefix("tideline "): {opt for item in command.params for opt in item.opts}
        for name, command in all_commands()
    }
    looking = {"adopt", "changes", "show", "list-instants", "list-files", "check-store", "verify",
               "read", "plan", "report", "spark-history", "savepoint list", "index list",
               "iceberg show", "iceberg plan", "iceberg branch list", "iceberg tag list",
               "completion", "ui", "sql"}  # fmt: skip
    without = {name for name, known in options.items() if "--dry-run" not in known}
    assert without == looking
    assert {name for name, known in options.items() if "--yes" in known} == {
        *(
            "check",
            "erase",
            "publish",
            "write",
            "execute",
            "restore",
            "savepoint delete",
            "index drop",
            "upgrade",
            "downgrade",
        ),
        *("iceberg erase", "iceberg expire", "iceberg remove-orphans"),
        *("iceberg alter drop-column", "iceberg alter upgrade"),
        *("iceberg branch drop", "iceberg tag drop"),
        "init",  # which asks for keys
    }


def test_own_options_come_before_shared_ones_in_every_help() -> None:
    for name, command in all_commands():
        if name == "tideline run":
            continue
        assert isinstance(command, TidelineCommand), name
        context = click.Context(command, info_name=name)
        own = {opt for item in command.own_options(context) for opt in item.opts}
        assert not own & SHARED, name
    text = help_of("create")
    assert text.index("--record-key") < text.index("Shared options") < text.index("--json")


def test_no_option_or_setting_is_broken_at_width_80() -> None:
    text = help_of("create") + help_of("iceberg", "expire") + help_of("run")
    assert max(map(len, text.splitlines())) <= 80
    assert not [line for line in text.splitlines() if line.rstrip().endswith("-")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_a_shell(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_TIDELINE_COMPLETE={shell}_complete" in script
    assert run(["completion", shell, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"shell": shell, "script": script[:-1]}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("tideline execute cl", ["cleaning", "clustering"]),
        ("tideline plan arch", ["archival"]),
        ("tideline write x --operation bulk", ["bulk_insert"]),
        ("tideline create x --type ME", ["MERGE_ON_READ"]),
        ("tideline create x --key-generator TIM", ["TIMESTAMP"]),
        ("tideline list-in", ["list-instants"]),
        ("tideline timel", []),
    ],
)
def test_a_shell_completes_installed_names(words: str, expected: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from tideline.cli.main import main; main()"],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "_TIDELINE_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        },
    )
    found = [line.partition(",")[2] for line in done.stdout.splitlines() if line]
    assert sorted(found) == sorted(expected)


def test_instants_and_paths_stay_whole_on_a_terminal_of_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    row = ("20261121120000000", "3m", "deltacommit", "COMPLETED", "insert_overwrite_table", 12,
           "day=2026-11-21/7c1e0d3c-7a41-4c57-9d8e-1f7d0c1f2f11-0_0-1-1_20261121120000000.parquet",
           "a sentence that is longer than what is left of the line")  # fmt: skip
    headers = ("instant", "age", "action", "state", "operation", "files", "path", "comment")
    output.print_table(headers, [row])
    shown = uncoloured(capsys.readouterr().out)
    for word in " ".join(map(str, row)).split():
        assert word in shown.split()
    output.print_facts({"latest commit": "20261121120000000", "path": row[6]})
    assert row[6] in uncoloured(capsys.readouterr().out).split()


def test_a_table_that_fits_stays_within_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    output.print_table(("instant", "comment"), [("20261121120000000", "many words " * 20)])
    lines = uncoloured(capsys.readouterr().out).splitlines()
    assert len(lines) > 3
    assert max(len(line.rstrip()) for line in lines) <= 80


def test_a_limit_of_0_is_0_and_all_is_all(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(uri, ".hoodie/timeline").mkdir()
    Path(uri, ".hoodie/timeline/20990101000000000.commit.requested").touch()
    counts = {}
    for limit in ("0", "1", "all"):
        assert run(["list-instants", uri, "--limit", limit, "--json"]) == 0
        listed = json.loads(capsys.readouterr().out)
        counts[limit] = (len(listed["instants"]), listed["total"])
    assert counts == {"0": (0, 1), "1": (1, 1), "all": (1, 1)}
    assert run(["list-instants", uri, "--limit", "0"]) == 0
    assert capsys.readouterr().out == "1 older instant not shown: --limit all shows all.\n"


def test_long_work_is_announced_in_plain_lines_in_a_pipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress("reading the table", first_line_s=0.02, lines_s=0.02):
        time.sleep(0.2)
        output.print_line("the answer")
        time.sleep(0.1)
    captured = capsys.readouterr()
    assert captured.out == "the answer\n"
    lines = captured.err.splitlines()
    assert len(lines) > 1
    assert lines[0].startswith("tideline: reading the table, 0 s")


def test_short_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("reading the table"):
        pass
    assert capsys.readouterr().err == ""


def test_progress_on_a_terminal_leaves_nothing_behind(uri: str) -> None:
    code, shown = on_terminal("check", uri, columns=80)
    assert code == 0
    assert shown.endswith("No findings: the table is sound.\r\n")
