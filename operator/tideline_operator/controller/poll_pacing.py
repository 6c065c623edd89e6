"""How often landing prefixes that stay empty are looked at when there are very many of them.

The trigger sets the interval (`every: 30s`), and up to `idle_polls_per_s` looks per second in total
it is kept. Beyond that, prefixes in which nothing has arrived for a while are looked at less often,
in proportion, so that a thousand idle tables do not keep a core busy. A prefix in which something
arrived is looked at at its trigger's interval.
"""

from __future__ import annotations

import threading

from tideline_operator.controller.work_queue import Key

IDLE_AFTER_POLLS = 10
STRETCH_MAX = 20.0


class PollPacing:
    """Looks per second of the idle tables, and by how much they are stretched."""

    def __init__(self, idle_polls_per_s: float) -> None:
        self._limit = idle_polls_per_s
        self._lock = threading.Lock()
        self._empty: dict[Key, int] = {}
        self._rates: dict[Key, float] = {}
        self._sum = 0.0

    def note_look(self, key: Key, *, found_files: bool) -> None:
        """A landing prefix of the table was looked at."""
        with self._lock:
            self._empty[key] = 0 if found_files else self._empty.get(key, 0) + 1
            if found_files:
                self._sum -= self._rates.pop(key, 0.0)

    def stretched(self, key: Key, delay_s: float) -> float:
        """How long to wait for the next look instead of `delay_s`."""
        with self._lock:
            if self._empty.get(key, 0) < IDLE_AFTER_POLLS or delay_s <= 0:
                return delay_s
            rate = 1.0 / max(1.0, delay_s)
            self._sum += rate - self._rates.get(key, 0.0)
            self._rates[key] = rate
            return delay_s * min(STRETCH_MAX, max(1.0, self._sum / self._limit))

    def forget(self, key: Key) -> None:
        """The table was deleted."""
        with self._lock:
            self._empty.pop(key, None)
            self._sum -= self._rates.pop(key, 0.0)
