"""A daemon thread that repeats an action at an interval of the injected clock."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from tideline.clock import Clock

_log = logging.getLogger(__name__)
_POLL_S_MAX = 1.0


@runtime_checkable
class RepeatingClock(Protocol):
    """A clock that repeats actions on its own, as a simulated one does: no thread runs then."""

    def repeat(self, interval_s: float, action: Callable[[], bool]) -> Callable[[], None]:
        """Call `action` every `interval_s` until it returns False; what is returned ends that."""


class RenewalThread:
    """Calls `renew` every `interval_s` until it returns False or `stop` is called.

    The thread looks at the clock at least once a real second, so a laptop that slept or a test that
    moved a fake clock is noticed at once. An exception is logged and the next interval tries again.
    """

    def __init__(
        self, name: str, clock: Clock, interval_s: float, renew: Callable[[], bool]
    ) -> None:
        self._clock = clock
        self._interval_s = interval_s
        self._renew = renew
        self._due_s = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._end_repeating: Callable[[], None] | None = None

    def start(self) -> None:
        if isinstance(self._clock, RepeatingClock):
            self._end_repeating = self._clock.repeat(self._interval_s, self._renew)
            return
        self._due_s = self._clock.monotonic_s() + self._interval_s
        self._thread.start()

    def stop(self) -> None:
        """Return when no renewal is running and none will."""
        self._stopping.set()
        if self._end_repeating is not None:
            self._end_repeating()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        poll_s = min(_POLL_S_MAX, self._interval_s / 4)
        while not self._stopping.wait(poll_s):
            if self._clock.monotonic_s() < self._due_s:
                continue
            self._due_s = self._clock.monotonic_s() + self._interval_s
            try:
                if not self._renew():
                    return
            except Exception:
                _log.warning("%s: renewal failed, will retry", self._thread.name, exc_info=True)
