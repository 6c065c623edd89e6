"""Real processes, killed at each point of the protocol on a local folder.

The kernel knows at once that a writer is dead there, so the next one need not wait.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from tideline.clock import SystemClock
from tideline.hudi.timeline.instant import Instant
from tideline.storage.location import StoreLocation
from tideline.testing import writer_process
from tideline.testing.faulty_store import FaultPlan, FaultyStore, RecordedWrite
from tideline.testing.patience import PATIENCE_S
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import (
    missing_files,
    open_fresh,
    traces_of,
    unexplained_objects,
)
from tideline.testing.writer_process import WriterTask, hold_a_write_open, run_writer

OLD = [(f"k{number:03d}", 1) for number in range(8)]
NEW = sorted({**dict(OLD), **{f"k{number:03d}": 2 for number in range(6, 12)}}.items())
UPSERT = batch(range(6, 12), 2)
NEXT = batch([0, 50], 9)
FINALIZE = "11111111-1111-1111-1111-111111111111-0_7-0-0"

POINTS = {
    "requested": (".commit.requested", "put_if_absent"),
    "inflight": (".inflight", "put_if_absent"),
    "first marker": (".marker.MERGE", "put"),
    "half a data file": (".parquet", "open_writer"),
    "data": (".parquet", "close_writer"),
    "finalize": (".parquet", "delete"),
    "properties backed up": ("hoodie.properties.backup", "put_if_absent"),
    "properties": ("hoodie.properties", "put_if_match"),
    "metadata table": (".hoodie/metadata", "delete_prefix"),
    "completed": (".commit", "put_if_absent"),
    "markers removed": (".hoodie/.temp", "delete_prefix"),
}
"""Each point: what the path of the write after which the process dies contains, and its method."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a metadata table, which every commit of ours has to switch off."""
    folder = tmp_path_factory.mktemp("prepared") / "table"
    off = {"hoodie.metadata.enable": "false"}
    table = SmallTable.create(StoreLocation.of(str(folder)), properties=off)
    table.write("insert", batch(range(8), 1))
    hoodie = open_fresh(table.location)
    hoodie.properties.update({"hoodie.table.metadata.partitions": "files"})
    hoodie.store.put(".hoodie/metadata/files/x.hfile", b"stale")
    return folder


@pytest.fixture
def table(prepared: Path, tmp_path: Path) -> SmallTable:
    shutil.copytree(prepared, tmp_path / "table")
    return SmallTable(StoreLocation.of(str(tmp_path / "table")))


@pytest.fixture(scope="module")
def rehearsed(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Sequence[RecordedWrite]:
    """The writes of the very write that is killed, in order."""
    folder = tmp_path_factory.mktemp("rehearsal") / "table"
    shutil.copytree(prepared, folder)
    table = SmallTable(StoreLocation.of(str(folder)))
    store = FaultyStore(table.store(), kernel_locks=True)
    table.write(
        "upsert",
        UPSERT,
        store=store,
        before_files=lambda: writer_process.lose_an_attempt(table, store),
    )
    return store.writes


def number_of(point: str, writes: Sequence[RecordedWrite]) -> int:
    wanted, method = POINTS[point]
    return next(
        number
        for number, write in enumerate(writes, start=1)
        if write.method == method
        and wanted in write.path
        and (wanted != ".commit" or write.path.endswith(wanted))
        and (FINALIZE in write.path) == (point == "finalize")
    )


def folder_of(table: SmallTable) -> Path:
    return Path(table.location.uri.removeprefix("file://"))


def pending(table: SmallTable) -> list[Instant]:
    return list(open_fresh(table.location).timeline().pending())


@pytest.mark.parametrize("point", POINTS)
def test_a_writer_killed_right_after(
    point: str, table: SmallTable, rehearsed: Sequence[RecordedWrite]
) -> None:
    plan = FaultPlan(crash_after_write=number_of(point, rehearsed), kill_process=True)
    task = WriterTask(table.location, "upsert", UPSERT, plan)
    assert writer_process.join(writer_process.start(run_writer, task)) == -signal.SIGKILL

    visible = point in ("completed", "markers removed")
    assert table.values() == (NEW if visible else OLD)
    dead = [str(instant.time) for instant in pending(table)]
    assert len(dead) == (0 if visible else 1)

    report = table.write("upsert", NEXT)

    assert list(report.rolled_back) == dead
    expected = dict(NEW if visible else OLD) | {"k000": 9, "k050": 9}
    assert table.values() == sorted(expected.items())
    hoodie = open_fresh(table.location)
    assert hoodie.config.metadata_partitions == ()
    hoodie.properties.update({})  # finishes what a writer died in, as the next change would
    assert unexplained_objects(hoodie) == []
    assert missing_files(hoodie) == []
    for instant in dead:
        assert traces_of(hoodie.store, instant) == []
    assert not list(folder_of(table).rglob(".tmp-*"))


@pytest.mark.parametrize("moment", range(8))
def test_a_writer_killed_at_any_moment(moment: int, table: SmallTable) -> None:
    """Not only between two calls on the store: also in the middle of one."""
    task = WriterTask(table.location, "upsert", UPSERT, FaultPlan())
    process = writer_process.start(run_writer, task)
    time.sleep(Random(moment).uniform(0.01, 0.2))
    writer_process.kill(process)

    seen = table.values()
    assert seen in (OLD, NEW)
    table.write("upsert", NEXT)
    assert table.values() == sorted((dict(seen) | {"k000": 9, "k050": 9}).items())
    hoodie = open_fresh(table.location)
    hoodie.properties.update({})
    assert unexplained_objects(hoodie) == []
    assert missing_files(hoodie) == []
    assert not list(folder_of(table).rglob(".tmp-*"))


def wait_for(file: Path) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not file.exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_a_live_writer_in_another_process_is_left_alone(table: SmallTable, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    task = WriterTask(table.location, "insert", batch([21, 23], 2), FaultPlan())
    process = writer_process.start(hold_a_write_open, task, str(ready))
    wait_for(ready)

    report = table.write("upsert", NEXT)
    assert report.rolled_back == ()
    assert len(pending(table)) == 1

    ready.unlink()
    assert writer_process.join(process) == 0
    assert ("k021", 2) in table.values()
    assert ("k050", 9) in table.values()


def test_a_stopped_process_is_alive_however_old_its_heartbeat(
    table: SmallTable, tmp_path: Path
) -> None:
    """The kernel says that it holds its lock, and an age is only as right as a clock."""
    ready = tmp_path / "ready"
    task = WriterTask(table.location, "insert", batch([21, 23], 2), FaultPlan())
    process = writer_process.start(hold_a_write_open, task, str(ready))
    wait_for(ready)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        (stopped,) = pending(table)
        heartbeat = folder_of(table) / ".hoodie/.heartbeat" / str(stopped.time)
        old_s = SystemClock().now_ms() / 1000 - 3600
        os.utime(heartbeat, (old_s, old_s))
        assert table.write("upsert", NEXT).rolled_back == ()
        assert pending(table) == [stopped]
    finally:
        ready.unlink()
        os.kill(process.pid, signal.SIGCONT)
    assert writer_process.join(process) == 0
    assert ("k021", 2) in table.values()
    assert ("k050", 9) in table.values()
    assert unexplained_objects(open_fresh(table.location)) == []


def test_a_killed_writer_that_held_the_table_lock_delays_no_other(
    table: SmallTable, rehearsed: Sequence[RecordedWrite]
) -> None:
    """Its last write is made under the lock; the kernel frees that as well."""
    plan = FaultPlan(crash_before_write=number_of("completed", rehearsed), kill_process=True)
    task = WriterTask(table.location, "upsert", UPSERT, plan)
    assert writer_process.join(writer_process.start(run_writer, task)) == -signal.SIGKILL
    started_s = time.monotonic()
    assert len(table.write("upsert", NEXT).rolled_back) == 1
    assert time.monotonic() - started_s < 30
