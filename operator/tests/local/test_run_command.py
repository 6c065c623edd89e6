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

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline_operator.local.reconciler import SET_ASIDE
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
        return open_table(StoreLocation.of(str(self.folder / "table")))

    def ids(self) -> list[int]:
        """The ids a reader sees, read without Spark."""
        table = self.table()
        view = table.files.view(table.timeline())
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
    assert "look for new files (not there yet: the landing prefix)" in workspace.run()[1]


def test_files_with_a_foreign_name_are_reported_once(workspace: Workspace) -> None:
    (workspace.folder / "landing/notes.txt").write_text("hello")
    code, _, err = workspace.run()
    assert code == 0
    assert err.count("left alone 1 file whose name does not end in .csv") == 1


def test_a_suspended_table_is_left_alone(workspace: Workspace) -> None:
    workspace.declare(YAML + "  suspend: true\n")
    code, out, _ = workspace.run()
    assert (code, out.startswith("default/people  stopped: paused")) == (0, True)


@pytest.mark.slow
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


@pytest.mark.slow
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
    assert code == SET_ASIDE
    reason = "row 1 (line 2): it has 1 value where there are 3 columns"
    assert f"set aside bad.csv: {reason}" in err
    assert "1 row inserted" in out
    assert len(list((workspace.folder / "landing/_quarantine").iterdir())) == 1
    code, _, err = workspace.run()
    assert code == SET_ASIDE
    assert "landing: 1 file set aside in _quarantine/" in err
    for note in (workspace.folder / "landing/_quarantine").iterdir():
        note.unlink()
    (workspace.folder / "landing/bad.csv").unlink()
    assert workspace.run()[0] == 0


def test_rows_that_wait_in_a_quarantine_are_not_done(workspace: Workspace) -> None:
    rows = workspace.folder / "landing/_quarantine/1.csv.0123456789abcdef.2.rows.jsonl"
    rows.parent.mkdir()
    rows.write_text("{}\n{}\n")
    code, _, err = workspace.run()
    assert code == SET_ASIDE
    assert "landing: 2 rows of 1 file set aside in _quarantine/" in err
    rows.unlink()
    assert workspace.run()[0] == 0


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_that_sets_rows_aside_is_not_done(workspace: Workspace) -> None:
    workspace.declare(YAML.replace("operation: insert", "onBadRow: Quarantine"))
    (workspace.folder / "landing/1.csv").write_text("id,ts,v\n1,1,a\n,2,b\n")
    assert workspace.run("--dry-run")[0] == SET_ASIDE
    code, out, err = workspace.run()
    assert code == SET_ASIDE, err
    assert "1 row inserted" in out
    assert workspace.ids() == [1]


def test_a_hudi_table_where_an_iceberg_table_is_declared_is_not_waited_for(
    workspace: Workspace,
) -> None:
    LakeTable.create(str(workspace.folder / "orders"), record_key="id")
    workspace.declare("""
        apiVersion: tideline.dev/v1alpha1
        kind: LakeTable
        metadata: {name: orders}
        spec: {format: Iceberg, location: orders}
    """)
    code, out, err = workspace.run()
    assert code != 0
    assert "is that of a Hudi table; leave spec.format out" in out + err
    assert "look for the table again" not in out


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
    ready = next(
        condition for condition in status["status"]["conditions"] if condition["type"] == "Ready"
    )
    assert (ready["status"], ready["reason"]) == ("False", "TableMissing")
    assert not (workspace.folder / ".tideline/worker.log").exists()


def test_a_read_option_that_spark_passes_over_is_refused(workspace: Workspace) -> None:
    workspace.land(1)
    workspace.declare(YAML.replace("landing}", 'landing, options: {seperator: ";"}}'))
    code, _, err = workspace.run()
    assert code == 2
    assert "options.seperator: seperator is no read option of csv, did you mean sep?" in err
    assert not (workspace.folder / "table").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "transform", "said"),
    [
        ("", "SELEC id FROM source", "Syntax error at or near 'SELEC'"),
        ("", "SELECT id, FROM source WHERE", "Syntax error at or near"),
        (", schema: [{name: Order Id, type: long}]", "SELECT `Order ID2` AS id FROM source",
         "A column, variable, or function parameter with name `Order ID2` "
         "cannot be resolved. Did you mean one of the following? [`Order Id`"),
    ],
)  # fmt: skip
def test_sql_is_checked_before_anything_is_written(
    workspace: Workspace, source: str, transform: str, said: str
) -> None:
    workspace.land(1)
    schema = "  schema: [{name: id, type: long}, {name: ts, type: long}]\n  ingest:"
    workspace.declare(
        YAML.replace("  ingest:", schema)
        .replace("landing}", f"landing{source}}}")
        .replace("operation: insert", f"transform: {transform}")
    )
    code, _, err = workspace.run()
    assert code == 2
    assert f"create failed (exit code 2): ingest 'landing': the transform fails: {said}" in err
    assert not (workspace.folder / "table").exists()


def preview(workspace: Workspace, *options: str) -> tuple[int, str, str]:
    """A dry run, which leaves everything as it is."""
    before = {path: path.stat() for path in workspace.folder.rglob("*")}
    process = workspace.start("--dry-run", *options)
    out, err = process.communicate(timeout=WAIT_S)
    after = {path: path.stat() for path in workspace.folder.rglob("*")}
    assert before.keys() == after.keys()
    assert all(before[path].st_mtime_ns == after[path].st_mtime_ns for path in before)
    return process.returncode, out, err


def test_a_dry_run_reads_the_first_files_and_changes_nothing(workspace: Workspace) -> None:
    workspace.declare(YAML.replace("csv", "parquet"))
    rows = {"id": [1, 1, 2], "ts": [1, 2, 3], "v": ["x", None, "y"]}
    for number in range(2):
        path = workspace.folder / f"landing/{number}.parquet"
        pq.write_table(pa.table(rows), path)
        os.utime(path, (number + 1, number + 1))
    code, out, err = preview(workspace)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "default/people  would start: ingest landing: 1 of 2 new files"
    assert out.splitlines()[1].startswith("default/people  landing: 2 files read (")
    assert out.splitlines()[1].endswith("): 6 rows")
    assert out.splitlines()[2:] == [
        "default/people    columns: id long, ts long, v string",
        "default/people    id: 2 record keys, 4 of the rows repeat one",
    ]
    code, out, _ = preview(workspace, "--json")
    (event,) = [json.loads(line) for line in out.splitlines()]
    assert (code, event["event"], event["table"]) == (0, "planned", "default/people")
    assert [item["kind"] for item in event["would_start"]] == ["ingest"]
    (found,) = event["would_ingest"]
    assert (found["rows_written"], found["record_keys"], found["files_waiting"]) == (6, 2, 2)
    assert found["columns"] == [["id", "long"], ["ts", "long"], ["v", "string"]]


@pytest.mark.slow
def test_a_dry_run_says_what_would_be_set_aside(workspace: Workspace) -> None:
    schema = "  schema: [{name: id, type: long}, {name: ts, type: long}]\n  ingest:"
    workspace.declare(
        YAML.replace("  ingest:", schema).replace("operation: insert", "onBadRow: Quarantine")
    )
    landing = workspace.folder / "landing"
    (landing / "1.csv").write_text("id,ts\n1,2\n2,x\n,3\n")
    (landing / "2.csv").write_text("id;ts\n1;2\n")
    code, out, _ = preview(workspace)
    assert "would start: create: there is no table at the location yet" in out
    assert ": 1 row\n" in out
    assert "columns: id long, ts long\n" in out
    assert "would set aside 2 rows of 1.csv: row 2 (line 3), column ts: 'x' is not of type" in out
    assert "would set aside 2.csv: line 1 names one column, 'id;ts'" in out
    assert code == SET_ASIDE

    workspace.declare(YAML.replace("operation: insert", "transform: SELECT idd FROM source"))
    code, out, _ = preview(workspace)
    assert code == 2
    assert "landing: 2 files cannot be taken in: ingest 'landing': the transform fails" in out
    assert "idd" in out
