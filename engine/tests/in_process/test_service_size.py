"""Which services this process is for, and what it does at once."""

from __future__ import annotations

import time
from threading import Barrier, Event, Lock

import pytest

from tideline.hudi.file_group.cluster_work import TaskSlices
from tideline.hudi.table.file_group import BaseFile, FileGroupId, FileSlice, LogFile
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.bounded_threads import in_bounded_threads
from tideline.hudi.write.config import WriteConfig
from tideline.in_process.service_size import (
    MemoryBudget,
    MemorySharing,
    merge_bytes,
    task_bytes,
    why_spark,
)
from tideline.settings.small_engine import SmallEngine
from tideline.testing.patience import PATIENCE_S

MIB = 1024 * 1024
TIME = InstantTime("20260101000000000")


def file_slice(base_mib: int, log_mib: int = 0) -> FileSlice:
    group = FileGroupId("p", "f")
    base = BaseFile("p", "f", "0-0-0", TIME, base_mib * MIB)
    logs = (LogFile("p", "f", TIME, 1, "0-0-0", log_mib * MIB),) if log_mib else ()
    return FileSlice(group, TIME, base, logs)


GIB = 1024 * MIB


@pytest.mark.parametrize(
    ("slices", "reason"),
    [
        ([], None),
        ([file_slice(100, 100)] * 4, None),
        ([file_slice(256)] * 4, None),
        ([file_slice(256)] * 5, "the plan has 1,280 MiB, more than 1,024 MiB"),
        (
            [file_slice(1), file_slice(1, 180)],
            "merging a file group takes about 1,086 MiB of memory, more than 1,024 MiB",
        ),
    ],
)
def test_stored_bytes_decide(slices: list[FileSlice], reason: str | None) -> None:
    assert (
        why_spark(slices, WriteConfig(), MemoryBudget.of(64 * GIB, MemorySharing.ALONE)) == reason
    )


@pytest.mark.parametrize(
    ("memory_bytes", "sharing", "budget"),
    [
        (64 * GIB, MemorySharing.ALONE, MemoryBudget(GIB, GIB, 64 * MIB)),
        (64 * GIB, MemorySharing.LOCAL_SESSION, MemoryBudget(GIB, GIB, 64 * MIB)),
        (64 * GIB, MemorySharing.EXECUTORS, MemoryBudget(64 * MIB, GIB, 64 * MIB)),
        (1536 * MIB, MemorySharing.ALONE, MemoryBudget(GIB, 768 * MIB, 64 * MIB)),
        (1536 * MIB, MemorySharing.LOCAL_SESSION, MemoryBudget(GIB, 384 * MIB, MIB)),
        (256 * MIB, MemorySharing.ALONE, MemoryBudget(GIB, 128 * MIB, MIB)),
    ],
)
def test_a_small_machine_holds_less_and_executors_leave_little_to_their_driver(
    memory_bytes: int, sharing: MemorySharing, budget: MemoryBudget
) -> None:
    assert MemoryBudget.of(memory_bytes, sharing) == budget


def test_the_setting_sends_everything_to_spark() -> None:
    config = WriteConfig(small_engine=SmallEngine.SPARK)
    assert why_spark([file_slice(1)], config, MemoryBudget()) == "tideline.engine.small is spark"


def test_logs_are_held_and_base_files_stream_through() -> None:
    assert merge_bytes(file_slice(10, 20)) == (60 + 120) * MIB
    assert merge_bytes(file_slice(1000)) == merge_bytes(file_slice(900)) < 1000 * MIB
    both = TaskSlices((file_slice(10), file_slice(20)), "prefix")
    assert task_bytes(both, is_sorted=True) == 6 * 30 * MIB
    assert task_bytes(both, is_sorted=False) == 6 * 20 * MIB


def run(sizes: list[int], threads: int, most: int) -> list[int]:
    """The most that was held, and the results; what is too large on its own runs alone."""
    lock, held, seen = Lock(), [0], [0]

    def do(size: int) -> int:
        with lock:
            held[0] += size
            seen[0] = max(seen[0], held[0])
        time.sleep(0.002)
        with lock:
            held[0] -= size
        return size

    done = in_bounded_threads(
        sizes, do, threads=threads, held_bytes=int, held_bytes_max=most, stop=lambda: None
    )
    assert done == sizes
    return seen


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_hold_no_more_than_they_may_and_results_keep_their_order(threads: int) -> None:
    assert run([60, 50, 40, 30, 10] * 20, threads, 100)[0] <= 100
    assert run([500, 50, 50], threads, 100)[0] <= 500


def test_items_that_fit_together_run_at_once() -> None:
    barrier = Barrier(2, timeout=PATIENCE_S)
    done = in_bounded_threads(
        [1, 2],
        lambda _: barrier.wait() >= 0,
        threads=2,
        held_bytes=int,
        held_bytes_max=3,
        stop=lambda: None,
    )
    assert done == [True, True]


def test_a_failure_stops_the_others_and_is_raised() -> None:
    stopped, begun = Event(), []

    def do(item: int) -> None:
        begun.append(item)
        if item == 0:
            raise ValueError("broken")
        stopped.wait(5)

    with pytest.raises(ValueError, match="broken"):
        in_bounded_threads(
            range(9), do, threads=2, held_bytes=int, held_bytes_max=99, stop=stopped.set
        )
    assert stopped.is_set()
    assert len(begun) <= 3
