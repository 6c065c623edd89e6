"""The asking half of a JSON-lines process: start it, send requests, end it with all its children.

A `JsonLineProcess` is the caller's own. `connect_shared` gives several processes of a test run one
between them, started by the first of them and gone after the last.

The process is the leader of its own process group, so that ending it also ends the JVM it started.
Its standard error goes to a log file whose last lines are part of every failure's message.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

LOG_LINES_SHOWN = 30
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 15.0

# Shared processes that outlive the call that started them.
_STARTED: list[subprocess.Popen[bytes]] = []


class PeerFailureError(Exception):
    """A request failed inside the process; the message is the process's own."""


class PeerLostError(Exception):
    """The process ended or stopped answering; the message ends with the tail of its log."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a handler returned, and how many seconds of work it took inside the process."""

    result: Any
    seconds: float


class JsonLineChannel:
    """A conversation with a process that answers one JSON request at a time."""

    def __init__(self, pid: int, requests: IO[bytes], replies: int, log_path: Path) -> None:
        """Speak into `requests`, listen to the file descriptor `replies`."""
        self._pid = pid
        self._requests = requests
        self._replies = replies
        self._log_path = log_path
        self._unread = b""

    @property
    def pid(self) -> int:
        """Process id of the other side, which is also its process group's id."""
        return self._pid

    def request(self, operation: str, /, *, timeout_s: float = 300.0, **arguments: Any) -> Reply:
        """Run one handler.

        Raises PeerFailureError when it fails, PeerLostError when no reply comes.
        """
        body = json.dumps({"operation": operation, "arguments": arguments}) + "\n"
        try:
            self._requests.write(body.encode())
            self._requests.flush()
        except (OSError, ValueError) as failure:
            raise PeerLostError(self._account("is gone")) from failure
        reply = self._parse(self.receive(timeout_s))
        if "error" in reply:
            raise PeerFailureError(f"{operation}: {reply['error']}")
        return Reply(result=reply["result"], seconds=reply["seconds"])

    def close(self) -> None:
        """Say that no request follows."""
        with contextlib.suppress(OSError, ValueError):
            self._requests.write(b'{"operation": "stop"}\n')
            self._requests.close()

    def receive(self, timeout_s: float) -> bytes:
        """The next line. Raises PeerLostError when it does not come."""
        while b"\n" not in self._unread:
            readable, _, _ = select.select([self._replies], [], [], timeout_s)
            if not readable:
                raise PeerLostError(self._account(f"gave no answer within {timeout_s:.0f} s"))
            chunk = self._read()
            if not chunk:
                raise PeerLostError(self._account("ended"))
            self._unread += chunk
        line, self._unread = self._unread.split(b"\n", 1)
        return line

    def _read(self) -> bytes:
        try:
            return os.read(self._replies, 1 << 16)
        except ConnectionError:
            return b""

    def _parse(self, line: bytes) -> Any:
        try:
            return json.loads(line)
        except ValueError as failure:
            raise PeerLostError(self._account(f"answered {line[:200]!r}")) from failure

    def _account(self, what: str) -> str:
        with self._log_path.open(encoding="utf-8", errors="replace") as log:
            tail = "".join(deque(log, maxlen=LOG_LINES_SHOWN))
        return f"process {self._pid} {what}; its log {self._log_path} ends with:\n{tail}"


class JsonLineProcess(JsonLineChannel):
    """A long-lived child of the caller's own (see `json_line_server.serve`)."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log_path: Path,
        working_directory: Path,
        environment: Mapping[str, str],
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        """Start `command` and wait until it is ready. Raises PeerLostError when it never is."""
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=working_directory,
                env=dict(environment),
                start_new_session=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._output = self._process.stdout
        super().__init__(self._process.pid, self._process.stdin, self._output.fileno(), log_path)
        try:
            self.receive(start_timeout_s)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ask the process to stop, then kill what is left of its group."""
        super().close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_TIMEOUT_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._output.close()


class SharedJsonLineProcess(JsonLineChannel):
    """A conversation of its own with a process that others speak to as well.

    The process ends when the last of its clients has closed its channel, or has died.
    """

    def __init__(self, connection: socket.socket, pid: int, log_path: Path) -> None:
        """Wait until the process is ready. Raises PeerLostError when it never is."""
        self._connection = connection
        super().__init__(pid, connection.makefile("wb"), connection.fileno(), log_path)
        try:
            self.receive(START_TIMEOUT_S)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leave the process to the others."""
        super().close()
        self._connection.close()


def connect_shared(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str]
) -> SharedJsonLineProcess:
    """The process that all who name this `folder` share; the first of them starts it.

    `command` gets the path of a socket as its last argument, the folder as its working directory
    (see `json_line_server.serve_socket`). Raises PeerLostError when it does not get ready.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        note, log_path = folder / "running.json", folder / "log"
        if note.exists():
            running = json.loads(note.read_text(encoding="utf-8"))
            with contextlib.suppress(OSError, PeerLostError):
                return _connected(running["socket"], running["pid"], log_path)
        with _started(command, folder, log_path, environment) as (process, path):
            channel = _connected_once_started(process, path, log_path)
            note.write_text(json.dumps({"socket": path, "pid": process.pid}), encoding="utf-8")
            return channel


@contextmanager
def _started(
    command: Sequence[str], folder: Path, log_path: Path, environment: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A started process and where its socket will be; both go when the block raises."""
    # The path of a socket may have no more than about a hundred characters.
    sockets = tempfile.mkdtemp(prefix="tideline-")
    path = f"{sockets}/socket"
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            [*command, path],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
        )
    try:
        yield process, path
        _STARTED.append(process)
    except BaseException:
        process.kill()
        process.wait()
        shutil.rmtree(sockets, ignore_errors=True)
        raise


def _connected_once_started(
    process: subprocess.Popen[bytes], path: str, log_path: Path
) -> SharedJsonLineProcess:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            return _connected(path, process.pid, log_path)
        if process.poll() is not None or time.monotonic() > deadline_s:
            tail = log_path.read_text(encoding="utf-8", errors="replace")[-4000:]
            raise PeerLostError(f"process {process.pid} does not start; its log ends with:\n{tail}")
        time.sleep(0.05)


def _connected(path: str, pid: int, log_path: Path) -> SharedJsonLineProcess:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return SharedJsonLineProcess(connection, pid, log_path)
