"""The worker process: operations, answers, deaths, and what it does when no process reads its
output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.ingest.operation.operation import Operation, RollBack
from tideline.ingest.operation.result import Outcome
from tideline.own_process import ALLOCATION
from tideline_operator.decide.planned_operation import create_operation, rollback_operation
from tideline_operator.launch.launcher import Died, Finished, LauncherEvent, Progressed
from tideline_operator.launch.local_process import WORKER_MODULE, LocalProcessLauncher
from tideline_operator.local.run_lock import RunLock
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.testing.table_states import resolved

SCHEMA = [{"name": name, "type": "string"} for name in ("id", "city", "ts")]
WAIT_S = 120.0


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[LocalProcessLauncher]:
    made = LocalProcessLauncher(tmp_path / "worker.log", ())
    yield made
    made.close()


def local_table(folder: Path) -> ResolvedTable:
    table = resolved(schema=SCHEMA)
    return replace(table, location=replace(table.location, uri=f"file://{folder}/table"))


def ended(launcher: LocalProcessLauncher) -> LauncherEvent:
    while True:
        event = launcher.next_event(WAIT_S)
        assert event is not None, "the worker says nothing"
        if not isinstance(event, Progressed):
            return event


def worker_pid(launcher: LocalProcessLauncher) -> int:
    assert launcher._process is not None
    return launcher._process.pid


def test_operations_run_one_after_the_other_in_one_process(
    launcher: LocalProcessLauncher, tmp_path: Path
) -> None:
    table = local_table(tmp_path)
    create = create_operation(table)
    launcher.start(create)
    assert launcher.running == {create.id}
    first = ended(launcher)
    assert isinstance(first, Finished)
    assert (first.result.id, first.result.outcome) == (create.id, Outcome.SUCCEEDED)
    assert launcher.running == frozenset()
    assert (tmp_path / "table/.hoodie/hoodie.properties").exists()
    pid = worker_pid(launcher)
    launcher.start(rollback_operation(table, ("20260101000000000",)))
    second = ended(launcher)
    assert isinstance(second, Finished)
    assert second.result.outcome is Outcome.NOTHING
    assert worker_pid(launcher) == pid


def test_the_worker_keeps_memory_unless_the_environment_says_otherwise(
    launcher: LocalProcessLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "8")
    launcher.start(create_operation(local_table(tmp_path)))
    ended(launcher)
    given = Path(f"/proc/{worker_pid(launcher)}/environ").read_bytes().decode().split("\0")
    found = dict(item.split("=", 1) for item in given if item)
    assert ({**ALLOCATION, "MALLOC_ARENA_MAX": "8"}).items() <= found.items()


def test_a_failure_is_an_answer_and_the_worker_lives_on(
    launcher: LocalProcessLauncher, tmp_path: Path
) -> None:
    table = local_table(tmp_path)
    (tmp_path / "table/.hoodie").mkdir(parents=True)
    (tmp_path / "table/.hoodie/hoodie.properties").write_text(
        "hoodie.table.name=x\nhoodie.table.type=COPY_ON_WRITE\nhoodie.table.version=8\n"
    )
    launcher.start(rollback_operation(table, ("20260101000000000",)))
    event = ended(launcher)
    assert isinstance(event, Finished)
    assert (event.result.outcome, event.result.exit_code) == (Outcome.FAILED, 1)
    assert "8" in event.result.message


def test_a_killed_worker_is_reported_and_replaced(
    launcher: LocalProcessLauncher, tmp_path: Path
) -> None:
    table = local_table(tmp_path)
    launcher.start(create_operation(table))
    os.kill(worker_pid(launcher), signal.SIGSTOP)
    os.kill(worker_pid(launcher), signal.SIGKILL)
    event = ended(launcher)
    assert isinstance(event, Died)
    assert "was killed by SIGKILL" in event.message
    assert launcher.running == frozenset()
    launcher.start(create_operation(table))
    again = ended(launcher)
    assert isinstance(again, Finished)
    assert again.result.exit_code == 0


@pytest.mark.slow
def test_an_idle_worker_that_died_is_replaced_silently(
    launcher: LocalProcessLauncher, tmp_path: Path
) -> None:
    table = local_table(tmp_path)
    launcher.start(create_operation(table))
    ended(launcher)
    os.kill(worker_pid(launcher), signal.SIGKILL)
    launcher.start(rollback_operation(table, ("20260101000000000",)))
    event = ended(launcher)
    if isinstance(event, Died):
        # The new command may reach the old process's pipe before its end is noticed.
        launcher.start(rollback_operation(table, ("20260101000000000",)))
        event = ended(launcher)
    assert isinstance(event, Finished)


def test_a_worker_ends_when_its_input_ends() -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", WORKER_MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    assert json.loads(worker.stdout.readline()) == {"ready": True}
    assert worker.stdin is not None
    worker.stdin.close()
    assert worker.wait(WAIT_S) == 0
    worker.stdout.close()


def test_an_invalid_operation_does_not_kill_the_worker(
    launcher: LocalProcessLauncher, tmp_path: Path
) -> None:
    table = local_table(tmp_path)
    odd = Operation("odd", replace(create_operation(table).table, table_type="ROUND"), RollBack(()))
    launcher.start(replace(odd, work=create_operation(table).work))
    event = ended(launcher)
    assert isinstance(event, Finished)
    assert event.result.outcome is Outcome.FAILED


@pytest.mark.slow
def test_the_lock_of_a_run_lasts_as_long_as_its_worker(tmp_path: Path) -> None:
    table = local_table(tmp_path)
    with RunLock(tmp_path) as lock:
        lock.hold([table])
        launcher = LocalProcessLauncher(tmp_path / "worker.log", (), inherited=lock.files)
        launcher.start(create_operation(table))
        ended(launcher)
    holder = RunLock(tmp_path)
    with pytest.raises(Exception, match="another `tideline run`"):
        holder.hold([table])
    launcher.close()
    started = time.monotonic()
    holder.hold([table])
    assert time.monotonic() - started < 5
    holder.__exit__(None, None, None)
