"""The line protocol with a child process: answers, failures, and nothing left running."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tideline.testing.json_line_server
from tideline.testing.json_line_process import JsonLineProcess, PeerFailureError, PeerLostError
from tideline.testing.patience import PATIENCE_S

CHILD = """
import os, subprocess, sys, time
from json_line_server import claim_standard_output, serve

def add(first, second):
    print("noise on standard output")
    subprocess.run(["echo", "noise of a child"])
    return first + second

def fail():
    raise ValueError("java.lang.X: outer\\n\\tat frame(One.java:1)\\nCaused by: inner reason")

def spawn():
    return subprocess.Popen(["sleep", "600"]).pid

def sleep(seconds):
    time.sleep(seconds)

def exit():
    print("last words", file=sys.stderr)
    os._exit(3)

serve({"add": add, "fail": fail, "spawn": spawn, "exit": exit, "sleep": sleep},
      claim_standard_output())
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[JsonLineProcess]:
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    server = Path(tideline.testing.json_line_server.__file__).parent
    child = JsonLineProcess(
        [sys.executable, str(script)],
        log_path=tmp_path / "child.log",
        working_directory=tmp_path,
        environment={**os.environ, "PYTHONPATH": str(server)},
    )
    yield child
    child.close()


def test_replies_survive_anything_else_that_is_printed(process: JsonLineProcess) -> None:
    assert process.request("add", first=1, second=2).result == 3
    assert process.request("add", first="a", second="b").result == "ab"


def test_a_failure_is_reported_with_its_causes_and_without_stack_frames(
    process: JsonLineProcess,
) -> None:
    with pytest.raises(PeerFailureError) as failure:
        process.request("fail")
    assert "outer" in str(failure.value)
    assert "Caused by: inner reason" in str(failure.value)
    assert "One.java" not in str(failure.value)
    assert process.request("add", first=1, second=1).result == 2


def test_a_process_that_ends_is_reported_with_the_end_of_its_log(
    process: JsonLineProcess,
) -> None:
    with pytest.raises(PeerLostError, match="last words"):
        process.request("exit")
    with pytest.raises(PeerLostError):
        process.request("add", first=1, second=2)


@pytest.mark.slow
def test_a_silent_process_is_given_up_after_the_time_limit(process: JsonLineProcess) -> None:
    with pytest.raises(PeerLostError, match=r"no answer within 0 s"):
        process.request("sleep", timeout_s=0.2, seconds=5)


def test_closing_ends_the_children_too(process: JsonLineProcess) -> None:
    child = process.request("spawn").result
    process.close()
    until = time.monotonic() + PATIENCE_S
    while _is_running(child) and time.monotonic() < until:
        time.sleep(0.02)
    assert not _is_running(child)


def test_a_command_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(PeerLostError, match="No module named"):
        JsonLineProcess(
            [sys.executable, "-c", "import no_such_module"],
            log_path=tmp_path / "child.log",
            working_directory=tmp_path,
            environment=os.environ,
        )


def _is_running(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(state.stdout.strip()) and not state.stdout.startswith("Z")
