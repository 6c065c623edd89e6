"""How often and how patiently something is tried again: one policy for commits, stores and reads.

Waits double from the least to the most, each lengthened by a random tenth so that writers that
collided once do not collide again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from tideline.backoff import doubled
from tideline.clock import Clock, SystemClock

T = TypeVar("T")

_JITTER = 0.1
_SYSTEM_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most `retries` further attempts, none started later than `total_ms` after the first."""

    retries: int = 4
    wait_ms_min: int = 100
    wait_ms_max: int = 60_000
    total_ms: int = 1_800_000

    @classmethod
    def at_once(cls, retries: int) -> RetryPolicy:
        """Without waits: for what another process changed between two reads."""
        return cls(retries, wait_ms_min=0, wait_ms_max=0)

    def attempts(
        self, clock: Clock = _SYSTEM_CLOCK, chance: Callable[[], float] = random.random
    ) -> Iterator[int]:
        """The attempts' numbers from 1, sleeping before each but the first."""
        started_s = clock.monotonic_s()
        for attempt in range(1, self.retries + 2):
            yield attempt
            elapsed_ms = (clock.monotonic_s() - started_s) * 1000
            if attempt > self.retries or (attempt > 1 and elapsed_ms > self.total_ms):
                return
            wait_s = self.wait_s(attempt) * (1 + _JITTER * chance())
            if wait_s:
                clock.sleep(wait_s)

    def call(
        self, what: Callable[[], T], after: type[Exception], clock: Clock = _SYSTEM_CLOCK
    ) -> T:
        """Its result; called again after an error of that kind, whose last one is raised."""
        failure: Exception
        for _ in self.attempts(clock):
            try:
                return what()
            except after as error:
                failure = error
        raise failure

    def wait_s(self, attempt: int) -> float:
        """Seconds to wait after the attempt of that number, the first being 1."""
        return doubled(self.wait_ms_min, attempt - 1, self.wait_ms_max) / 1000
