"""Processes of a storm: each has a role, each dies, and a successor starts at once.

Half of all lives end at a write to the store that was drawn beforehand, the others at a moment of
the parent's choosing, in the middle of their work.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

from tideline.testing import writer_process
from tideline.testing.faulty_store import FaultPlan

_WRITES_OF_A_LIFE_MAX = 80
_CALM_S_MAX = 420.0

Task = tuple[Callable[..., object], object]
"""What a process does: a function and its argument. It returns once the storm is over and nothing
that it has started is open."""


@dataclass(slots=True)
class _Life:
    """A process that is about to die."""

    process: BaseProcess
    ends_s: float
    """When it is killed from outside; infinite for one that is not."""


@dataclass(slots=True)
class StormLives:
    """The processes that live now. `task` gives what the one of a role does; what one of them could
    not cope with stands in a file of `folder` when it ends."""

    folder: Path
    random: Random
    life_s_max: float
    task: Callable[[str, FaultPlan], Task]
    kills: int = 0
    _lives: dict[str, _Life] = field(default_factory=dict)

    def step(self, roles: Iterable[str]) -> int:
        """Kill whose time has come, and replace the dead: how many these were. Fails on a process
        that gave up."""
        kills = 0
        for role in roles:
            life = self._lives.get(role)
            if life is not None and life.process.exitcode is None:
                if time.monotonic() < life.ends_s:
                    continue
                writer_process.kill(life.process)
            if life is not None:
                assert life.process.exitcode == -signal.SIGKILL, (role, self.errors())
                kills += 1
            self._lives[role] = self._born(role)
        self.kills += kills
        return kills

    def kill(self, role: str) -> None:
        """End the process of a role, without a successor."""
        writer_process.kill(self._lives.pop(role).process)

    def start_immortal(self, role: str) -> BaseProcess:
        """A process that nobody ends."""
        self._lives[role] = self._born(role, immortal=True)
        return self._lives[role].process

    def survive(self, role: str) -> None:
        """The last process of a role, which has to end on its own."""
        self.kill(role)
        process = self.start_immortal(role)
        process.join(_CALM_S_MAX)
        assert process.exitcode == 0, (role, process.exitcode, self.errors())

    def end(self) -> None:
        """Kill the processes that are left, after a failure."""
        for life in self._lives.values():
            with suppress(AssertionError):
                writer_process.kill(life.process)

    def errors(self) -> list[str]:
        """What processes gave up with."""
        return [file.read_text() for file in sorted(self.folder.glob("*.error"))]

    def _born(self, role: str, *, immortal: bool = False) -> _Life:
        plan, ends_s = FaultPlan(), float("inf")
        if not immortal:
            if self.random.random() < 0.5:
                number = self.random.randint(1, _WRITES_OF_A_LIFE_MAX)
                is_before = self.random.random() < 0.5
                plan = FaultPlan(
                    crash_before_write=number if is_before else None,
                    crash_after_write=None if is_before else number,
                    kill_process=True,
                )
            # A life that meets nothing but conflicts may never come to its last write.
            ends_s = time.monotonic() + self.random.uniform(0.05, self.life_s_max)
            if plan.kill_process:
                ends_s += 2 * self.life_s_max
        task = (*self.task(role, plan), str(self.folder / f"{role}.error"))
        return _Life(writer_process.start(_reporting, task), ends_s)


def _reporting(task: tuple[Callable[[object], None], object, str]) -> None:
    """Run a task; what it could not cope with stands in a file when it ends."""
    target, job, error_file = task
    try:
        target(job)
    except BaseException as error:
        Path(error_file).write_text(f"{type(error).__name__}: {error}")
        raise
