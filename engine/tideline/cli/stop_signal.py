"""SIGTERM in steps, for a process that has a grace period to leave things in order.

1. Work on Spark is cancelled, again and again, from a thread of its own: the write that waits for
   it fails, and undoes itself as it does after any failure. What does not need Spark any more, a
   commit above all, continues to its end.
2. Where there is no Spark to cancel, KeyboardInterrupt in the main thread does the same, once.
3. Should that take until shortly before the grace period ends, the last words are said and the
   process ends. What is pending then is rolled back by the next writer.

Java gets no signal: it dies with this process, so it cannot end Spark in the middle. The main
thread is not interrupted while it talks to Java either: it would read the answer to another
question.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

EXIT_CODE = 128 + signal.SIGTERM
_LAST_WORDS_S = 5.0
_CANCEL_INTERVAL_S = 0.3


class StopSignal:
    """Listens while it is entered, by the main thread.

    `cancel` ends work on Spark, or says that there is none (False). `last_words` are said right
    before the end. Both are called in another thread.
    """

    def __init__(
        self, grace_s: float, cancel: Callable[[], bool], last_words: Callable[[], None]
    ) -> None:
        self._limit_s = max(grace_s / 2, grace_s - _LAST_WORDS_S)
        self._cancel = cancel
        self._last_words = last_words
        self._is_over = threading.Event()
        self._requested = threading.Event()
        self._previous: Any = None
        self._previous_interrupt: Any = None
        self._previous_wakeup = -1

    @property
    def is_requested(self) -> bool:
        """Whether the process was asked to stop."""
        return self._requested.is_set()

    def __enter__(self) -> StopSignal:
        # Written by the interpreter's own handler, also while the main thread is inside a library.
        self._heard, self._wakeup = socket.socketpair()
        self._wakeup.setblocking(False)
        self._previous = signal.signal(signal.SIGTERM, _do_nothing)
        # A process that a shell starts in the background inherits that this one is ignored.
        self._previous_interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
        self._previous_wakeup = signal.set_wakeup_fd(self._wakeup.fileno())
        threading.Thread(target=self._listen, name="stop-signal", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.settled()
        signal.set_wakeup_fd(self._previous_wakeup)
        signal.signal(signal.SIGTERM, self._previous)
        signal.signal(signal.SIGINT, self._previous_interrupt)
        self._wakeup.close()

    def settled(self) -> None:
        """From here on the outcome is known, and a signal changes nothing."""
        self._is_over.set()

    def _listen(self) -> None:
        with self._heard:
            while (heard := self._heard.recv(1)) != bytes((signal.SIGTERM,)):
                if not heard:
                    return
            if self._is_over.is_set():
                return
            self._requested.set()
            self._say("asked to stop; undoing what is not complete")
            ending = threading.Thread(target=self._end_work, name="end-work", daemon=True)
            ending.start()
            if not self._is_over.wait(self._limit_s):
                self._last_words()
                os._exit(EXIT_CODE)

    def _end_work(self) -> None:
        if not self._cancel():
            if not self._is_over.is_set():
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            return
        # A job that starts between two cancellations is not met by the first.
        while not self._is_over.wait(_CANCEL_INTERVAL_S):
            self._cancel()

    def _say(self, text: str) -> None:
        print(f"tideline: {text}", file=sys.stderr, flush=True)


def _do_nothing(_: int, __: FrameType | None) -> None:
    """The listening thread acts."""
