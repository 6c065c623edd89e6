"""What the operations of each namespace have taken in the last hour, against what they may.

A namespace that has spent its hour starts nothing new, except what gives a table back its health:
rollbacks and restores. What was taken is learned from the totals in the statuses of its tables, as
they grow: operations count when they end, so one that runs is not stopped, and a long one may
exceed the limit. For a new leader the hour starts over.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields

from tideline.clock import Clock
from tideline_operator.controller.work_queue import Key
from tideline_operator.resources.spent import Spent
from tideline_operator.resources.variables import Variables, variable

WINDOW_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """An amount of each thing that is limited."""

    pod_seconds: float = 0.0
    gib_seconds: float = 0.0
    bytes: int = 0
    requests: int = 0

    @classmethod
    def of(cls, totals: Mapping[str, Spent]) -> ResourceUsage:
        """All kinds of operations together."""
        every = totals.values()
        return cls(
            sum(usage.pod_ms for usage in every) / 1000,
            sum(usage.mib_seconds for usage in every) / 1024,
            sum(usage.bytes_read + usage.bytes_written for usage in every),
            sum(usage.requests for usage in every),
        )

    def since(self, before: ResourceUsage) -> ResourceUsage:
        """What was added; nothing where totals were lost."""
        return ResourceUsage(
            max(0.0, self.pod_seconds - before.pod_seconds),
            max(0.0, self.gib_seconds - before.gib_seconds),
            max(0, self.bytes - before.bytes),
            max(0, self.requests - before.requests),
        )


_HOURLY = "TIDELINE_NAMESPACE_HOURLY"


@dataclass(frozen=True, slots=True)
class HourlyLimits:
    """What the operations of one namespace may take in an hour; None means no limit."""

    pod_seconds: int | None = variable(f"{_HOURLY}_POD_SECONDS_MAX", Variables.number)
    gib_seconds: int | None = variable(f"{_HOURLY}_GIB_SECONDS_MAX", Variables.number)
    bytes: int | None = variable(f"{_HOURLY}_BYTES_MAX", Variables.memory)
    requests: int | None = variable(f"{_HOURLY}_REQUESTS_MAX", Variables.number)


_WORDS = {"pod_seconds": "pod-seconds", "gib_seconds": "GiB-seconds"}


class NamespaceSpending:
    """Notes what ended; for any number of threads."""

    def __init__(self, limits: HourlyLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._totals: dict[Key, ResourceUsage] = {}
        self._ended: dict[str, deque[tuple[int, ResourceUsage]]] = {}

    def note(self, key: Key, totals: Mapping[str, Spent]) -> None:
        """What operations on a table have taken so far; what came since the last note counts."""
        total = ResourceUsage.of(totals)
        namespace = key[0]
        with self._lock:
            before = self._totals.get(key, total)
            self._totals[key] = total
            if total != before:
                ended = self._ended.setdefault(namespace, deque())
                ended.append((self._clock.now_ms(), total.since(before)))

    def forget(self, key: Key) -> None:
        """A table is gone; what it took still counts."""
        with self._lock:
            self._totals.pop(key, None)

    def excess(self, namespace: str) -> str | None:
        """What the namespace has spent of its hour, in words; None where some of all is left."""
        if self._limits == HourlyLimits():
            return None
        spent = self._of_the_last_hour(namespace)
        for field in fields(HourlyLimits):
            limit, used = getattr(self._limits, field.name), getattr(spent, field.name)
            if limit is not None and used >= limit:
                what = _WORDS.get(field.name, field.name)
                return (
                    f"operations in namespace {namespace} took {used:,.0f} {what} in the last hour,"
                    f" the limit is {limit:,}"
                )
        return None

    def _of_the_last_hour(self, namespace: str) -> ResourceUsage:
        with self._lock:
            ended = self._ended.get(namespace, deque())
            while ended and ended[0][0] <= self._clock.now_ms() - WINDOW_MS:
                ended.popleft()
            found = [spending for _, spending in ended]
        return ResourceUsage(
            sum(resource_usage.pod_seconds for resource_usage in found),
            sum(resource_usage.gib_seconds for resource_usage in found),
            sum(resource_usage.bytes for resource_usage in found),
            sum(resource_usage.requests for resource_usage in found),
        )
