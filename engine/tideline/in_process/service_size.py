"""Which services this process is for, and how much of their work it does at once. Pure.

Sizes are of stored bytes: what the plan's file slices take in the store. In memory rows are several
times as large. A base file streams through, of which a few row groups are held; a log is merged in
memory, and rows that are sorted are held as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.write.cluster_work import WholePiece
from tideline.hudi.write.config import SmallEngine, WriteConfig

_MIB = 1024 * 1024
PLAN_BYTES_MAX = 1024 * _MIB
"""Of all file slices of a plan: about what two processors rewrite while Spark starts."""
LOG_BYTES_MAX = 128 * _MIB
"""Of the log files of one file slice."""
PART_BYTES_MAX = 64 * _MIB
"""Of rows that one thread sorts."""
HELD_BYTES_MAX = 1024 * _MIB
"""In memory, by all threads."""

_EXPANSION = 6
_STREAMED_BYTES_MAX = 384 * _MIB


def why_spark(slices: Sequence[FileSlice], config: WriteConfig) -> str | None:
    """Why a service that reads these slices needs Spark; None where it does not."""
    if config.small_engine is SmallEngine.SPARK:
        return "tideline.engine.small is spark"
    plan_bytes = sum(piece.size_bytes for piece in slices)
    if plan_bytes > PLAN_BYTES_MAX:
        return f"the plan has {_mib(plan_bytes)}, more than {_mib(PLAN_BYTES_MAX)}"
    log_bytes = max((_log_bytes(piece) for piece in slices), default=0)
    if log_bytes > LOG_BYTES_MAX:
        return f"a file group has logs of {_mib(log_bytes)}, more than {_mib(LOG_BYTES_MAX)}"
    return None


def merge_bytes(piece: FileSlice) -> int:
    """Memory for merging a slice, its base file streaming through."""
    log_bytes = _log_bytes(piece)
    streamed = min(_EXPANSION * (piece.size_bytes - log_bytes), _STREAMED_BYTES_MAX)
    return streamed + _EXPANSION * log_bytes


def piece_bytes(piece: WholePiece, *, is_sorted: bool) -> int:
    """Memory for rewriting a piece of a clustering, one slice after the other."""
    if is_sorted:
        return _EXPANSION * piece.size_bytes
    return max(merge_bytes(one) for one in piece.slices)


def part_bytes(size_bytes: int) -> int:
    """Memory for sorting a part of so many stored bytes and writing it out."""
    return _EXPANSION * size_bytes + _STREAMED_BYTES_MAX


def _log_bytes(piece: FileSlice) -> int:
    return sum(log.size_bytes for log in piece.log_files)


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / _MIB:,.0f} MiB"
