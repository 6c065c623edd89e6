"""A cache that forgets what was used longest ago when it holds too many bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import RLock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """Values by key, each loaded with its size in bytes; threads wait for one another's loads."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._values: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._lock = RLock()

    def get(self, key: Hashable, load: Callable[[], tuple[Value, int]]) -> Value:
        """The value of a key, loaded unless it is held; the newest one is always held."""
        with self._lock:
            if key not in self._values:
                self._values[key] = load()
                self._bytes += self._values[key][1]
            self._values.move_to_end(key)
            while self._bytes > self._bytes_max and len(self._values) > 1:
                _, (_, size_bytes) = self._values.popitem(last=False)
                self._bytes -= size_bytes
            return self._values[key][0]
