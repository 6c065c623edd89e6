"""The threads that take turns: few while turns are short, more while some of them wait.

A turn waits where a store, a catalog or the API server is slow. Such a turn needs no processor, and
must not keep other tables from theirs. Therefore, while tables are in line:

1. a turn that waits for an answer of a store, or has lasted for `LONG_TURN_S`, does not count any
   more: another thread takes its place;
2. when no turn has ended for a moment, the number of threads doubles.

Threads beyond `workers` end when there is nothing to do.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection

from tideline.clock import Clock
from tideline_operator.controller.work_queue import Key, WorkQueue

THREADS_MAX = 64
LONG_TURN_S = 1.0
_LOOK_S = 0.25
_POLL_S = 1.0

_log = logging.getLogger(__name__)


class Workers:
    """Takes keys from the queue and turns for them, `take_turn`, until `stop`."""

    def __init__(
        self,
        queue: WorkQueue,
        take_turn: Callable[[Key], None],
        clock: Clock,
        *,
        workers: int,
        threads_max: int = THREADS_MAX,
        waiting: Callable[[float], Collection[int]] = lambda _: (),
    ) -> None:
        """`waiting` names the threads that have waited for an answer for so many seconds."""
        self._queue = queue
        self._take_turn = take_turn
        self._clock = clock
        self._workers = workers
        self._threads_max = max(workers, threads_max)
        self._waiting = waiting
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._turns: dict[int, float] = {}
        self._started = 0
        self._ended = 0
        self._stop = threading.Event()

    def start(self) -> None:
        """Begin with as many threads as there are workers."""
        self._add(self._workers)
        threading.Thread(target=self._adapt, name="worker count", daemon=True).start()

    def stop(self, timeout_s: float) -> None:
        """Take no more turns; those under way get `timeout_s`. The queue is closed already."""
        self._stop.set()
        until_s = self._clock.monotonic_s() + timeout_s
        for thread in self._alive():
            thread.join(max(0.0, until_s - self._clock.monotonic_s()))

    @property
    def is_running(self) -> bool:
        """Whether they were started."""
        return self._started > 0

    @property
    def threads(self) -> int:
        """Threads that are alive."""
        return len(self._alive())

    def _alive(self) -> list[threading.Thread]:
        with self._lock:
            return [thread for thread in self._threads if thread.is_alive()]

    def _add(self, count: int) -> None:
        with self._lock:
            for _ in range(count):
                self._started += 1
                name = f"worker {self._started}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.add(thread)
                thread.start()

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                key = self._queue.get(_POLL_S)
                if key is not None:
                    self._take(key)
                elif self._leaves():
                    return
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _take(self, key: Key) -> None:
        self._turns[threading.get_ident()] = self._clock.monotonic_s()
        try:
            self._take_turn(key)
        except BaseException:
            # Also SystemExit and the like: nothing that a turn meets ends its thread.
            _log.exception("a turn failed", extra={"table": "/".join(key)})
        finally:
            self._queue.done(key)
            with self._lock:
                self._turns.pop(threading.get_ident(), None)
                self._ended += 1

    def _leaves(self) -> bool:
        """Whether this idle thread is one too many; then it is not counted any more."""
        with self._lock:
            if len(self._threads) <= self._workers:
                return False
            self._threads.discard(threading.current_thread())
            return True

    def _adapt(self) -> None:
        ended = 0
        while not self._stop.wait(_LOOK_S):
            is_still, ended = ended == self._ended, self._ended
            self._add(self._missing(is_still=is_still))

    def _missing(self, *, is_still: bool) -> int:
        """Threads to add now."""
        load = self._queue.state
        threads = self.threads
        if load.ready == 0 or load.processing < threads:
            return 0
        wanted = threads if is_still else self._workers - (threads - self._idle_turns())
        return max(0, min(wanted, load.ready, self._threads_max - threads))

    def _idle_turns(self) -> int:
        """Turns under way that need no processor, as far as that can be known."""
        since_s = self._clock.monotonic_s() - LONG_TURN_S
        waiting = self._waiting(_LOOK_S)
        with self._lock:
            return sum(at_s < since_s or number in waiting for number, at_s in self._turns.items())
