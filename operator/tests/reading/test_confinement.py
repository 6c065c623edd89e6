"""What a reading process can do no more, tried in a process that gave it up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tideline_operator.reading.landlock import landlock_version

_CONFINED = """
import json, os, socket, subprocess, sys, threading
from pathlib import Path
from tideline_operator.reading.confinement import confine
folder, writes = Path(sys.argv[1]), sys.argv[2] == "writes"
nothing = subprocess.DEVNULL
victim = subprocess.Popen(["sleep", "5"], stdout=nothing, stderr=nothing)
control, _ = socket.socketpair()
output = os.dup(1)
confine(control.fileno(), None, writes_files=writes)

def refused(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "done"

def fork():
    if os.fork() == 0:
        os._exit(0)

def thread():
    made = threading.Thread(target=lambda: None)
    made.start()
    made.join()

def listen():
    (folder / "reader.sock").unlink()
    socket.socket(socket.AF_UNIX).bind(str(folder / "reader.sock"))

found = {
    "read": refused(lambda: (folder / "text").read_text()),
    "write": refused(lambda: (folder / "text").write_text("changed")),
    "make": refused(lambda: (folder / "new").write_text("new")),
    "listen": refused(listen),
    "fork": refused(fork),
    "thread": refused(thread),
    "run": refused(lambda: subprocess.run(["true"])),
    "signal": refused(lambda: os.kill(victim.pid, 0)),
    "output": refused(lambda: os.write(output, b"x")),
}
print(json.dumps(found), file=sys.stderr)
"""


def tried(folder: Path, writes: str) -> dict[str, str]:
    (folder / "text").write_text("text")
    (folder / "reader.sock").write_text("")
    done = subprocess.run(
        [sys.executable, "-c", _CONFINED, str(folder), writes],
        capture_output=True,
        text=True,
        check=False,
    )
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("{"), done.stderr
    found: dict[str, str] = json.loads(line)
    return found


@pytest.mark.skipif(landlock_version() < 6, reason="the kernel's Landlock knows no signals")
def test_it_changes_no_file_takes_no_socket_runs_no_program_and_signals_nobody(
    tmp_path: Path,
) -> None:
    found = tried(tmp_path, "")
    assert (found.pop("read"), found.pop("thread")) == ("done", "done")
    assert found.pop("output") == "OSError"  # it was closed
    assert set(found.values()) == {"PermissionError"}
    assert (tmp_path / "text").read_text() == "text"
    assert (tmp_path / "reader.sock").is_file()


def test_one_of_local_tables_changes_files(tmp_path: Path) -> None:
    found = tried(tmp_path, "writes")
    assert (found["read"], found["write"], found["make"]) == ("done", "done", "done")
    assert found["output"] == "OSError"


def test_it_makes_threads_but_no_process_and_runs_no_program(tmp_path: Path) -> None:
    found = tried(tmp_path, "")
    assert found["thread"] == "done"
    assert (found["fork"], found["run"]) == ("PermissionError", "PermissionError")
