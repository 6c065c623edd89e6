"""One persistent worker process: `python -m tideline.cli.worker`.

The worker keeps its Spark session warm from one operation to the next, so that fifty commits cost
fifty writes and one start of Java. It runs in its own session, so Ctrl-C does not reach it. A
worker that dies is reported, with the end of its log, and the next operation gets a new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tideline.errors import ConfigError
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import OperationResult
from tideline.own_process import ALLOCATION
from tideline_operator.launch.launcher import Died, Finished, LauncherEvent, Progressed

WORKER_MODULE = "tideline.cli.worker"
ABANDON_GRACE_S = 20.0
CLOSE_GRACE_S = 10.0
_LOG_BYTES_MAX = 10 * 1024 * 1024
_LOG_TAIL_BYTES = 4_096
_LOG_TAIL_LINES = 8


class LocalProcessLauncher:
    """Runs operations one after another in one worker process; see `Launcher`.

    `locations` are all stores that the worker will use: Spark needs them when it starts.
    `inherited` are file descriptors that stay open as long as a worker lives.
    """

    def __init__(
        self, log_path: Path, locations: Iterable[Location], *, inherited: tuple[int, ...] = ()
    ) -> None:
        self._log_path = log_path
        self._inherited = inherited
        self._locations = tuple(locations)
        self._events: queue.SimpleQueue[LauncherEvent] = queue.SimpleQueue()
        self._process: subprocess.Popen[str] | None = None
        self._running: str | None = None
        self._answered: str | None = None

    def start(self, operation: Operation) -> None:
        if self._running == operation.id:
            return
        self._running, self._answered = operation.id, None
        try:
            if self._process is None or self._process.poll() is not None:
                self._close_input()
                self._process = self._spawn()
                places = [{"uri": at.uri, "options": dict(at.options)} for at in self._locations]
                self._send({"locations": places})
            self._send({"operation": operation.to_json_object()})
        except BrokenPipeError:
            # The reader thread sees the end of the output and reports the death.
            return

    def next_event(self, timeout_s: float) -> LauncherEvent | None:
        try:
            event = self._events.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if not isinstance(event, Progressed):
            self._running = None
        return event

    @property
    def running(self) -> frozenset[str]:
        return frozenset() if self._running is None else frozenset((self._running,))

    def abandon(self) -> None:
        """Interrupt the worker: it undoes its write. After a grace period it is killed."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        self._await_end(ABANDON_GRACE_S)

    def close(self) -> None:
        if self._process is None:
            return
        self._close_input()
        self._await_end(CLOSE_GRACE_S)

    def _close_input(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def _spawn(self) -> subprocess.Popen[str]:
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        is_long = self._log_path.exists() and self._log_path.stat().st_size > _LOG_BYTES_MAX
        with self._log_path.open("wb" if is_long else "ab") as log:
            process = subprocess.Popen(
                # -P: not from the folder where the user is, which may be anybody's.
                [sys.executable, "-P", "-m", WORKER_MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**ALLOCATION, **os.environ},
                text=True,
                encoding="utf-8",
                start_new_session=True,
                pass_fds=self._inherited,
            )
        threading.Thread(target=self._listen, args=(process,), name="worker", daemon=True).start()
        return process

    def _send(self, message: dict[str, Any]) -> None:
        if self._process is None or self._process.stdin is None:
            raise BrokenPipeError
        self._process.stdin.write(json.dumps(message, ensure_ascii=False) + "\n")
        self._process.stdin.flush()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        if process.stdout is not None:
            with process.stdout as answers:
                for line in answers:
                    event = _read_event(line)
                    if isinstance(event, Finished):
                        self._answered = event.result.id
                    if event is not None:
                        self._events.put(event)
        code = process.wait()
        lost = self._running
        if lost is not None and lost != self._answered and self._process is process:
            self._events.put(Died(lost, self._describe_death(code)))

    def _describe_death(self, code: int) -> str:
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        tail = self._log_tail()
        last = f"; its log ends with: {tail}" if tail else ""
        return f"the worker process {how}{last} (log: {self._log_path})"

    def _log_tail(self) -> str:
        try:
            with self._log_path.open("rb") as log:
                log.seek(max(0, self._log_path.stat().st_size - _LOG_TAIL_BYTES))
                lines = log.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        return " | ".join(line.strip() for line in lines[-_LOG_TAIL_LINES:] if line.strip())

    def _await_end(self, grace_s: float) -> None:
        process = self._process
        if process is None:
            return
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            # The worker leads its own process group, which contains Java and Python tasks.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._close_input()
        self._process = None


def _read_event(line: str) -> LauncherEvent | None:
    try:
        message = json.loads(line)
        if "progress" in message:
            return Progressed(str(message["id"]), str(message["progress"]))
        if "result" in message:
            return Finished(OperationResult.from_json_object(message["result"]))
    except (ValueError, KeyError, TypeError, ConfigError):
        return None
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
