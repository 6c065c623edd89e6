"""Time as a dependency: everything that reads a clock or sleeps takes a `Clock`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable


class Clock(Protocol):
    """Wall-clock and monotonic time, and sleeping."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, UTC."""

    def monotonic_s(self) -> float:
        """Seconds that never go backwards; only differences mean anything."""

    def sleep(self, seconds: float) -> None:
        """Block for `seconds`."""


@runtime_checkable
class AlarmClock(Protocol):
    """A clock that has something done later while its caller continues."""

    def call_later(self, seconds: float, action: Callable[[], None]) -> Callable[[], None]:
        """Do `action` in so many seconds, unless what is returned is called before."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def call_later(self, seconds: float, action: Callable[[], None]) -> Callable[[], None]:
        """In a thread of its own; a process that ends in order waits for it."""
        timer = _Later(seconds, action)
        timer.start()
        return timer.cancel


def call_later(clock: Clock, seconds: float, action: Callable[[], None]) -> Callable[[], None]:
    """Do `action` in so many seconds of the clock, now by sleeping where it can do nothing
    later."""
    if isinstance(clock, AlarmClock):
        return clock.call_later(seconds, action)
    clock.sleep(seconds)
    action()
    return _nothing


def finish_later() -> None:
    """Wait for what is to be done later, in a process that ends by `os._exit`."""
    for thread in threading.enumerate():
        if isinstance(thread, _Later):
            thread.join()


class _Later(threading.Timer):
    """What the machine's clock does later."""


def _nothing() -> None:
    """It has happened already."""
