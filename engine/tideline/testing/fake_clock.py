"""A clock that moves only when set, or when code sleeps on it."""

from __future__ import annotations

import threading
import time


class FakeClock:
    """Thread-safe. Sleeping advances the time at once; the wall clock may also be set back."""

    def __init__(self, now_ms: int = 1_750_000_000_000) -> None:
        self._changing = threading.Lock()
        self._now_ms = float(now_ms)
        self._monotonic_s = 1000.0

    def now_ms(self) -> int:
        with self._changing:
            return int(self._now_ms)

    def monotonic_s(self) -> float:
        with self._changing:
            return self._monotonic_s

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        time.sleep(0)  # let the threads run that wait for this moment

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass on both clocks."""
        with self._changing:
            self._now_ms += seconds * 1000
            self._monotonic_s += seconds

    def step_wall(self, seconds: float) -> None:
        """Move the wall clock alone, as an administrator or a time server does."""
        with self._changing:
            self._now_ms += seconds * 1000
