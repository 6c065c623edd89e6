"""Time as a dependency: everything that reads a clock or sleeps takes a `Clock`."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall-clock and monotonic time, and sleeping."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, UTC."""

    def monotonic_s(self) -> float:
        """Seconds that never go backwards; only differences mean anything."""

    def sleep(self, seconds: float) -> None:
        """Block for `seconds`."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
