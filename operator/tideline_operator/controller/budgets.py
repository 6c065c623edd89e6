"""How many operations may run at once, and how much memory their pods may ask for.

An operation that cannot start (its image, its selector, a quota) has none: it is set aside, and has
one again, even beyond the limits, when it starts after all.

An operation that gets no place waits in line: by priority, then by namespace (that with the fewest
places first, and of several that had one least recently), then by arrival. Services that can wait
are put in order by what they save per core-second, until `PASSED_MAX` operations came after them;
then they go by arrival as well, and first. When places become free, as many operations at the head
of the line are woken. A namespace that has spent its hour (namespace_usage.py) gets none of
them, except for what gives a table back its health.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tideline.clock import SystemClock
from tideline_operator.controller.namespace_usage import HourlyLimits, NamespaceSpending
from tideline_operator.controller.work_queue import Key
from tideline_operator.decide.actions import Priority
from tideline_operator.resources.variables import Variables, variable

_HEALING = (Priority.ROLLBACK, Priority.RESTORE)
PASSED_MAX = 32
"""How many operations that arrived later may be preferred for what they save."""


@dataclass(frozen=True, slots=True)
class Limits:
    """None means no limit."""

    operations_max: int = variable("TIDELINE_OPERATIONS_MAX", Variables.number, 4)
    operations_per_namespace_max: int | None = variable(
        "TIDELINE_OPERATIONS_PER_NAMESPACE_MAX", Variables.number
    )
    memory_bytes_max: int | None = variable("TIDELINE_MEMORY_MAX", Variables.memory)
    memory_bytes_per_namespace_max: int | None = variable(
        "TIDELINE_MEMORY_PER_NAMESPACE_MAX", Variables.memory
    )


@dataclass(frozen=True, slots=True)
class Admitted:
    """There was a free place, and the operation has it."""


@dataclass(frozen=True, slots=True)
class Full:
    """No place now; `message` says what is full."""

    message: str


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The operation asks for more than all places together have."""

    message: str


@dataclass(frozen=True, slots=True)
class _Wanted:
    """An operation in line. `rate` as in `Start`; it counts only where the priority is SERVICE."""

    operation: str
    priority: Priority
    rate: float | None
    arrival: int
    memory_bytes: int

    def rank(self, arrivals: int) -> tuple[int, float, int]:
        """Its rank after so many arrivals; the lowest goes first. An unknown rate is as good as the
        best: one run makes it known."""
        is_by_rate = self.priority is Priority.SERVICE and self.rate is not None
        has_waited = arrivals - self.arrival > PASSED_MAX
        rate = self.rate if is_by_rate and not has_waited else None
        return int(self.priority), -math.inf if rate is None else -rate, self.arrival


class Budgets:
    """The places, by table and operation: a table may have several, and one place in line."""

    def __init__(self, limits: Limits, spending: NamespaceSpending | None = None) -> None:
        self._limits = limits
        self.spending = spending or NamespaceSpending(HourlyLimits(), SystemClock())
        self._lock = threading.Lock()
        self._places: dict[Key, dict[str, int]] = {}
        self._waiting: dict[Key, _Wanted] = {}
        self._aside: dict[Key, set[str]] = {}
        self._arrivals = 0
        self._admissions = 0
        self._served: dict[str, int] = {}

    def admit(
        self,
        key: Key,
        priority: Priority,
        memory_bytes: int,
        rate: float | None = None,
        *,
        operation: str = "",
    ) -> Admitted | Full | TooLarge:
        """Take a place for an operation of the table `key`, or the table's place in line; `rate` as
        in `Start`."""
        limits = self._limits
        for limit, whose, setting in (
            (limits.memory_bytes_max, "all operations", "TIDELINE_MEMORY_MAX"),
            (
                limits.memory_bytes_per_namespace_max,
                "those of a namespace",
                "TIDELINE_MEMORY_PER_NAMESPACE_MAX",
            ),
        ):
            if limit is not None and memory_bytes > limit:
                return TooLarge(
                    f"its pods ask for {_mib(memory_bytes)}, the limit for {whose} is "
                    f"{_mib(limit)}: lower spec.resources or raise {setting}"
                )
        with self._lock:
            self._give_up(key, operation)
            known = self._waiting.get(key)
            if known is None:
                self._arrivals += 1
            arrival = self._arrivals if known is None else known.arrival
            self._waiting[key] = _Wanted(operation, priority, rate, arrival, memory_bytes)
            if key not in self._next_in_line():
                return Full(self._why_full(key))
            del self._waiting[key]
            self._places.setdefault(key, {})[operation] = memory_bytes
            self._admissions += 1
            self._served[key[0]] = self._admissions
            return Admitted()

    def hold(self, key: Key, memory_bytes: int, operation: str = "") -> None:
        """Note an operation that is already under way, even beyond the limits."""
        with self._lock:
            self._give_up(key, operation)
            self._leave_line(key, operation)
            self._places.setdefault(key, {})[operation] = memory_bytes

    def set_aside(self, key: Key, operation: str = "") -> None:
        """Note an operation under way that cannot start: it needs no place."""
        with self._lock:
            self._give_up(key, operation)
            self._leave_line(key, operation)
            self._aside.setdefault(key, set()).add(operation)

    def keep_only(self, key: Key, operations: AbstractSet[str]) -> None:
        """Give up the places of the table's operations that are not among these."""
        with self._lock:
            known = {*self._places.get(key, ()), *self._aside.get(key, ())}
            for operation in known - operations:
                self._give_up(key, operation)

    def leave_line(self, key: Key) -> None:
        """Give up the table's place in line."""
        with self._lock:
            self._waiting.pop(key, None)

    def release(self, key: Key, operation: str | None = None) -> bool:
        """Give up an operation's place, or all of the table's and its place in line; whether it had
        one."""
        with self._lock:
            if operation is not None:
                return self._give_up(key, operation)
            self._aside.pop(key, None)
            had = [self._places.pop(key, None), self._waiting.pop(key, None)]
            return any(item is not None for item in had)

    def next_in_line(self) -> tuple[Key, ...]:
        """The tables that could have a place now."""
        with self._lock:
            return self._next_in_line()

    @property
    def running(self) -> int:
        return sum(len(held) for held in self._places.values())

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def stuck(self) -> int:
        """Operations that cannot start."""
        return sum(len(aside) for aside in self._aside.values())

    @property
    def memory_bytes(self) -> int:
        """Memory that the operations under way may ask for."""
        with self._lock:
            return self._asked()

    def _next_in_line(self) -> tuple[Key, ...]:
        """Those in line for whom there is a place. A full namespace is skipped; memory that is not
        enough for the first is not given to those behind it, or it never would be."""
        limits = self._limits
        free = limits.operations_max - self.running
        asked = self._asked()
        within = self._running_within()
        asked_within = self._asked_within()
        lines = self._lines() if free > 0 else {}
        chosen: list[Key] = []
        while lines and len(chosen) < free:
            namespace = min(lines, key=lambda line: self._order(lines[line][-1], within))
            key = lines[namespace][-1]
            memory_bytes = self._waiting[key].memory_bytes
            asked_within[namespace] += memory_bytes
            if _exceeds(within[namespace] + 1, limits.operations_per_namespace_max) or _exceeds(
                asked_within[namespace], limits.memory_bytes_per_namespace_max
            ):
                del lines[namespace]
                continue
            asked += memory_bytes
            if _exceeds(asked, limits.memory_bytes_max):
                break
            within[namespace] += 1
            chosen.append(key)
            lines[namespace].pop()
            if not lines[namespace]:
                del lines[namespace]
        return tuple(chosen)

    def _lines(self) -> dict[str, list[Key]]:
        """Those in line, by namespace; the first of each is the last of its list."""
        lines: dict[str, list[Key]] = {}
        for key in sorted(self._waiting, key=self._rank, reverse=True):
            if self._excess(key) is None:
                lines.setdefault(key[0], []).append(key)
        return lines

    def _excess(self, key: Key) -> str | None:
        """What keeps an operation in line although there are places."""
        is_healing = self._waiting[key].priority in _HEALING
        return None if is_healing else self.spending.excess(key[0])

    def _order(self, key: Key, within: Mapping[str, int]) -> tuple[int, int, int, float, int]:
        """The order of operations of different namespaces, which have so many places."""
        priority, rate, arrival = self._rank(key)
        if priority == Priority.SERVICE:
            return priority, 0, 0, rate, arrival
        return priority, within.get(key[0], 0), self._served.get(key[0], 0), rate, arrival

    def _asked_within(self) -> Counter[str]:
        """Memory that the operations under way may ask for, by namespace."""
        asked: Counter[str] = Counter()
        for (namespace, _), held in self._places.items():
            asked[namespace] += sum(held.values())
        return asked

    def _running_within(self) -> Counter[str]:
        """How many operations are under way, by namespace."""
        running: Counter[str] = Counter()
        for (namespace, _), held in self._places.items():
            running[namespace] += len(held)
        return running

    def _asked(self) -> int:
        return sum(sum(held.values()) for held in self._places.values())

    def _give_up(self, key: Key, operation: str) -> bool:
        """Give up one place; whether it was held."""
        aside = self._aside.get(key)
        if aside is not None:
            aside.discard(operation)
            if not aside:
                del self._aside[key]
        held = self._places.get(key)
        if held is None or held.pop(operation, None) is None:
            return False
        if not held:
            del self._places[key]
        return True

    def _leave_line(self, key: Key, operation: str) -> None:
        """Give up the table's place in line if this operation waits there."""
        waiting = self._waiting.get(key)
        if waiting is not None and waiting.operation == operation:
            del self._waiting[key]

    def _rank(self, key: Key) -> tuple[int, float, int]:
        return self._waiting[key].rank(self._arrivals)

    def _why_full(self, key: Key) -> str:
        excess = self._excess(key)
        if excess is not None:
            return excess
        limits, running, held = self._limits, self.running, self._running_within()
        order = self._order(key, held)
        ahead = sum(1 for other in self._waiting if self._order(other, held) < order)
        line = f"; {ahead} ahead of it in line" if ahead else ""
        if running >= limits.operations_max:
            return f"{running} of {limits.operations_max} operations are running{line}"
        within = held[key[0]]
        per_namespace = limits.operations_per_namespace_max
        if per_namespace is not None and within >= per_namespace:
            return f"{within} of {per_namespace} operations are running in namespace {key[0]}{line}"
        in_namespace = self._asked_within()[key[0]]
        memory_bytes = self._waiting[key].memory_bytes
        if _exceeds(in_namespace + memory_bytes, limits.memory_bytes_per_namespace_max):
            return (
                f"operations under way in namespace {key[0]} ask for {_mib(in_namespace)} of "
                f"{_mib(limits.memory_bytes_per_namespace_max or 0)}{line}"
            )
        if limits.memory_bytes_max is not None:
            asked = self._asked()
            return (
                f"operations under way ask for {_mib(asked)} of "
                f"{_mib(limits.memory_bytes_max)}{line}"
            )
        return f"{running} of {limits.operations_max} operations are running{line}"


def _exceeds(value: int, limit: int | None) -> bool:
    return limit is not None and value > limit


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 1024 / 1024:,.0f} MiB"
