"""What a run costs: seconds of processor cores, and requests to object stores.

Core-seconds are those of this process and of the processes below it: Spark's Java and its Python
workers on this machine, not executors in pods of their own. What else the process does meanwhile is
counted along.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tideline.index_lookups import lookups_so_far
from tideline.storage.request_count import requests_sent

_PROCESSES = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PARENT = 1
_FIRST_TIME = 11
"""Of the four times in `stat`, its own and those of children that ended, after the name."""
_STAT_BYTES_MAX = 4096


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
        living = _seconds_below()
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


def _seconds_below() -> float:
    """Of living processes that this one started and that they started, where the system says."""
    if not _has_children():
        return 0.0
    found = {process: stat for process in _processes() if (stat := _Stat.read(process))}
    children: defaultdict[int, list[int]] = defaultdict(list)
    for process, stat in found.items():
        children[stat.parent].append(process)
    seconds, left = 0.0, children[os.getpid()]
    while left:
        process = left.pop()
        seconds += found[process].seconds
        left += children[process]
    return seconds


def _has_children() -> bool:
    """Far cheaper than a look at each process of a machine, and as a rule there are none."""
    try:
        threads = (_PROCESSES / "self" / "task").iterdir()
        return any(_content(f"{thread}/children") for thread in threads)
    except OSError:
        # Not each kernel has these files, and a thread may have ended.
        return True


def _processes() -> list[int]:
    try:
        return [int(found.name) for found in _PROCESSES.iterdir() if found.name.isdecimal()]
    except OSError:
        return []


@dataclass(frozen=True, slots=True)
class _Stat:
    """What the system says of a process: `parent` is the process that started it."""

    parent: int
    seconds: float

    @classmethod
    def read(cls, process: int) -> Self | None:
        """None of one that has ended."""
        try:
            fields = _content(f"{_PROCESSES}/{process}/stat").rpartition(b")")[2].split()
        except OSError:
            return None
        times = fields[_FIRST_TIME : _FIRST_TIME + 4]
        return cls(int(fields[_PARENT]), sum(map(int, times)) / _TICKS_PER_S)


def _content(path: str) -> bytes:
    """By the system's own calls: a commit reads hundreds of these files."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, _STAT_BYTES_MAX)
    finally:
        os.close(file)
