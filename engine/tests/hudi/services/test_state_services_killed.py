"""Real processes that clean, savepoint and restore, killed before every write on a local folder.

The kernel knows at once that they are dead, so no process has to wait for a heartbeat.
"""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.location import StoreLocation
from tideline.testing import writer_process
from tideline.testing.faulty_store import FaultPlan
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.state_service_process import (
    SERVICES,
    StateServiceTask,
    run_state_service,
)
from tideline.testing.table_audit import open_fresh, unexplained_objects


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared") / "table"
    table = SmallTable.create(StoreLocation.of(folder), table_type=TableType.COPY_ON_WRITE)
    table.write("insert", batch(range(4), 1))
    for v in (2, 3, 4):
        table.write("upsert", batch([0, 1], v))
    return folder


def copied(prepared: Path, folder: Path, service: str) -> tuple[SmallTable, InstantTime]:
    """A copy with its modification times, and the instant to savepoint."""
    shutil.copytree(prepared, folder)
    table = SmallTable(StoreLocation.of(folder))
    time = open_fresh(table.location).timeline().of(Action.COMMIT).instants[1].time
    if service in ("delete savepoint", "restore"):
        run_state_service(StateServiceTask(table.location, "create savepoint", time))
    return table, time


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_killed_before_any_write_is_finished_by_the_next(
    service: str, prepared: Path, tmp_path: Path
) -> None:
    expected, time = copied(prepared, tmp_path / "expected", service)
    writes = run_state_service(StateServiceTask(expected.location, service, time)).writes
    for number in range(1, len(writes) + 1):
        table, _ = copied(prepared, tmp_path / str(number), service)
        plan = FaultPlan(crash_before_write=number, kill_process=True)
        task = StateServiceTask(table.location, service, time, plan)
        killed = writer_process.start(run_state_service, task)
        assert writer_process.join(killed) == -signal.SIGKILL
        opened = open_fresh(table.location)
        gone = service == "delete savepoint" and not len(opened.timeline().of(Action.SAVEPOINT))
        if not gone:
            run_state_service(StateServiceTask(table.location, service, time))
        assert table.values() == expected.values()
        # What a process died in next to the timeline goes with the next change and the next write.
        opened.properties.update({})
        table.lake().recover()
        assert unexplained_objects(opened) == [], writes[number - 1]
        assert len(opened.timeline().pending()) == 0
