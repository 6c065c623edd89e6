"""A server that a test starts, kills, and starts again with what it has stored."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_START_S = 180.0
_POLL_S = 0.05


@dataclass
class ServerProcess:
    """One process, whose output goes to `log`. It has started once it `answers`. Secrets are among
    the `variables` of its environment, which are added to this process's."""

    name: str
    command: Callable[[], Sequence[str]]
    log: Path
    answers: Callable[[], bool]
    variables: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        """A child of this process: what ends a group of processes ends it as well."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command(),
                cwd="/",
                env={**os.environ, **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        deadline_s = time.monotonic() + _START_S
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                said = self.log.read_text(errors="replace")[-2000:]
                self.end(0.0)
                raise AssertionError(f"{self.name} did not start in time: {said}")
            time.sleep(_POLL_S)

    def kill(self, send: Callable[[subprocess.Popen[bytes]], object] | None = None) -> None:
        """End it at once, or as `send` does, unless it has ended."""
        if self._process is None:
            return
        (send or subprocess.Popen.kill)(self._process)
        self._process.wait()
        self._process = None

    def end(self, within_s: float) -> None:
        """Ask it to end; kill it when it does not."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None
