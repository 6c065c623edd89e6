"""Processes of a storm: each has a role, each dies, and a successor starts at once.

Half of all lives end at a write to the store that was drawn beforehand, the others at a moment of
the parent's choosing, in the middle of their work. Where commits are what matters most lives end
`at_commits`: half of all at one of the first writes to the timeline, just before, within or just
after a commit; others at another write or after a time of the processor, which is as much work on
a busy machine as on a quiet one.
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
_TIMELINE = ".hoodie/timeline/"
_TIMELINE_WRITES_OF_A_LIFE_MAX = 9
"""Three are a commit, without those of its metadata."""
_PROCESSOR_S_MAX = 1.2
"""That of two or three commits."""
_WAITING_S_MAX = 20.0
_CALM_S_MAX = 900.0
_DEATHS = (-signal.SIGKILL, -signal.SIGPROF)

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
    at_commits: bool = False
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
                assert life.process.exitcode in _DEATHS, (role, self.errors())
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
        self.start_immortal(role)
        self.join(role)

    def join(self, role: str) -> None:
        """Wait for a process that has to end on its own."""
        process = self._lives[role].process
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
        if immortal:
            plan, processor_s, ends_s = FaultPlan(), 0.0, float("inf")
        else:
            plan, processor_s, life_s = self._drawn()
            ends_s = time.monotonic() + life_s
        task = (*self.task(role, plan), str(self.folder / f"{role}.error"), processor_s)
        return _Life(writer_process.start(_reporting, task), ends_s)

    def _drawn(self) -> tuple[FaultPlan, float, float]:
        """How a life ends: at a write, after seconds of the processor, or after seconds at last."""
        drawn = self.random.random()
        life_s = self.random.uniform(0.05, self.life_s_max)
        # A life that meets nothing but conflicts, or waits, may never come to its last write.
        longer_s = life_s + 2 * self.life_s_max
        if not self.at_commits:
            return (self._at_write(), 0.0, longer_s) if drawn < 0.5 else (FaultPlan(), 0.0, life_s)
        longer_s = max(longer_s, _WAITING_S_MAX)
        if drawn < 0.5:
            return self._at_write(_TIMELINE, _TIMELINE_WRITES_OF_A_LIFE_MAX), 0.0, longer_s
        if drawn < 0.7:
            return self._at_write(), 0.0, longer_s
        if drawn < 0.9:
            return FaultPlan(), self.random.uniform(0.01, _PROCESSOR_S_MAX), longer_s
        return FaultPlan(), 0.0, life_s

    def _at_write(self, among: str = "", writes_max: int = _WRITES_OF_A_LIFE_MAX) -> FaultPlan:
        number = self.random.randint(1, writes_max)
        is_before = self.random.random() < 0.5
        return FaultPlan(
            crash_before_write=number if is_before else None,
            crash_after_write=None if is_before else number,
            kill_process=True,
            among=among,
        )


def _reporting(task: tuple[Callable[[object], None], object, str, float]) -> None:
    """Run a task; what it could not cope with stands in a file when it ends. After some time of the
    processor, if any, the kernel ends the process at once, whatever it is at."""
    target, job, error_file, processor_s = task
    signal.setitimer(signal.ITIMER_PROF, processor_s)
    try:
        target(job)
    except BaseException as error:
        Path(error_file).write_text(f"{type(error).__name__}: {error}")
        raise
