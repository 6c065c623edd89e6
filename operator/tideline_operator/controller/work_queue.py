"""A queue of keys: each is in it once, processed by one worker at a time, and never in a hot loop.

1. `add` makes a key ready; adding it again before it is processed changes nothing.
2. A key added while it is being processed becomes ready afterwards, not before.
3. Every key has a budget of turns that refills with time. With none left it waits for the next.
4. `wake_at` is the one moment at which a key becomes ready on its own; a new moment replaces it.
5. A failed turn is retried after a delay that doubles.

Urgent keys (an object changed) go before routine ones (a timer).
"""

from __future__ import annotations

import heapq
import itertools
import random
import threading
from collections import OrderedDict
from dataclasses import dataclass

from tideline.clock import Clock

Key = tuple[str, str]
"""Namespace and name."""

TURNS_MAX = 20.0
TURNS_PER_S = 2.0
RETRY_FIRST_S = 0.5
RETRY_LAST_S = 60.0


@dataclass(frozen=True, slots=True)
class QueueState:
    """The state of the queue. Times are seconds, 0 when there is nothing."""

    ready: int
    delayed: int
    processing: int
    oldest_ready_s: float
    oldest_processing_s: float


@dataclass(slots=True)
class _Turns:
    """What is left of a key's turns, as of a moment."""

    left: float
    as_of_s: float


class WorkQueue:
    """See the module. Safe for any number of threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._urgent: OrderedDict[Key, float] = OrderedDict()
        self._routine: OrderedDict[Key, float] = OrderedDict()
        self._processing: dict[Key, float] = {}
        self._again: dict[Key, bool] = {}
        self._wakes: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._order = itertools.count()
        self._turns: dict[Key, _Turns] = {}
        self._failures: dict[Key, int] = {}
        self._closed = False

    def add(self, key: Key, *, urgent: bool = False) -> None:
        """Make `key` ready as soon as it may be."""
        with self._changed:
            self._add(key, urgent)

    def wake_at(self, key: Key, at_s: float) -> None:
        """Make `key` ready at that moment of the monotonic clock; it replaces one set before."""
        with self._changed:
            self._schedule(key, at_s)

    def retry(self, key: Key, *, at_least_s: float = 0.0) -> float:
        """Repeat the turn after a failure; the delay in seconds."""
        with self._changed:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay_s = min(RETRY_LAST_S, RETRY_FIRST_S * 2.0 ** min(failures - 1, 20))
            delay_s = max(at_least_s, delay_s * random.uniform(0.8, 1.2))
            self._schedule(key, self._clock.monotonic_s() + delay_s)
            return delay_s

    def succeeded(self, key: Key) -> None:
        """The turn succeeded: the next failure starts with a short delay again."""
        with self._changed:
            self._failures.pop(key, None)

    def forget(self, key: Key) -> None:
        """Drop all that is known of a key."""
        with self._changed:
            for known in (self._wakes, self._turns, self._failures, self._again):
                known.pop(key, None)

    def get(self, timeout_s: float) -> Key | None:
        """The next key, the caller's until `done`; None after `timeout_s` or when closed."""
        deadline_s = self._clock.monotonic_s() + timeout_s
        with self._changed:
            while not self._closed:
                now_s = self._clock.monotonic_s()
                self._wake(now_s)
                for ready in (self._urgent, self._routine):
                    if ready:
                        key, _ = ready.popitem(last=False)
                        self._processing[key] = now_s
                        return key
                if now_s >= deadline_s:
                    return None
                next_s = min(deadline_s, self._heap[0][0]) if self._heap else deadline_s
                self._changed.wait(max(0.001, next_s - now_s))
            return None

    def done(self, key: Key) -> None:
        """The turn is over."""
        with self._changed:
            self._processing.pop(key, None)
            urgent = self._again.pop(key, None)
            if urgent is not None:
                self._add(key, urgent)

    def close(self) -> None:
        """Close the queue: every waiting worker gets None."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def state(self) -> QueueState:
        with self._changed:
            now_s = self._clock.monotonic_s()
            since = [next(iter(ready.values())) for ready in (self._urgent, self._routine) if ready]
            return QueueState(
                ready=len(self._urgent) + len(self._routine),
                delayed=len(self._wakes),
                processing=len(self._processing),
                oldest_ready_s=max((now_s - at_s for at_s in since), default=0.0),
                oldest_processing_s=max(
                    (now_s - at_s for at_s in self._processing.values()), default=0.0
                ),
            )

    def _add(self, key: Key, urgent: bool) -> None:
        if self._closed:
            return
        if key in self._processing:
            self._again[key] = urgent or self._again.get(key, False)
            return
        if key in self._urgent or (key in self._routine and not urgent):
            return
        now_s = self._clock.monotonic_s()
        since_s = self._routine.pop(key, None)
        if since_s is None and not self._take_turn(key, now_s):
            return
        (self._urgent if urgent else self._routine)[key] = since_s or now_s
        self._wakes.pop(key, None)
        self._changed.notify()

    def _take_turn(self, key: Key, now_s: float) -> bool:
        """Use up one turn; without any left, `key` is scheduled for when there is one."""
        turns = self._turns.setdefault(key, _Turns(TURNS_MAX, now_s))
        turns.left = min(TURNS_MAX, turns.left + (now_s - turns.as_of_s) * TURNS_PER_S)
        turns.as_of_s = now_s
        if turns.left >= 1.0:
            turns.left -= 1.0
            return True
        at_s = now_s + (1.0 - turns.left) / TURNS_PER_S
        self._schedule(key, min(at_s, self._wakes.get(key, at_s)))
        return False

    def _schedule(self, key: Key, at_s: float) -> None:
        if self._closed:
            return
        self._wakes[key] = at_s
        heapq.heappush(self._heap, (at_s, next(self._order), key))
        self._changed.notify()

    def _wake(self, now_s: float) -> None:
        while self._heap and self._heap[0][0] <= now_s:
            at_s, _, key = heapq.heappop(self._heap)
            # A moment that was replaced by another one is skipped.
            if self._wakes.get(key) == at_s:
                del self._wakes[key]
                self._add(key, urgent=False)
