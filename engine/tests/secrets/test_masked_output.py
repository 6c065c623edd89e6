"""What processes print, log and report shows no secret of their environment."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.cli.execute_operation import run_operation
from tideline.cli.main import run
from tideline.cli.output import print_facts, print_json, print_line, print_table
from tideline.errors import StorageUnavailableError
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import CreateTable, Operation, TableTarget
from tideline.ingest.operation.result import OperationResult, Outcome, SkippedFile
from tideline.masked_stream import MaskedStream, masked_standard_error
from tideline.secret_values import MASK, forgotten, note_secrets
from tideline.testing.patience import PATIENCE_S

TOKEN = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


@pytest.fixture(autouse=True)
def one_secret(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LAKE_TOKEN", TOKEN)
    with forgotten():
        yield


def test_results_are_masked(capsys: pytest.CaptureFixture[str]) -> None:
    note_secrets([TOKEN])
    print_line(f"a {TOKEN}")
    print_facts({"uri": f"s3://{TOKEN}", "list": [TOKEN]})
    print_table(("name", "value"), [("x", TOKEN), ("y", {"z": TOKEN})])
    print_json({"a": [TOKEN], "n": 1})
    printed = capsys.readouterr().out
    assert TOKEN not in printed
    assert printed.count(MASK) == 6
    assert json.loads(printed.splitlines()[-1]) == {"a": [MASK], "n": 1}


def test_rows_of_a_table_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    note_secrets(["monday"])
    print_json({"rows": [{"day": "monday"}]}, are_rows=True)
    print_table(("day",), [("monday",)], are_rows=True)
    assert capsys.readouterr().out.count("monday") == 2


@pytest.mark.parametrize("debug", ["", "1"])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_error_of_the_command_line_is_masked(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    debug: str,
    options: list[str],
) -> None:
    monkeypatch.setenv("TIDELINE_DEBUG", debug)
    assert run(["show", str(tmp_path / "none" / TOKEN), *options]) == 1
    printed = capsys.readouterr().err
    assert MASK in printed
    assert TOKEN not in printed
    if options:
        assert json.loads(printed.splitlines()[-1])["error"]


def test_usage_errors_are_masked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([f"no-{TOKEN}"]) == 2
    assert run(["show", f"--{TOKEN}"]) == 2
    assert TOKEN not in capsys.readouterr().err


def test_causes_and_errors_of_threads_are_masked(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        try:
            raise OSError(f"401 for Bearer {TOKEN}")
        except OSError as error:
            raise StorageUnavailableError("the catalog refused") from error

    with masked_standard_error():
        thread = threading.Thread(target=fail)
        before, threading.excepthook = threading.excepthook, threading.__excepthook__
        try:
            thread.start()
            thread.join()
        finally:
            threading.excepthook = before
        try:
            fail()
        except StorageUnavailableError:
            traceback.print_exc()
        logging.StreamHandler().emit(
            logging.LogRecord("x", logging.ERROR, "x", 1, "with %s", (TOKEN,), None)
        )
    printed = capsys.readouterr().err
    assert printed.count(f"401 for Bearer {MASK}") == 2
    assert f"with {MASK}" in printed
    assert TOKEN not in printed


def test_a_masked_stream_is_the_stream_in_everything_else() -> None:
    with forgotten():
        note_secrets([TOKEN])
        under = io.StringIO()
        stream = MaskedStream(under)
        assert stream.write(f"{TOKEN}\n") == len(TOKEN) + 1
        stream.writelines([TOKEN, "x"])
        stream.flush()
        assert not stream.isatty()
        assert under.getvalue() == f"{MASK}\n{MASK}x"


@pytest.mark.parametrize(
    "module", ["tideline.cli.main", "tideline_operator", "tideline_operator.plugin.main"]
)
def test_a_process_that_ends_with_an_error_shows_no_secret(module: str, tmp_path: Path) -> None:
    program = (
        f"import sys, click, {module} as entry\n"
        "def fail(*given, **named): raise RuntimeError(__import__('os').environ['LAKE_TOKEN'])\n"
        "click.Group.make_context = click.Group.main = fail\n"
        f"from {module if module != 'tideline_operator' else 'tideline_operator.__main__'} "
        "import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TIDELINE_DEBUG": "1"},
        timeout=PATIENCE_S,
    )
    assert done.returncode == 1
    assert f"RuntimeError: {MASK}" in done.stderr
    assert TOKEN not in done.stdout + done.stderr


def test_a_report_is_masked_and_cut_between_secrets() -> None:
    note_secrets([TOKEN, "short-one"])
    result = OperationResult(
        "op-1",
        Outcome.FAILED,
        message=f"refused {TOKEN}; " + "x" * 5_000,
        notes=(TOKEN, "n" * 94 + "short-one"),
        skipped=(SkippedFile(f"landing/{TOKEN}", f"why {TOKEN}"),),
        audit=({"file": TOKEN, "bytes": 3},),
    )
    whole = json.dumps(result.to_json_object())
    assert TOKEN not in whole
    assert "short-one" not in whole
    text = result.to_json()
    assert OperationResult.from_json_object(json.loads(text)).outcome is Outcome.FAILED
    for part in (TOKEN[:12], "short", "x" * 1_000):
        assert part not in text
    assert len(text.encode()) <= 4_096


def test_structure_of_a_report_is_not_masked() -> None:
    note_secrets(["succeeded", "20261126010203004"])
    result = OperationResult("op-1", Outcome.SUCCEEDED, instant="20261126010203004")
    assert OperationResult.from_json_object(json.loads(result.to_json())) == result


def test_a_termination_message_is_masked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    note_secrets([TOKEN])
    log = tmp_path / "log"
    operation = tmp_path / "operation.json"
    # Where a folder of the table should be is a file.
    (tmp_path / TOKEN.partition("/")[0]).write_text("")
    target = TableTarget("lake/orders", Location((tmp_path / TOKEN).as_uri()), ("id",))
    content = Operation("orders-1", target, CreateTable()).to_json_object()
    operation.write_text(json.dumps(content))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    code = run_operation(str(operation), {"TIDELINE_TERMINATION_LOG": str(log)})
    assert code != 0
    assert MASK in log.read_text()
    assert TOKEN not in log.read_text() + capsys.readouterr().out
