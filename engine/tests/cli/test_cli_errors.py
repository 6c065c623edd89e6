"""Exit codes and messages: one clear line, the right number."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tideline
from tideline.cli.main import run


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "table")
    tideline.create(uri, record_key=["id"])
    return uri


def test_a_missing_table_is_the_tables_fault_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", str(tmp_path / "nothing")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "no Hudi table" in captured.err
    assert str(tmp_path / "nothing") in captured.err


def test_corrupt_properties_are_reported_in_one_line(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(uri, ".hoodie/hoodie.properties").write_bytes(b"\x00\xff not properties")
    assert run(["show", uri]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "hoodie.properties" in message
    assert "Traceback" not in message


def test_a_table_version_we_do_not_know_is_refused_by_number(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = Path(uri, ".hoodie/hoodie.properties")
    text = properties.read_text().replace("hoodie.table.version=9", "hoodie.table.version=10")
    properties.write_text(text)
    assert run(["show", uri]) == 1
    assert "10" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["bogus"],
        ["show"],
        ["show", "x", "--bogus"],
        ["create", "x"],
        ["list-instants", "x", "--limit", "many"],
        ["plan", "bogus", "x"],
        ["execute"],
        ["execute", "rollback"],
        ["show", "ftp://host/table"],
        ["create", "x", "--record-key", "id", "--property", "no-equals-sign"],
        ["create", "x", "--record-key", " , "],
        ["show", "s3://bucket/table", "--endpoint", "http://user:secret@host:9000"],
    ],
)
def test_wrong_usage_exits_with_2(
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert error
    assert "Traceback" not in error
    assert "secret" not in error
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_unreachable_store_exits_with_4(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing-to-see")
    # The discard port: nothing listens there.
    arguments = ["--endpoint", "http://127.0.0.1:9", "--allow-http"]
    assert run(["show", "s3://bucket/table", *arguments]) == 4
    error = capsys.readouterr().err
    assert "127.0.0.1:9" in error
    assert "nothing-to-see" not in error


def test_a_lock_that_another_writer_keeps_exits_with_3(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tideline.open(uri).hoodie_table
    table.properties.update(
        {
            "hoodie.write.lock.wait_time_ms": "50",
            "hoodie.write.lock.client.wait_time_ms_between_retry": "10",
            "hoodie.write.lock.client.num_retries": "1",
        }
    )
    with table.lock().acquire(timeout_s=5):
        assert run(["execute", "rollback", uri]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_json_callers_get_the_error_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", str(tmp_path), "--json"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    error = json.loads(captured.err)
    assert error["error"] == "TableNotFound"
    assert error["exit_code"] == 1
    assert str(tmp_path) in error["message"]


def test_debugging_adds_the_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_DEBUG", "1")
    assert run(["show", str(tmp_path)]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error(uri: str) -> None:
    done = subprocess.run(
        f"{sys.executable} -m tideline show {uri} | true; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_what_lacks_a_package_says_what_brings_it(uri: str) -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None; from tideline.cli.main import run; "
        f"sys.exit(run(['read', {uri!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    needed = "this needs pyarrow: pip install 'tideline-lakehouse[spark]'"
    assert done.stderr == f"tideline: {needed}\n"


def test_the_module_and_the_script_are_one_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tideline", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"tideline, version {tideline.__version__}"


def test_help_lists_every_command_without_loading_spark() -> None:
    code = (
        "import sys; from tideline.cli.main import run; run(['--help']); "
        "sys.exit('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for command in ("run", "create", "show", "list-instants", "list-files", "write", "read", "plan",
                    "execute"):  # fmt: skip
        assert f"  {command} " in done.stdout
    assert "not installed" not in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("raed", "x"), "Did you mean one of: 'erase', 'read'?"),
        (("iceberg", "expires", "x"), "Did you mean 'expire'?"),
        (("execute", "compact", "x"), "did you mean compaction?"),
    ],
)
def test_a_near_name_is_offered(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert said in capsys.readouterr().err


def test_a_table_where_nothing_can_be_written_is_a_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["create", "/proc/table", "--record-key", "id"]) == 2
    error = capsys.readouterr().err
    assert "nothing can be written here: No such file or directory" in error
    assert "[path=file:///proc/table]" in error
