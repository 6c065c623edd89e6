"""How often and how patiently a commit is tried again: Iceberg's `commit.retry.*` properties.

Waits double from the least to the most, each lengthened by a random tenth so that writers that
collided once do not collide again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tideline.clock import Clock
from tideline.iceberg.metadata.table_property import whole_property

_FACTOR = 2
_JITTER = 0.1


# Limits on a table's own settings: its author does not hold a process for days.
_RETRIES_MAX = 1_000
_WAIT_MS_MAX = 600_000
_TOTAL_MS_MAX = 14_400_000


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most `retries` further attempts, none begun later than `total_ms` after the first."""

    retries: int = 4
    wait_ms_min: int = 100
    wait_ms_max: int = 60_000
    total_ms: int = 1_800_000

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RetryPolicy:
        """What a table asks for when a commit meets another writer. Raises ConfigError."""
        return cls(
            _whole(properties, "commit.retry.num-retries", 4, most=_RETRIES_MAX),
            _whole(properties, "commit.retry.min-wait-ms", 100, most=_WAIT_MS_MAX),
            _whole(properties, "commit.retry.max-wait-ms", 60_000, most=_WAIT_MS_MAX),
            _whole(properties, "commit.retry.total-timeout-ms", 1_800_000, most=_TOTAL_MS_MAX),
        )

    @classmethod
    def of_status_checks(cls, properties: Mapping[str, str]) -> RetryPolicy:
        """What a table asks for when a commit's fate is to be found out. Raises ConfigError."""
        return cls(
            _whole(properties, "commit.status-check.num-retries", 3, most=_RETRIES_MAX),
            _whole(properties, "commit.status-check.min-wait-ms", 1_000, most=_WAIT_MS_MAX),
            _whole(properties, "commit.status-check.max-wait-ms", 60_000, most=_WAIT_MS_MAX),
            _whole(
                properties, "commit.status-check.total-timeout-ms", 1_800_000, most=_TOTAL_MS_MAX
            ),
        )

    def attempts(self, clock: Clock, chance: Callable[[], float] = random.random) -> Iterator[int]:
        """The attempts' numbers from 1, sleeping before each but the first."""
        begun_s = clock.monotonic_s()
        wait_ms = self.wait_ms_min
        for attempt in range(1, self.retries + 2):
            yield attempt
            elapsed_ms = (clock.monotonic_s() - begun_s) * 1000
            if attempt > self.retries or (attempt > 1 and elapsed_ms > self.total_ms):
                return
            clock.sleep(wait_ms * (1 + _JITTER * chance()) / 1000)
            wait_ms = min(wait_ms * _FACTOR, self.wait_ms_max)


def _whole(properties: Mapping[str, str], name: str, default: int, *, most: int) -> int:
    return min(whole_property(properties, name, default, least=0), most)
