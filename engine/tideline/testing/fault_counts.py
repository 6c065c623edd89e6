"""How often each class of fault really took place: one that never comes proves nothing.

Stores, simulators and proxies that inject faults call `count_fault`; `fault_report` sums up a run.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum


class FaultClass(Enum):
    """What simulations let happen to a process and its store."""

    CRASH_BEFORE_WRITE = "crash before a write"
    CRASH_AFTER_WRITE = "crash after a write"
    KILL = "kill"
    LOST_REPLY = "lost reply"
    REFUSED_REPLY = "own write refused"
    UNAVAILABLE = "store away"
    DELAY = "delay"
    POWER_LOSS = "power loss"

    def __str__(self) -> str:
        return self.value


fired: Counter[str] = Counter()
"""Of this process, since it began; by the class in words."""


def count_fault(fault: FaultClass | str) -> None:
    """Note that a fault has taken place just now; other classes than those above are text."""
    fired[str(fault)] += 1


def missing_faults(counts: Counter[str]) -> tuple[FaultClass, ...]:
    """The classes that never came."""
    return tuple(fault for fault in FaultClass if not counts[str(fault)])
