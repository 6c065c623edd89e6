"""The asking half of a JSON-lines process: start it, send requests, end it with all its children.

The process is the leader of its own process group, so that ending it also ends the JVM it started.
Its standard error goes to a log file whose last lines are part of every failure's message.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

LOG_LINES_SHOWN = 30
STOP_TIMEOUT_S = 15.0


class PeerFailure(Exception):
    """A request failed inside the process; the message is the process's own account of it."""


class PeerLost(Exception):
    """The process ended or stopped answering; the message ends with the tail of its log."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a handler returned, and how many seconds of work it took inside the process."""

    result: Any
    seconds: float


class JsonLineProcess:
    """A long-lived child that answers one JSON request at a time (see `json_line_server`)."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log_path: Path,
        working_directory: Path,
        environment: Mapping[str, str],
        start_timeout_s: float = 120.0,
    ) -> None:
        """Start `command` and wait until it is ready. Raises PeerLost when it never is."""
        self._log_path = log_path
        self._unread = b""
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
        try:
            self._receive(start_timeout_s)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Process id of the child, which is also its process group's id."""
        return self._process.pid

    def request(self, operation: str, /, *, timeout_s: float = 300.0, **arguments: Any) -> Reply:
        """Run one handler. Raises PeerFailure when it fails, PeerLost when no reply comes."""
        body = json.dumps({"operation": operation, "arguments": arguments}) + "\n"
        try:
            _input_of(self._process).write(body.encode())
            _input_of(self._process).flush()
        except OSError as failure:
            raise PeerLost(self._account("is gone")) from failure
        reply = self._parse(self._receive(timeout_s))
        if "error" in reply:
            raise PeerFailure(f"{operation}: {reply['error']}")
        return Reply(result=reply["result"], seconds=reply["seconds"])

    def close(self) -> None:
        """Ask the process to stop, then kill whatever of its group is left."""
        with contextlib.suppress(OSError, ValueError):
            _input_of(self._process).write(b'{"operation": "stop"}\n')
            _input_of(self._process).close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_TIMEOUT_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        _output_of(self._process).close()

    def _receive(self, timeout_s: float) -> bytes:
        output = _output_of(self._process)
        while b"\n" not in self._unread:
            readable, _, _ = select.select([output], [], [], timeout_s)
            if not readable:
                raise PeerLost(self._account(f"gave no answer within {timeout_s:.0f} s"))
            chunk = os.read(output.fileno(), 1 << 16)
            if not chunk:
                raise PeerLost(self._account("ended"))
            self._unread += chunk
        line, self._unread = self._unread.split(b"\n", 1)
        return line

    def _parse(self, line: bytes) -> Any:
        try:
            return json.loads(line)
        except ValueError as failure:
            raise PeerLost(self._account(f"answered {line[:200]!r}")) from failure

    def _account(self, what: str) -> str:
        with self._log_path.open(encoding="utf-8", errors="replace") as log:
            tail = "".join(deque(log, maxlen=LOG_LINES_SHOWN))
        return f"process {self._process.pid} {what}; its log {self._log_path} ends with:\n{tail}"


def _input_of(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


def _output_of(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout
