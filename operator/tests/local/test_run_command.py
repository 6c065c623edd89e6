"""`tideline run` as people meet it: a process, its lines, its exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.storage.location import StoreLocation
from tideline_operator.local.run_lock import RunLock
from tideline_operator.resources.loading import load_resources

WAIT_S = 240.0

YAML = """
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {name: people}
spec:
  location: table
  recordKey: [id]
  ordering: [ts]
  ingest:
  - name: landing
    source: {format: csv, path: landing}
    operation: insert
    maxFilesPerCommit: 1
    trigger: {every: 1h}
"""


class Workspace:
    """A folder with a resource, a landing folder and a table to come."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.declare(YAML)
        (folder / "landing").mkdir()

    def declare(self, text: str) -> None:
        (self.folder / "table.yaml").write_text(textwrap.dedent(text))

    def land(self, count: int) -> None:
        for number in range(count):
            path = self.folder / f"landing/{number}.csv"
            path.write_text(f"id,ts,v\n{number},1,v{number}\n")
            os.utime(path, (number + 1, number + 1))

    def start(self, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tideline", "run", "-f", "table.yaml", *options],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *options: str) -> tuple[int, str, str]:
        process = self.start("--once", *options)
        out, err = process.communicate(timeout=WAIT_S)
        return process.returncode, out, err

    def table(self) -> HoodieTable:
        return HoodieTable.open(StoreLocation.of(str(self.folder / "table")))

    def ids(self) -> list[int]:
        """The ids a reader sees, read without Spark."""
        table = self.table()
        view = table.file_system_view(table.timeline())
        found: list[int] = []
        for partition in view.partitions:
            for base_file in view.latest_base_files(partition):
                path = self.folder / "table" / base_file.path
                keys = pq.read_table(path, columns=["id"]).column("id").to_pylist()
                found += [int(key) for key in keys]  # text, since nobody declares them
        return sorted(found)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def events(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def wait_for(
    process: subprocess.Popen[str], wanted: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    for event in events(process):
        if wanted(event):
            return event
    pytest.fail(f"the process ended: {process.communicate()[1]}")


def end(process: subprocess.Popen[str]) -> int:
    process.communicate(timeout=WAIT_S)
    return process.returncode


def test_a_wrong_file_is_a_usage_error_that_names_every_problem(workspace: Workspace) -> None:
    workspace.declare(YAML.replace("recordKey", "recordKye").replace("1h", "hourly"))
    code, out, err = workspace.run()
    assert (code, out) == (2, "")
    assert "table.yaml, document 1, line 7: spec.recordKye: no such field, did you mean" in err
    assert "spec.ingest[0].trigger.every: 'hourly'; allowed: a whole number" in err
    assert not (workspace.folder / ".tideline").exists()


def test_with_nothing_landed_it_says_what_comes_next_and_ends(workspace: Workspace) -> None:
    code, out, err = workspace.run()
    assert (code, err) == (0, "")
    assert out == "default/people  next: landing: look for new files in 60 min\n"
    assert not (workspace.folder / "table").exists()


def test_a_landing_folder_that_does_not_exist_is_reported(workspace: Workspace) -> None:
    (workspace.folder / "landing").rmdir()
    assert "which does not exist yet" in workspace.run()[1]


def test_files_with_a_foreign_name_are_reported_once(workspace: Workspace) -> None:
    (workspace.folder / "landing/notes.txt").write_text("hello")
    code, _, err = workspace.run()
    assert code == 0
    assert err.count("left alone 1 file whose name does not end in .csv") == 1


def test_a_suspended_table_is_left_alone(workspace: Workspace) -> None:
    workspace.declare(YAML + "  suspend: true\n")
    code, out, _ = workspace.run()
    assert (code, out.startswith("default/people  stopped: paused")) == (0, True)


def test_a_second_run_on_the_same_state_is_a_conflict(workspace: Workspace) -> None:
    resources = load_resources([workspace.folder / "table.yaml"])
    with RunLock(workspace.folder / ".tideline") as lock:
        lock.hold(resources.tables)
        code, _, err = workspace.run()
    assert code == 3
    assert "another `tideline run` has LakeTable default/people: stop it first" in err


def test_a_signal_ends_a_run_that_rests_at_once(workspace: Workspace) -> None:
    process = workspace.start("--json")
    wait_for(process, lambda event: event["event"] == "resting")
    process.send_signal(signal.SIGTERM)
    started = time.monotonic()
    assert end(process) == 0
    assert time.monotonic() - started < 10


def test_a_changed_file_is_taken_up_and_a_broken_one_is_not(workspace: Workspace) -> None:
    process = workspace.start("--json")
    wait_for(process, lambda event: event["event"] == "resting")
    workspace.declare(YAML + "  bogus: 1\n")
    note = wait_for(process, lambda event: event["event"] == "note")
    assert "spec.bogus: no such field" in note["text"]
    workspace.declare(YAML + "  suspend: true\n")
    wait_for(process, lambda event: "the resource files changed" in event.get("text", ""))
    resting = wait_for(process, lambda event: event["event"] == "resting")
    assert resting["next"][0]["blocked"] == "Paused"
    process.send_signal(signal.SIGINT)
    assert end(process) == 0


@pytest.mark.spark
def test_landed_files_become_commits_and_the_next_run_finds_nothing(workspace: Workspace) -> None:
    workspace.land(3)
    code, out, err = workspace.run()
    assert (code, err) == (0, "")
    inferred = [line for line in out.splitlines() if "new columns:" in line]
    assert len(inferred) == 1
    lines = [line for line in out.splitlines() if line not in inferred]
    assert [line.split()[1:3] for line in lines[:3]] == [["ingest", "landing"]] * 3
    assert "1 file (" in lines[0]
    assert "1 row inserted, 0 updated, 0 deleted, 1 data file (" in lines[0]
    assert lines[3] == "default/people  next: landing: look for new files in 60 min"
    assert "not due: cleaning: 3 commits completed, the newest 10 are kept" in lines[4]
    assert "not due: archiving: 3 completed commits" in lines[5]
    assert workspace.ids() == [0, 1, 2]
    for state in (workspace.folder / ".tideline").iterdir():
        state.unlink()
    code, out, _ = workspace.run("--json")
    assert [json.loads(line)["event"] for line in out.splitlines()] == ["resting"]
    assert workspace.ids() == [0, 1, 2]


@pytest.mark.spark
@pytest.mark.slow
def test_a_table_that_differs_from_the_spec_is_a_usage_error(workspace: Workspace) -> None:
    workspace.land(1)
    workspace.run()
    workspace.declare(YAML.replace("[id]", "[v]"))
    code, out, _ = workspace.run()
    assert (code, "spec.recordKey is ['v'], but the table" in out) == (2, True)
    assert workspace.ids() == [0]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("delay_s", [0.0, 1.0])
def test_a_run_killed_at_any_moment_neither_loses_nor_repeats_a_file(
    workspace: Workspace, delay_s: float
) -> None:
    workspace.land(3)
    process = workspace.start("--json")
    wait_for(process, lambda event: event["event"] == "finished")
    wait_for(process, lambda event: event["event"] == "started")
    time.sleep(delay_s)
    process.kill()
    end(process)
    code, _, err = workspace.run()
    assert code == 0, err
    assert workspace.ids() == [0, 1, 2]


@pytest.mark.spark
@pytest.mark.slow
def test_the_first_signal_lets_the_operation_finish_the_second_undoes_it(
    workspace: Workspace,
) -> None:
    workspace.land(3)
    process = workspace.start("--json")
    wait_for(process, lambda event: event["event"] == "finished")
    wait_for(process, lambda event: event["event"] == "started")
    process.send_signal(signal.SIGTERM)
    wait_for(process, lambda event: event["event"] == "finished")
    assert end(process) == 0
    assert workspace.ids() == [0, 1]
    process = workspace.start("--json")
    wait_for(process, lambda event: event["event"] == "started")
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert end(process) == 128 + signal.SIGINT
    assert workspace.ids() == [0, 1]
    assert len(workspace.table().timeline().pending()) == 0


@pytest.mark.spark
@pytest.mark.slow
def test_a_bad_file_is_set_aside_and_reported(workspace: Workspace) -> None:
    workspace.land(1)
    (workspace.folder / "landing/bad.csv").write_text("id,ts,v\n9\n")
    code, out, err = workspace.run()
    assert code == 0
    reason = "row 1 (line 2): it has 1 value where there are 3 columns"
    assert f"set aside bad.csv: {reason}" in err
    assert "1 row inserted" in out
    assert len(list((workspace.folder / "landing/_quarantine").iterdir())) == 1
    _, _, err = workspace.run()
    assert "landing: 1 file set aside in _quarantine/" in err


def test_a_missing_iceberg_table_is_reported(workspace: Workspace) -> None:
    workspace.declare("""
        apiVersion: tideline.dev/v1alpha1
        kind: LakeTable
        metadata: {name: orders}
        spec: {format: Iceberg, location: orders}
    """)
    code, out, err = workspace.run()
    assert code == 1
    assert f"there is no Iceberg table at file://{workspace.folder}/orders yet" in out + err
    assert "look for the table again in 30 s" in out
    status = json.loads((workspace.folder / ".tideline/default.orders.status.json").read_text())
    ready = next(one for one in status["status"]["conditions"] if one["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "TableMissing")
    assert not (workspace.folder / ".tideline/worker.log").exists()


def test_a_dry_run_says_what_would_start_and_changes_nothing(workspace: Workspace) -> None:
    workspace.land(2)
    before = sorted(path for path in workspace.folder.rglob("*"))
    for options in ((), ("--json",)):
        process = workspace.start("--dry-run", *options)
        out, err = process.communicate(timeout=WAIT_S)
        assert (process.returncode, err) == (0, "")
        if options:
            (event,) = [json.loads(line) for line in out.splitlines()]
            assert (event["event"], event["table"]) == ("planned", "default/people")
            assert [one["kind"] for one in event["would_start"]] == ["ingest"]
        else:
            assert "default/people  would start: ingest landing: 1 of 2 new files" in out
    assert sorted(path for path in workspace.folder.rglob("*")) == before
