"""What a run costs: seconds of processor cores, and requests to object stores.

Core-seconds are those of this process and of the processes below it: Spark's Java and its Python
workers on this machine, not executors in pods of their own. What else the process does meanwhile is
counted along.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tideline.index_lookups import lookups_so_far
from tideline.storage.request_count import requests_sent

_PROCESSES = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_FIRST_TIME = 11
"""Of the four times in `stat`, its own and those of children that ended, after the name."""


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """What was spent. `own_core_seconds` are those of this process among `core_seconds`.

    `index_lookups` are looks into an index that spared looks into files, `index_fallbacks` those
    where files were looked into though there was one: it lagged, or could not be read.
    """

    core_seconds: float = 0.0
    requests: int = 0
    index_lookups: int = 0
    index_fallbacks: int = 0
    own_core_seconds: float = field(default=0.0, compare=False)

    @classmethod
    def so_far(cls) -> Self:
        """Since this process began."""
        times = os.times()
        own = times.user + times.system
        ended = times.children_user + times.children_system
        living = sum(map(_seconds_of, _below(os.getpid())))
        answered, passed_over = lookups_so_far()
        return cls(own + ended + living, requests_sent(), answered, passed_over, own)

    def since(self, earlier: ResourceUsage) -> ResourceUsage:
        """What was spent between two moments; what processes spent that are gone may be missing."""
        own = self.own_core_seconds - earlier.own_core_seconds
        all_of_it = max(self.core_seconds - earlier.core_seconds, own)
        return ResourceUsage(
            round(all_of_it, 3),
            self.requests - earlier.requests,
            self.index_lookups - earlier.index_lookups,
            self.index_fallbacks - earlier.index_fallbacks,
            round(own, 3),
        )

    def to_json_object(self) -> dict[str, Any]:
        """What was spent, for machines."""
        return {"core_seconds": self.core_seconds, "requests": self.requests}


NOTHING = ResourceUsage()


def _below(process: int) -> Iterator[int]:
    """The processes that a process started and that they started, where the system says."""
    for children in (_PROCESSES / str(process) / "task").glob("*/children"):
        # A thread may end meanwhile, or a process.
        with suppress(OSError):
            for child in children.read_text(encoding="ascii").split():
                yield int(child)
                yield from _below(int(child))


def _seconds_of(process: int) -> float:
    try:
        stat = (_PROCESSES / str(process) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0.0
    times = stat.rpartition(")")[2].split()[_FIRST_TIME : _FIRST_TIME + 4]
    return sum(map(int, times)) / _TICKS_PER_S
