"""A clock for tests in which hours pass."""

from __future__ import annotations

from tideline.clock import SystemClock


class ShiftedClock(SystemClock):
    """The machine's clock and so many seconds more, for what others date by the machine's."""

    def __init__(self) -> None:
        self._shift_s = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + int(self._shift_s * 1000)

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self._shift_s

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass on both clocks."""
        self._shift_s += seconds
