"""SIGTERM in two steps, for a process that has a grace period to leave things in order.

1. At once, KeyboardInterrupt in the main thread: the write under way is undone, or found to be
   complete. Java is not told; it dies with this process and so cannot end Spark in the middle.
2. Should that take until shortly before the grace period ends, another thread says the last words
   and ends the process. What is pending then is rolled back by the next writer.

Only the first signal counts: a second one must not interrupt the undoing.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

EXIT_CODE = 128 + signal.SIGTERM
_LAST_WORDS_S = 5.0


class StopSignal:
    """Listens while it is entered. `last_words` is called in a thread, right before the end."""

    def __init__(self, grace_s: float, last_words: Callable[[], None]) -> None:
        self._limit_s = max(grace_s / 2, grace_s - _LAST_WORDS_S)
        self._last_words = last_words
        self._is_over = threading.Event()
        self._previous: Any = None
        self._previous_wakeup = -1

    def __enter__(self) -> StopSignal:
        # Told by the interpreter's own handler, also while the main thread is inside a library.
        self._heard, self._told = socket.socketpair()
        self._told.setblocking(False)
        self._previous = signal.signal(signal.SIGTERM, self._interrupt)
        self._previous_wakeup = signal.set_wakeup_fd(self._told.fileno())
        threading.Thread(target=self._listen, name="stop-signal", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.set_wakeup_fd(self._previous_wakeup)
        signal.signal(signal.SIGTERM, self._previous)
        self._is_over.set()
        self._told.close()

    def settled(self) -> None:
        """From here on the outcome is known, and a signal changes nothing."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def _interrupt(self, number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        print("tideline: told to stop; undoing what is not complete", file=sys.stderr, flush=True)
        # Spark's own handler of this one cancels the jobs that run.
        signal.raise_signal(signal.SIGINT)

    def _listen(self) -> None:
        with self._heard:
            while (heard := self._heard.recv(1)) != bytes((signal.SIGTERM,)):
                if not heard:
                    return
            if not self._is_over.wait(self._limit_s):
                self._last_words()
                os._exit(EXIT_CODE)
