"""Several writers that really run at once, each trying again until everything is written.

Every writer upserts keys of its own into the same file groups, and one key they all share: a lost
update would miss a row, a missed conflict would double one.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore
from tideline.testing import writer_process
from tideline.testing.faulty_store import FaultPlan
from tideline.testing.patience import PATIENCE_S
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import missing_files, open_fresh, unexplained_objects
from tideline.testing.writer_process import write_until_done

pytest_plugins = ["tideline.testing.minio_fixtures"]

SHARED_KEY = 500

Batches = list[tuple[str, pa.Table]]


def batches_of(writer: int, rounds: int) -> Batches:
    """In round r: own new keys in both partitions, an update of an old one, the shared key."""
    first = 100 * (writer + 1)
    return [
        ("upsert", batch([first + 2 * turn, first + 2 * turn + 1, writer, SHARED_KEY], turn))
        for turn in range(rounds)
    ]


def check(location: StoreLocation, writers: int, rounds: int) -> None:
    table = SmallTable(location)
    rows = table.values()
    keys = [key for key, _ in rows]
    assert sorted(set(keys)) == keys, "a row is there twice"
    expected = {f"k{number:03d}": 1 for number in range(writers, 8)}
    for writer in range(writers):
        for turn in range(rounds):
            expected |= {f"k{100 * (writer + 1) + 2 * turn + side:03d}": turn for side in (0, 1)}
        expected[f"k{writer:03d}"] = rounds - 1
    expected[f"k{SHARED_KEY}"] = dict(rows)[f"k{SHARED_KEY}"]
    assert dict(rows) == expected
    hoodie = open_fresh(location)
    assert len(hoodie.timeline().pending()) == 0
    assert unexplained_objects(hoodie) == []
    assert missing_files(hoodie) == []


def compete_in_threads(location: StoreLocation, writers: int, rounds: int) -> None:
    SmallTable.create(location).write("insert", batch(range(8), 1))
    barrier = threading.Barrier(writers, timeout=PATIENCE_S)

    def work(number: int) -> int:
        return write_until_done(location, batches_of(number, rounds), meet=barrier.wait)

    with ThreadPoolExecutor(writers) as pool:
        conflicts = list(pool.map(work, range(writers)))
    check(location, writers, rounds)
    assert sum(conflicts) >= writers - 1


def test_threads_on_a_table_in_memory() -> None:
    compete_in_threads(StoreLocation.of("memory://competing"), writers=3, rounds=3)
    MemoryStore.forget("competing")


def test_threads_on_a_local_folder(tmp_path: Path) -> None:
    compete_in_threads(StoreLocation.of(str(tmp_path / "table")), writers=3, rounds=3)


@pytest.mark.minio
def test_threads_on_minio(s3_location: StoreLocation) -> None:
    compete_in_threads(s3_location, writers=2, rounds=3)


def test_processes_on_a_local_folder(tmp_path: Path) -> None:
    location = StoreLocation.of(str(tmp_path / "table"))
    SmallTable.create(location).write("insert", batch(range(8), 1))
    processes = [
        writer_process.start(write_until_done, location, batches_of(number, 2))
        for number in range(3)
    ]
    assert [writer_process.join(process) for process in processes] == [0, 0, 0]
    check(location, 3, 2)


def test_a_process_that_is_killed_among_competing_ones_loses_only_its_own_write(
    tmp_path: Path,
) -> None:
    location = StoreLocation.of(str(tmp_path / "table"))
    SmallTable.create(location).write("insert", batch(range(8), 1))
    ready = tmp_path / "ready"
    task = writer_process.WriterTask(location, "upsert", batch([700, 701], 7), FaultPlan())
    victim = writer_process.start(writer_process.hold_a_write_open, task, str(ready))
    others = [
        writer_process.start(write_until_done, location, batches_of(number, 2))
        for number in range(2)
    ]
    while not ready.exists():
        victim.join(0.01)
    writer_process.kill(victim)
    assert [writer_process.join(process) for process in others] == [0, 0]
    SmallTable(location).lake().recover()
    check(location, 2, 2)
