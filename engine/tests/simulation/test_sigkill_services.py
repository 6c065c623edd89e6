"""Services as real processes, killed before every write on a local folder.

The next process, a writer or the same service, finds the same rows, and leaves nothing behind.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tideline.clock import SystemClock
from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.log_compaction.service import LOG_COMPACTION
from tideline.hudi.services.service import TableService
from tideline.hudi.table.table_config import METADATA_TABLE_PATH, TableType
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant
from tideline.storage.location import StoreLocation
from tideline.testing import writer_process
from tideline.testing.faulty_store import FaultPlan, RecordedWrite
from tideline.testing.patience import PATIENCE_S
from tideline.testing.service_process import (
    ServiceTask,
    hold_a_service_open,
    local_services,
    run_service,
)
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh, unexplained_objects

DUE = {
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.log.compaction.blocks.threshold": "1",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.sort.columns": "v",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clustering.updates.strategy": (
        "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
    ),
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true",
}
MOVE_ROWS = (COMPACTION, LOG_COMPACTION, CLUSTERING)
SERVICES = (*MOVE_ROWS, CLEANING, ARCHIVAL)
NEXT = batch([0, 50], 9)
STATES = (".requested", ".inflight")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Base files with and without logs, old slices to clean, commits to archive."""
    folder = tmp_path_factory.mktemp("prepared") / "table"
    table = SmallTable.create(StoreLocation.of(folder), table_type=TableType.MERGE_ON_READ)
    table.write("insert", batch(range(8), 1))
    table.write("upsert", batch([0, 1], 2))
    local_services(table, DUE).run(COMPACTION)
    table.write("upsert", batch([0, 1, 20], 3))
    table.write("delete", batch([3], 0))
    return folder


def copied(prepared: Path, folder: Path) -> SmallTable:
    shutil.copytree(prepared, folder)
    return SmallTable(StoreLocation.of(folder))


def killed(table: SmallTable, service: TableService, plan: FaultPlan) -> None:
    task = ServiceTask(table.location, service, DUE, plan)
    process = writer_process.start(run_service, task)
    assert writer_process.join(process) == -signal.SIGKILL


def run(table: SmallTable, service: TableService) -> None:
    local_services(table, DUE).run(service)


def runs_of(table: SmallTable, service: TableService) -> list[CommitMetadata]:
    """What the completed runs of a service that moves rows did."""
    hoodie = open_fresh(table.location)
    commits = map(hoodie.commits.read, hoodie.timeline().of(*COMMIT_ACTIONS).completed())
    name = str(service)
    return [
        commit for commit in commits if commit.extra_metadata.get("tideline.service.name") == name
    ]


def check_sound(table: SmallTable, service: TableService, when: str) -> None:
    """As it is after `check --repair`: nothing wrong, nothing pending, nothing unaccounted for."""
    lake = table.lake()
    lake.recover()
    lake.repair()
    assert lake.check(keys=True) == (), when
    fresh = open_fresh(table.location)
    assert not len(fresh.timeline().pending()), when
    if service is not LOG_COMPACTION:
        assert unexplained_objects(fresh) == [], when
    assert not list(folder_of(table).rglob(".tmp-*")), when


def folder_of(table: SmallTable) -> Path:
    return Path(table.location.uri.removeprefix("file://"))


@pytest.mark.slow_with(
    "v9-clustering-writer",
    "v9-archival-writer",
    "v9-cleaning-writer",
    "v9-log_compaction-writer",
    "v9-compaction-writer",
)
@pytest.mark.parametrize("comes_next", ["writer", pytest.param("service", marks=pytest.mark.slow)])
@pytest.mark.parametrize("service", SERVICES, ids=str)
def test_killed_before_any_write(
    service: TableService, comes_next: str, prepared: Path, tmp_path: Path
) -> None:
    rehearsal = copied(prepared, tmp_path / "rehearsal")
    before = rehearsal.values()
    writes = run_service(ServiceTask(rehearsal.location, service, DUE)).writes
    check_covers(service, writes)
    after = sorted({**dict(before), "k000": 9, "k050": 9}.items())
    for number, write in enumerate(writes, start=1):
        when = f"{service} killed before {write}"
        table = copied(prepared, tmp_path / str(number))
        done_before = len(runs_of(table, service))
        killed(table, service, FaultPlan(crash_before_write=number, kill_process=True))
        assert table.values() == before, when
        if comes_next == "writer":
            table.write("upsert", NEXT, options=DUE)
            assert table.values() == after, when
        run(table, service)
        if comes_next == "service":
            assert table.values() == before, when
            table.write("upsert", NEXT, options=DUE)
        assert table.values() == after, when
        if service in MOVE_ROWS:
            check_applied_once(table, service, done_before, when)
        check_sound(table, service, when)
        assert table.values() == after, when


def check_covers(service: TableService, writes: tuple[RecordedWrite, ...]) -> None:
    """Protocol points are among the writes: states of the instant, data files, what is deleted."""
    paths = [write.path for write in writes]
    methods = {write.method for write in writes}
    assert any(method.startswith("delete") for method in methods)
    if service is ARCHIVAL:
        assert any(".commits_.archive." in path or "/history/" in path for path in paths)
        return
    for state in STATES:
        assert any(path.endswith(state) for path in paths), state
    if service in MOVE_ROWS:
        assert any(".marker." in path for path in paths)
        assert "close_writer" in methods or any(".log." in path for path in paths)


def check_applied_once(table: SmallTable, service: TableService, before: int, when: str) -> None:
    """Every file group has one new version by each run, and no two runs had the same work."""
    runs = runs_of(table, service)[before:]
    assert runs, when
    written = [
        (stat.path, stat.prev_commit)
        for commit_metadata in runs
        for stat in commit_metadata.write_stats
    ]
    assert len(written) == len(set(written)), when
    replaced = [
        (partition, file_id)
        for commit_metadata in runs
        for partition, ids in (commit_metadata.partition_to_replace_file_ids or {}).items()
        for file_id in ids
    ]
    assert len(replaced) == len(set(replaced)), when


@pytest.mark.parametrize("service", MOVE_ROWS, ids=str)
def test_killed_right_after_it_completed(
    service: TableService, prepared: Path, tmp_path: Path
) -> None:
    """Its work counts: no process repeats or undoes it."""
    rehearsal = copied(prepared, tmp_path / "rehearsal")
    before = rehearsal.values()
    writes = run_service(ServiceTask(rehearsal.location, service, DUE)).writes
    endings = (".commit", ".deltacommit", ".replacecommit")
    completing = next(
        n
        for n, write in enumerate(writes, 1)
        if write.path.endswith(endings) and METADATA_TABLE_PATH not in write.path
    )
    table = copied(prepared, tmp_path / "table")
    killed(table, service, FaultPlan(crash_after_write=completing, kill_process=True))
    done = runs_of(table, service)
    assert table.values() == before
    report = table.write("upsert", NEXT, options=DUE)
    assert report.rolled_back == ()
    assert runs_of(table, service) == done
    assert table.values() == sorted({**dict(before), "k000": 9, "k050": 9}.items())
    check_sound(table, service, "killed after it completed")


@pytest.mark.parametrize(
    "moment", [1, *(pytest.param(moment, marks=pytest.mark.slow) for moment in (0, 2, 3))]
)
@pytest.mark.parametrize("service", MOVE_ROWS, ids=str)
def test_killed_at_any_moment(
    service: TableService, moment: int, prepared: Path, tmp_path: Path
) -> None:
    """Not only between two calls on the store: also in the middle of one."""
    table = copied(prepared, tmp_path / "table")
    before = table.values()
    process = writer_process.start(run_service, ServiceTask(table.location, service, DUE))
    time.sleep(0.02 + 0.03 * moment)
    writer_process.kill(process)
    assert table.values() == before
    run(table, service)
    table.write("upsert", NEXT, options=DUE)
    assert table.values() == sorted({**dict(before), "k000": 9, "k050": 9}.items())
    check_sound(table, service, f"killed at moment {moment}")


def held_open(table: SmallTable, service: TableService, ready: Path) -> BaseProcess:
    """A process that has written all files of its run and waits while the file `ready` exists."""
    task = ServiceTask(table.location, service, DUE)
    process = writer_process.start(hold_a_service_open, task, str(ready))
    deadline_s = time.monotonic() + PATIENCE_S
    while not ready.exists():
        assert process.exitcode is None
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    return process


def pending(table: SmallTable) -> list[Instant]:
    return list(open_fresh(table.location).timeline().pending())


@pytest.mark.parametrize("service", MOVE_ROWS, ids=str)
def test_a_live_service_is_left_alone(
    service: TableService, prepared: Path, tmp_path: Path
) -> None:
    table = copied(prepared, tmp_path / "table")
    before = table.values()
    process = held_open(table, service, tmp_path / "ready")
    (planned,) = pending(table)
    second = local_services(table, DUE).run(service)
    assert second.left_alone == (planned.time,)
    assert table.lake().recover() == ()
    assert not table.lake().check(keys=True)
    assert table.write("insert", batch([31], 4)).rolled_back == ()
    assert pending(table) == [planned]
    (tmp_path / "ready").unlink()
    assert writer_process.join(process) == 0
    assert pending(table) == []
    assert table.values() == sorted([*before, ("k031", 4)])
    check_sound(table, service, "held open")


@pytest.mark.parametrize("service", (COMPACTION, CLUSTERING), ids=str)
def test_a_stopped_service_is_left_alone_however_old_its_heartbeat(
    service: TableService, prepared: Path, tmp_path: Path
) -> None:
    """The kernel says that it holds its lock; when it continues it finishes what it was at."""
    table = copied(prepared, tmp_path / "table")
    before = table.values()
    process = held_open(table, service, tmp_path / "ready")
    (stopped,) = pending(table)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        heartbeat = folder_of(table) / ".hoodie/.heartbeat" / str(stopped.time)
        old_s = SystemClock().now_ms() / 1000 - 3600
        os.utime(heartbeat, (old_s, old_s))
        assert local_services(table, DUE).run_pending(service).left_alone == (stopped.time,)
        assert pending(table) == [stopped]
    finally:
        (tmp_path / "ready").unlink()
        os.kill(process.pid, signal.SIGCONT)
    assert writer_process.join(process) == 0
    assert table.values() == before
    table.write("upsert", NEXT, options=DUE)
    assert table.values() == sorted({**dict(before), "k000": 9, "k050": 9}.items())
    check_sound(table, service, "stopped")
