"""Rewriting file groups in this process, and which rewrites are small enough for it.

A Spark session takes longer to start than a small rewrite takes, and its tasks cost more than they
do where there is little to share out. Packs are written by threads: reading, encoding and
compressing are Arrow's, which lets other threads work. Ordered groups that are not small are sorted
through files on this machine's disk.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from tideline.iceberg.data.row_order import RowOrder
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.services.rewrite_data_files.execute import RewriteContext, group_order
from tideline.iceberg.services.rewrite_data_files.group_outcome import (
    GroupFailed,
    GroupOutcome,
    GroupResult,
    RewriteEngine,
    group_outcomes,
)
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.pack import Pack, packs_of
from tideline.iceberg.services.rewrite_data_files.plan import FileGroup
from tideline.iceberg.services.rewrite_data_files.spilled_sort import PART_BYTES, SpilledSort
from tideline.iceberg.table.file_io import FileIO
from tideline.machine import processors
from tideline.settings.small_engine import SmallEngine

SMALL_BYTES_MAX = 128 * 1024 * 1024
"""Stored bytes of all groups of a small rewrite; sorted in memory they are about five times as
many."""
_THREADS_MAX = 4


def engine_for(options: RewriteOptions, spark: Callable[[], RewriteEngine]) -> RewriteEngine:
    """The engine of a rewrite that may use Spark, which is asked for when it is needed."""

    def execute(
        io: FileIO,
        context: RewriteContext,
        groups: Sequence[FileGroup],
        *,
        groups_per_job: int | None = None,
    ) -> Generator[GroupOutcome]:
        engine = write_groups_here if is_small(groups, options) else spark()
        yield from engine(io, context, groups, groups_per_job=groups_per_job)

    return execute


def is_small(groups: Sequence[FileGroup], options: RewriteOptions) -> bool:
    """Whether these groups are rewritten in this process, by `tideline.engine.small`."""
    size_bytes = sum(group.input_bytes for group in groups)
    return options.small_engine is SmallEngine.IN_PROCESS and size_bytes <= SMALL_BYTES_MAX


def write_groups_here(
    io: FileIO,
    context: RewriteContext,
    groups: Sequence[FileGroup],
    *,
    groups_per_job: int | None = None,
) -> Generator[GroupOutcome]:
    """The engine without Spark: threads of this process."""
    size = groups_per_job or max(1, len(groups))
    for start in range(0, len(groups), size):
        some = groups[start : start + size]
        large = [(group, order) for group in some if (order := _large_order(context, group))]
        for group, order in large:
            yield sorted_here(io, context, group, order)
        spilled = {group.index for group, _ in large}
        some = [group for group in some if group.index not in spilled]
        packs = packs_of(context, some)
        with ThreadPoolExecutor(_threads(packs), thread_name_prefix="rewrite") as pool:
            futures = [pool.submit(pack.write, io, context, attempt=0) for pack in packs]
            try:
                wait(futures)
            except BaseException:
                # This process was asked to stop.
                pool.shutdown(cancel_futures=True)
                _remove_written(io, futures)
                raise
        answers = [
            (pack.group, _answer(future)) for pack, future in zip(packs, futures, strict=True)
        ]
        yield from group_outcomes(io, some, answers)


def sorted_here(
    io: FileIO,
    context: RewriteContext,
    group: FileGroup,
    order: RowOrder,
    *,
    part_bytes: int = PART_BYTES,
) -> GroupOutcome:
    """Sort one group through this machine's disk, in parts of so many stored bytes."""
    threads = min(_THREADS_MAX, processors())
    try:
        added = SpilledSort(io, context, group, order, threads, part_bytes).write()
    except Exception as error:
        return GroupFailed(group.index, error)
    return GroupResult(group.index, added)


def _large_order(context: RewriteContext, group: FileGroup) -> RowOrder | None:
    """The order of a group whose rows are too many to sort in memory."""
    return group_order(context, group) if group.input_bytes > SMALL_BYTES_MAX else None


def _answer(future: Future[tuple[DataFile, ...]]) -> tuple[DataFile, ...] | Exception:
    error = future.exception()
    if error is not None and not isinstance(error, Exception):
        raise error
    return future.result() if error is None else error


def _remove_written(io: FileIO, futures: Sequence[Future[tuple[DataFile, ...]]]) -> None:
    done = [future for future in futures if not future.cancelled() and future.exception() is None]
    io.remove_written(file.file_path for future in done for file in future.result())


def _threads(packs: Sequence[Pack]) -> int:
    """One where sorts in memory are large together: each holds all rows of its pack."""
    sorted_bytes = sum(pack.size_bytes for pack in packs if pack.order is not None)
    threads = 1 if sorted_bytes > SMALL_BYTES_MAX else min(_THREADS_MAX, processors())
    return max(1, min(threads, len(packs)))
