"""Which services this process is for, and how much of their work it does at once. Pure.

Sizes are of stored bytes: what the plan's file slices take in the store. In memory rows are several
times as large. A base file streams through, with a few row groups held; a log is merged in
memory, and rows that are sorted are held as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tideline.hudi.file_group.cluster_work import TaskSlices
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.write.config import WriteConfig
from tideline.settings.small_engine import SmallEngine

_MIB = 1024 * 1024
_PLAN_BYTES_MAX = 1024 * _MIB
"""About what two processors rewrite while Spark starts."""
_PLAN_BYTES_MAX_WITH_EXECUTORS = 64 * _MIB
"""What takes no longer than a job that sends it out."""
_HELD_BYTES_MAX = 1024 * _MIB
_PART_BYTES_MAX = 64 * _MIB
_PART_BYTES_MIN = _MIB
_EXPANSION = 6
_STREAMED_BYTES_MAX = 384 * _MIB


class MemorySharing(Enum):
    """What runs already: no Spark, a session on this machine, or one that has executors."""

    ALONE = "alone"
    LOCAL_SESSION = "local session"
    EXECUTORS = "executors"


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """How much this process takes on.

    `plan_bytes_max` of the file slices of a plan; `held_bytes_max` in memory, by all threads;
    `part_bytes_max` of rows that one thread sorts.
    """

    plan_bytes_max: int = _PLAN_BYTES_MAX
    held_bytes_max: int = _HELD_BYTES_MAX
    part_bytes_max: int = _PART_BYTES_MAX

    @classmethod
    def of(cls, memory_bytes: int, sharing: MemorySharing) -> MemoryBudget:
        """Of a machine with this memory: half of it, a quarter next to Java."""
        share = memory_bytes // (2 if sharing is MemorySharing.ALONE else 4)
        held = min(_HELD_BYTES_MAX, share)
        part = max(_PART_BYTES_MIN, (held - _STREAMED_BYTES_MAX) // _EXPANSION)
        has_executors = sharing is MemorySharing.EXECUTORS
        plan = _PLAN_BYTES_MAX_WITH_EXECUTORS if has_executors else _PLAN_BYTES_MAX
        return cls(plan, held, min(_PART_BYTES_MAX, part))


FULL_BUDGET = MemoryBudget()
"""Of a machine with memory to spare."""


def why_spark(slices: Sequence[FileSlice], config: WriteConfig, budget: MemoryBudget) -> str | None:
    """Why a service that reads these slices needs Spark; None where it does not."""
    if config.small_engine is SmallEngine.SPARK:
        return "tideline.engine.small is spark"
    plan_bytes = sum(file_slice.size_bytes for file_slice in slices)
    if plan_bytes > budget.plan_bytes_max:
        return f"the plan has {_mib(plan_bytes)}, more than {_mib(budget.plan_bytes_max)}"
    held = max(map(merge_bytes, slices), default=0)
    if held > budget.held_bytes_max:
        return (
            f"merging a file group takes about {_mib(held)} of memory, more than "
            f"{_mib(budget.held_bytes_max)}"
        )
    return None


def merge_bytes(file_slice: FileSlice) -> int:
    """Memory for merging a slice, its base file streaming through."""
    log_bytes = _log_bytes(file_slice)
    streamed = min(_EXPANSION * (file_slice.size_bytes - log_bytes), _STREAMED_BYTES_MAX)
    return streamed + _EXPANSION * log_bytes


def task_bytes(task_slices: TaskSlices, *, is_sorted: bool) -> int:
    """Memory for what one task of a clustering rewrites, one slice after the other."""
    if is_sorted:
        return _EXPANSION * task_slices.size_bytes
    return max(merge_bytes(file_slice) for file_slice in task_slices.slices)


def part_bytes(size_bytes: int) -> int:
    """Memory for sorting a part of so many stored bytes and writing it out."""
    return _EXPANSION * size_bytes + _STREAMED_BYTES_MAX


def _log_bytes(file_slice: FileSlice) -> int:
    return sum(log.size_bytes for log in file_slice.log_files)


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / _MIB:,.0f} MiB"
