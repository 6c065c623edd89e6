"""Processes that take turns on one store under one seed: every run can be repeated exactly.

1. A process is a thread, but only one runs at a time: it stands still before each call on its
   store, and before each sleep, until the scheduler lets it continue.
2. At each turn the scheduler picks a process by chance, lets a little time pass, and by chance
   makes the call fail, loses its reply, kills the process or puts it to sleep for long.
3. When no process can run, time jumps to the next wake-up.
4. What a process does on its own at intervals (renewing a heartbeat or a lease) happens when it is
   due, unless the process sleeps or is dead.

A request that is on its way when its sender falls asleep is not simulated: `is_pressing` names the
calls before which no process sleeps, because nothing can be checked any more between the last check
and the call. See docs/architecture.md for that bound.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from random import Random
from unittest.mock import patch

from tideline.errors import StorageUnavailableError
from tideline.storage.object_store import ObjectStore
from tideline.testing.fault_counts import FaultClass, count_fault
from tideline.testing.faulty_store import SimulatedCrash
from tideline.testing.stepping_store import Step, SteppingStore

_START_MS = 1_750_000_000_000
_TURNS_MAX = 20_000
_HISTORY_MAX = 60


@dataclass(frozen=True, slots=True)
class Hazards:
    """Chances at every call of a process; sleeps last `sleep_s_max` seconds at most."""

    crash: float = 0.004
    sleep: float = 0.004
    unavailable: float = 0.004
    lost_reply: float = 0.01
    sleep_s_max: float = 2400.0
    skew_ms_max: int = 200


NO_HAZARDS = Hazards(0, 0, 0, 0, 0, 0)


class Simulation:
    """One run. Spawn processes, then `run`; a process may spawn others."""

    def __init__(
        self,
        seed: int,
        hazards: Hazards = NO_HAZARDS,
        is_pressing: Callable[[Step], bool] = lambda _: False,
    ) -> None:
        self.random = Random(seed)
        self.hazards = hazards
        self.is_pressing = is_pressing
        self.time_ms = float(_START_MS)
        self.history: list[str] = []
        self.fired: Counter[FaultClass] = Counter()
        self.processes: list[SimulatedProcess] = []
        self._scheduler = threading.Semaphore(0)

    def spawn(self, name: str, body: Callable[[SimulatedProcess], None]) -> SimulatedProcess:
        """Start a process that runs `body`; it has its first turn some time."""
        process = SimulatedProcess(self, name, body)
        self.processes.append(process)
        return process

    def run(self) -> None:
        """Until every process has ended. Raises what a process raised, other than its death."""
        with self.same_file_ids():
            for _ in range(_TURNS_MAX):
                living = [process for process in self.processes if not process.has_ended]
                if not living:
                    return
                ready = [process for process in living if process.wakes_ms <= self.time_ms]
                if not ready:
                    self._pass_time(min(process.wakes_ms for process in living) - self.time_ms)
                    continue
                self._pass_time(self.random.uniform(0, 30))
                chosen = self.random.choice(ready)
                chosen.take_turn(self._scheduler)
                if chosen.failure is not None:
                    self.stop()
                    raise chosen.failure
            self.stop()
            raise AssertionError("the simulation does not come to an end")

    def same_file_ids(self) -> AbstractContextManager[object]:
        """Within this file ids and tokens come from the seed: uuid4 asks os.urandom."""
        return patch.object(os, "urandom", self.random.randbytes)

    def stop(self) -> None:
        """Kill what still runs, so that no thread outlives the run."""
        for process in self.processes:
            while not process.has_ended:
                process.die_at_next_call = True
                process.take_turn(self._scheduler)

    def say(self, what: str) -> None:
        """Remember an event for the report of a failure."""
        self.history.append(f"{(self.time_ms - _START_MS) / 1000:10.3f} {what}")
        del self.history[:-_HISTORY_MAX]

    def _pass_time(self, elapsed_ms: float) -> None:
        self.time_ms += elapsed_ms
        for process in self.processes:
            process.renew()


@dataclass(slots=True)
class _Repetition:
    interval_ms: float
    due_ms: float
    action: Callable[[], bool]
    ended: bool = False
    outlives: bool = False
    """Whether the process stays for it once its body has ended."""


class SimulatedProcess:
    """One process: its clock (`clock`), its store (`store_on`) and its turns."""

    def __init__(
        self, simulation: Simulation, name: str, body: Callable[[SimulatedProcess], None]
    ) -> None:
        self.simulation = simulation
        self.name = name
        self.failure: BaseException | None = None
        self.has_ended = False
        self.die_at_next_call = False
        self.wakes_ms = 0.0
        skew_ms_max = simulation.hazards.skew_ms_max
        self.clock = SimulatedClock(self, simulation.random.randint(-skew_ms_max, skew_ms_max))
        self._body = body
        self._is_dead = False
        self._sleeps = False
        self._renewing = False
        self._repetitions: list[_Repetition] = []
        self._baton = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def store_on(
        self, inner: ObjectStore, applied: Callable[[Step], None] = lambda _: None
    ) -> SteppingStore:
        """The process's connection to a store. `applied` is called for every applied write."""

        def after(step: Step) -> None:
            applied(step)
            self._maybe_lose_reply(step)

        return SteppingStore(inner, self._before, after)

    def take_turn(self, scheduler: threading.Semaphore) -> None:
        """Run until the next call, sleep or end. For the scheduler."""
        self._sleeps = False
        self._baton.release()
        scheduler.acquire()

    def wait(self, until_ms: float) -> None:
        """Let others run at least until then. For the process itself."""
        if self._is_dead:
            raise SimulatedCrash(self.name)
        self.wakes_ms = until_ms
        self.simulation._scheduler.release()
        self._baton.acquire()
        if self.die_at_next_call:
            self._is_dead = True
            raise SimulatedCrash(self.name)

    def repeat(self, interval_s: float, action: Callable[[], bool]) -> Callable[[], None]:
        """See `RepeatingClock`."""
        interval_ms = interval_s * 1000
        repetition = _Repetition(interval_ms, self.simulation.time_ms + interval_ms, action)
        self._repetitions.append(repetition)

        def end() -> None:
            repetition.ended = True

        return end

    def call_later(self, seconds: float, action: Callable[[], None]) -> Callable[[], None]:
        """See `AlarmClock`. A process that ends in order does it before."""

        def once() -> bool:
            action()
            return False

        end = self.repeat(seconds, once)
        self._repetitions[-1].outlives = True
        return end

    def renew(self) -> None:
        """Do what is due. For the scheduler."""
        if self._is_dead or self._sleeps:
            return
        for item in self._repetitions:
            if self.has_ended and not item.outlives:
                continue
            if not item.ended and item.due_ms <= self.simulation.time_ms:
                item.due_ms = self.simulation.time_ms + item.interval_ms
                self._renewing = True
                try:
                    item.ended = not item.action()
                finally:
                    self._renewing = False

    def _before(self, step: Step) -> None:
        if self._is_dead:
            raise SimulatedCrash(self.name)
        if self._renewing:
            return
        simulation, hazards = self.simulation, self.simulation.hazards
        until_ms = simulation.time_ms
        if simulation.random.random() < hazards.sleep and not simulation.is_pressing(step):
            slept_s = simulation.random.uniform(1, hazards.sleep_s_max)
            until_ms += slept_s * 1000
            self._suffer(FaultClass.DELAY, step, f"sleeps {slept_s:.0f} s before")
            self._sleeps = True
        self.wait(until_ms)
        chance = simulation.random.random()
        if chance < hazards.crash:
            self._suffer(FaultClass.CRASH_BEFORE_WRITE, step, "dies before")
            self._is_dead = True
            raise SimulatedCrash(self.name)
        if chance < hazards.crash + hazards.unavailable:
            self._suffer(FaultClass.UNAVAILABLE, step, "finds the store away at")
            raise StorageUnavailableError("Simulated: store away", path=step.path)

    def _maybe_lose_reply(self, step: Step) -> None:
        if not self._renewing and self.simulation.random.random() < (
            self.simulation.hazards.lost_reply
        ):
            self._suffer(FaultClass.LOST_REPLY, step, "loses the reply to")
            raise StorageUnavailableError("Simulated: reply lost", path=step.path)

    def _suffer(self, fault: FaultClass, step: Step, what: str) -> None:
        count_fault(fault)
        self.simulation.fired[fault] += 1
        self.simulation.say(f"{self.name} {what} {step.method} {step.path}")

    def _run(self) -> None:
        self._baton.acquire()
        try:
            if not self.die_at_next_call:
                self._body(self)
        except SimulatedCrash:
            pass
        except BaseException as failure:
            self.failure = failure
        finally:
            self.has_ended = True
            self.simulation._scheduler.release()


class SimulatedClock:
    """A process's view of the simulation's time; sleeping on it lets the others run."""

    def __init__(self, process: SimulatedProcess, skew_ms: int) -> None:
        self._process = process
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        return int(self._process.simulation.time_ms) + self._skew_ms

    def monotonic_s(self) -> float:
        return self._process.simulation.time_ms / 1000

    def sleep(self, seconds: float) -> None:
        self._process.wait(self._process.simulation.time_ms + seconds * 1000)

    def repeat(self, interval_s: float, action: Callable[[], bool]) -> Callable[[], None]:
        return self._process.repeat(interval_s, action)

    def call_later(self, seconds: float, action: Callable[[], None]) -> Callable[[], None]:
        return self._process.call_later(seconds, action)


@dataclass(frozen=True, slots=True)
class StoreClock:
    """The clock that stamps a simulated store's objects."""

    simulation: Simulation

    def now_ms(self) -> int:
        return int(self.simulation.time_ms)

    def monotonic_s(self) -> float:
        return self.simulation.time_ms / 1000

    def sleep(self, seconds: float) -> None:
        raise AssertionError(f"no process sleeps {seconds} s on the store's clock")
