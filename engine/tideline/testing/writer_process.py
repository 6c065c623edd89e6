"""Writers in processes of their own: some to be killed in the middle, some to compete.

Processes are forked from one clean server that has everything imported, so one costs milliseconds.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import pyarrow as pa

from tideline.errors import ConflictError
from tideline.hudi.table.markers import Marker, MarkerKind, create_marker
from tideline.storage.location import StoreLocation
from tideline.testing.fault_counts import FaultClass, count_fault
from tideline.testing.faulty_store import FaultPlan, FaultyStore
from tideline.testing.small_table import SmallTable

_JOIN_S_MAX = 60.0
_CONFLICTS_MAX = 200
_PRELOADED_WHERE_IMPORTED = (
    "tideline.testing.storm_parts",
    "tideline.testing.iceberg_storm",
    "tideline.testing.topic_storm",
    "tideline.testing.postgres_storm",
)


@dataclass(frozen=True, slots=True)
class WriterTask:
    """One write for a process: `plan` says when it is killed, `kernel_locks` see FaultyStore."""

    location: StoreLocation
    operation: str
    rows: pa.Table
    plan: FaultPlan


def writer_processes() -> ForkServerContext:
    """Where to start them: `writer_processes().Process(target=..., args=...)`."""
    context = multiprocessing.get_context("forkserver")
    # What few tests need costs the others nothing.
    also = [name for name in _PRELOADED_WHERE_IMPORTED if name in sys.modules]
    context.set_forkserver_preload([__name__, *also])
    return context


def run_writer(task: WriterTask) -> None:
    """Write as the task says; leave a file of a lost task attempt behind first."""
    table = SmallTable(task.location)
    store = FaultyStore(table.store(), task.plan, kernel_locks=True)
    table.write(
        task.operation, task.rows, store=store, before_files=lambda: lose_an_attempt(table, store)
    )


def lose_an_attempt(table: SmallTable, store: FaultyStore) -> None:
    """What a task leaves that is run again: a marked file that no write stat will name."""
    newest = table.lake().timeline().newest_time()
    name = f"11111111-1111-1111-1111-111111111111-0_7-0-0_{newest}.parquet"
    create_marker(store, str(newest), Marker("p0", name, MarkerKind.CREATE))
    with store.open_writer(f"p0/{name}") as stream:
        stream.write(b"half a file")


def hold_a_write_open(task: WriterTask, ready: str) -> None:
    """Write all files, say so by creating the file `ready`, and wait to be killed or let go."""
    table = SmallTable(task.location)

    def wait() -> None:
        Path(ready).touch()
        while Path(ready).exists():
            time.sleep(0.01)

    table.write(task.operation, task.rows, after_files=wait)


def write_until_done(
    location: StoreLocation,
    batches: list[tuple[str, pa.Table]],
    *,
    meet: Callable[[], object] = lambda: None,
) -> int:
    """Write all batches, each again after every ConflictError; returns how many conflicts there
    were.

    `meet` is called in the middle of the first attempt, so that others can be there as well.
    """
    table = SmallTable(location)
    conflicts = 0
    waiting = [meet]

    def meet_once() -> None:
        if waiting:
            waiting.pop()()

    for operation, rows in batches:
        while True:
            try:
                table.write(operation, rows, before_files=meet_once)
                break
            except ConflictError:
                conflicts += 1
                if conflicts > _CONFLICTS_MAX:
                    raise
    return conflicts


def start(target: Callable[..., object], *arguments: object) -> BaseProcess:
    """Start `target(*arguments)` in a process of its own, in the environment as it is now."""
    process = writer_processes().Process(
        target=_run_in, args=(dict(os.environ), target, arguments), daemon=True
    )
    process.start()
    return process


def join(process: BaseProcess) -> int | None:
    """Wait for the process to end; its exit code, negative for a signal."""
    process.join(_JOIN_S_MAX)
    assert process.exitcode is not None, "the process did not end in time"
    if process.exitcode == -signal.SIGKILL:
        count_fault(FaultClass.KILL)
    return process.exitcode


def kill(process: BaseProcess) -> None:
    """End it as the kernel does when memory runs out, unless it has ended on its own."""
    process.kill()
    join(process)


def _run_in(
    environment: dict[str, str], target: Callable[..., object], arguments: tuple[object, ...]
) -> None:
    # The server that processes are forked from has the environment of its own start.
    os.environ.clear()
    os.environ.update(environment)
    target(*arguments)
