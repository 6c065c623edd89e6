"""A warm worker with assignments of a test: what it takes, what it leaves alone, when it ends."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.iceberg_lake_table import open_iceberg
from tideline.ingest.column_type import Column, ColumnType
from tideline.ingest.location import Location
from tideline.ingest.operation.assignment import (
    HAND_OVER_REFUSED,
    NO_STAY,
    Assignment,
    Stay,
    WorkerReport,
)
from tideline.ingest.operation.operation import (
    HUDI,
    ICEBERG,
    CreateTable,
    IngestRange,
    Operation,
    RollBack,
    TableTarget,
    Work,
)
from tideline.ingest.operation.result import STOPPED, OperationResult, Outcome
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.look import list_arrived
from tideline.ingest.workers import warm_worker
from tideline.ingest.workers.assignments import ApiSilentError
from tideline.ingest.workers.warm_worker import WarmWorker, WorkerEnd, WorkerLimits
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.fake_clock import FakeClock
from tideline.testing.file_ingests import ingest_of_files

POD = "pod-uid"
COLUMNS = (Column("id", ColumnType.parse("string")), Column("n", ColumnType.parse("long")))


class NoSpark:
    """A Spark that nothing may need."""

    def __init__(self) -> None:
        self.resets = 0
        self.died = False

    def open(self, _: Iterable[StoreLocation]) -> Any:
        raise AssertionError("these operations need no Spark")

    def reset(self) -> None:
        self.resets += 1

    def has_died(self) -> bool:
        return self.died


@dataclass
class Lake:
    """Tables in a folder, their statuses, and the queue of assignments for one worker."""

    folder: Path
    clock: FakeClock = field(default_factory=FakeClock)
    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)
    queue: list[Assignment] = field(default_factory=list)
    shown: list[tuple[WorkerReport | None, str]] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    acknowledges: bool = True
    silent: int = 0
    spark: NoSpark = field(default_factory=NoSpark)
    is_stopping: bool = False

    def next(self, timeout_s: float) -> Assignment | None:
        if self.queue:
            return self.queue.pop(0)
        self.clock.advance(timeout_s)
        return None

    def table(self, name: str) -> dict[str, Any] | None:
        self._answer()
        return self.statuses.get(name)

    def show(self, report: WorkerReport | None, busy_with: Assignment | None) -> None:
        self._answer()
        self.shown.append((report, "" if busy_with is None else busy_with.operation_id))
        if report is not None and report.result is not None and self.acknowledges:
            self.acknowledge(report)

    def forget(self, assignment: Assignment) -> None:
        self.forgotten.append(assignment.name)

    def acknowledge(self, report: WorkerReport) -> None:
        for content in self.statuses.values():
            for entry in content["status"]["operations"]:
                if entry["id"] == report.operation_id:
                    entry["phase"] = "Succeeded"

    def assignment(
        self,
        table: str,
        work: Work,
        *,
        number: int = 1,
        stay: Stay = NO_STAY,
        table_format: str = HUDI,
        **entry: Any,
    ) -> Assignment:
        """Write it into the table's status, then into the queue."""
        target = TableTarget(table, self.place(table), ("id",), schema=COLUMNS, format=table_format)
        operation = Operation(f"{table}-{number}", target, work)
        content = json.dumps(operation.to_json_object())
        made = Assignment(
            f"{table}-{number}-1", table, operation.id, operation.kind.value, 1, content, stay
        )
        known = {"id": operation.id, "podUid": POD, "phase": "Running", "digest": made.digest}
        status = self.statuses.setdefault(
            table,
            {"metadata": {"name": table, "uid": table}, "status": {"operations": []}},
        )
        status["status"]["operations"].append(known | entry)
        self.queue.append(made)
        return made

    def place(self, name: str) -> Location:
        return Location(StoreLocation.of(self.folder / name).uri)

    def landed(self, table: str, rows: dict[str, list[Any]]) -> IngestRange:
        landing = self.folder / f"{table}-landing"
        landing.mkdir()
        pq.write_table(pa.table(rows), landing / "1.parquet")
        files = list_arrived(StoreLocation.of(landing).open(), FileFormat.PARQUET).files
        where = Location(StoreLocation.of(landing).uri)
        return ingest_of_files("landing", where, FileFormat.PARQUET, files, generation=0)

    def rows(self, table: str, table_format: str = HUDI) -> list[dict[str, Any]]:
        opened = open_iceberg if table_format == ICEBERG else LakeTable.open
        found = opened(self.place(table).uri).to_arrow()
        return list(found.select(["id", "n"]).sort_by("id").to_pylist())

    def worker(self, *, idle_s: float = 60, lifetime_s: float = 3_600) -> WarmWorker:
        return WarmWorker(
            self,
            self.spark,
            POD,
            WorkerLimits(idle_s, lifetime_s),
            self.clock,
            is_stopping=lambda: self.is_stopping,
            progress=lambda _: None,
        )

    def results(self) -> dict[str, OperationResult]:
        return {
            report.operation_id: report.result
            for report, _ in self.shown
            if report is not None and report.result is not None
        }

    def _answer(self) -> None:
        if self.silent:
            self.silent -= 1
            raise ApiSilentError("no answer")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_one_process_works_for_many_tables_and_ends_when_it_is_idle(lake: Lake) -> None:
    formats = {"one": HUDI, "two": HUDI, "three": ICEBERG}
    for name, kind in formats.items():
        lake.assignment(name, CreateTable(), table_format=kind)
        rows: dict[str, list[Any]] = {"id": [name], "n": [1]}
        lake.assignment(name, lake.landed(name, rows), number=2, table_format=kind)
    assert lake.worker().run() is WorkerEnd.IDLE
    assert {result.outcome for result in lake.results().values()} == {Outcome.SUCCEEDED}
    for name, kind in formats.items():
        assert lake.rows(name, kind) == [{"id": name, "n": 1}]
    assert lake.spark.resets == 6
    assert len(lake.forgotten) == 6


def test_it_shows_what_it_takes_before_it_begins(lake: Lake) -> None:
    lake.assignment("one", CreateTable())
    lake.worker().run()
    (taken, busy), (done, free) = lake.shown
    assert (taken, busy) == (WorkerReport("one-1", 1), "one-1")
    assert done is not None
    assert done.result is not None
    assert free == ""


def test_what_the_status_gives_to_another_is_left_alone(lake: Lake) -> None:
    lake.assignment("one", CreateTable(), podUid="another")
    lake.assignment("two", CreateTable())
    assert lake.worker().run() is WorkerEnd.IDLE
    assert set(lake.results()) == {"two-1"}
    assert not (lake.folder / "one").exists()
    # It stops saying that it took it.
    assert lake.shown[1] == (None, "")


def test_content_that_is_not_what_the_status_names_is_refused(lake: Lake) -> None:
    lake.assignment("one", CreateTable(), digest="0" * 64)
    lake.worker().run()
    assert lake.results()["one-1"].error == HAND_OVER_REFUSED
    assert not (lake.folder / "one").exists()


def test_a_failure_that_is_understood_leaves_the_worker_for_others(lake: Lake) -> None:
    (lake.folder / "one" / ".hoodie").mkdir(parents=True)
    properties = lake.folder / "one" / ".hoodie" / "hoodie.properties"
    properties.write_text("hoodie.table.version=99\n")
    lake.assignment("one", RollBack(()))
    lake.assignment("two", CreateTable())
    assert lake.worker().run() is WorkerEnd.IDLE
    assert lake.results()["one-1"].outcome is Outcome.FAILED
    assert lake.results()["two-1"].outcome is Outcome.SUCCEEDED


def test_a_failure_that_is_not_understood_ends_the_worker(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> OperationResult:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(warm_worker, "execute_operation", fail)
    lake.assignment("one", CreateTable())
    lake.assignment("two", CreateTable())
    assert lake.worker().run() is WorkerEnd.SPENT
    assert set(lake.results()) == {"one-1"}
    assert "unforeseen" in lake.results()["one-1"].message


def test_a_worker_whose_java_died_says_so_and_ends(lake: Lake) -> None:
    (lake.folder / "one" / ".hoodie").mkdir(parents=True)
    (lake.folder / "one" / ".hoodie" / "hoodie.properties").write_text("")
    lake.spark.died = True
    lake.assignment("one", RollBack(()))
    assert lake.worker().run() is WorkerEnd.SPENT
    assert "Java exited" in lake.results()["one-1"].message


def test_environment_and_folder_are_as_before_for_the_next(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, seen = Path.cwd(), []

    def look(operation: Operation, **_: Any) -> OperationResult:
        seen.append((os.environ.get("LEFT_BEHIND"), Path.cwd()))
        os.environ["LEFT_BEHIND"] = "x"
        os.chdir(lake.folder)
        return OperationResult(operation.id, Outcome.SUCCEEDED)

    monkeypatch.setattr(warm_worker, "execute_operation", look)
    lake.assignment("one", CreateTable())
    lake.assignment("two", CreateTable())
    lake.worker().run()
    assert seen == [(None, before), (None, before)]


def test_its_heartbeats_carry_the_operation_and_its_pod(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers = []

    def look(operation: Operation, **_: Any) -> OperationResult:
        writers.append(operation.writer)
        return OperationResult(operation.id, Outcome.SUCCEEDED)

    monkeypatch.setattr(warm_worker, "execute_operation", look)
    lake.assignment("one", CreateTable())
    lake.worker().run()
    assert writers == [f"one-1/{POD}"]


def test_a_report_stays_until_the_status_has_it(lake: Lake) -> None:
    lake.acknowledges = False
    lake.assignment("one", CreateTable())
    lake.assignment("two", CreateTable())
    assert lake.worker().run() is WorkerEnd.UNHEARD
    report, _ = lake.shown[-1]
    assert report is not None
    assert report.operation_id == "one-1"
    assert set(lake.results()) == {"one-1"}


def test_an_api_server_that_is_silent_for_a_while_loses_nothing(lake: Lake) -> None:
    lake.assignment("one", CreateTable())
    lake.silent = 5
    assert lake.worker().run() is WorkerEnd.IDLE
    assert lake.results()["one-1"].outcome is Outcome.SUCCEEDED


def test_a_result_that_reaches_nobody_ends_the_worker(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(operation: Operation, **_: Any) -> OperationResult:
        lake.silent = 1_000_000
        return OperationResult(operation.id, Outcome.SUCCEEDED)

    monkeypatch.setattr(warm_worker, "execute_operation", look)
    lake.assignment("one", CreateTable())
    assert lake.worker().run() is WorkerEnd.UNHEARD


def test_after_its_lifetime_it_takes_nothing(lake: Lake) -> None:
    assert lake.worker(idle_s=600, lifetime_s=100).run() is WorkerEnd.OLD


def test_a_stopped_worker_does_not_begin_what_it_just_got(lake: Lake) -> None:
    lake.assignment("one", CreateTable())
    worker = lake.worker()
    pop = lake.next

    def stop_then_pop(timeout_s: float) -> Assignment | None:
        lake.is_stopping = True
        return pop(timeout_s)

    lake.next = stop_then_pop  # type: ignore[method-assign]
    assert worker.run() is WorkerEnd.STOPPED
    assert lake.results() == {}
    assert lake.shown[-1] == (None, "")


def test_an_interrupted_operation_is_reported_as_stopped(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> OperationResult:
        lake.is_stopping = True
        raise KeyboardInterrupt

    monkeypatch.setattr(warm_worker, "execute_operation", interrupt)
    lake.assignment("one", CreateTable())
    assert lake.worker().run() is WorkerEnd.STOPPED
    assert lake.results()["one-1"].error == STOPPED


@pytest.mark.parametrize(
    ("change", "commits"),
    [
        ({}, 3),
        ({"generation": 2}, 1),
        ({"annotations": {"tideline.dev/paused": "true"}}, 1),
        ({"deletionTimestamp": "2026-11-28T00:00:00Z"}, 1),
        ({"uid": "another"}, 1),
    ],
)
def test_it_follows_a_topic_as_long_as_the_table_is_as_it_was(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], commits: int
) -> None:
    """Of three commits that would come, those before the LakeTable changed."""
    done = 0

    def commit(operation: Operation, **_: Any) -> OperationResult:
        nonlocal done
        done += 1
        before = lake.statuses["one"]
        lake.statuses["one"] = {**before, "metadata": {**before["metadata"], **change}}
        return OperationResult(operation.id, Outcome.SUCCEEDED)

    def stay(
        operation: Operation,
        first: OperationResult,
        given: Stay,
        execute: Any,
        *_: Any,
        **asks: Any,
    ) -> OperationResult:
        assert given == Stay(5_000, 1_000)
        while done < 3 and asks["may_stay"]():
            execute(operation)
        return first

    monkeypatch.setattr(warm_worker, "execute_operation", commit)
    monkeypatch.setattr(warm_worker, "stay_on_table", stay)
    lake.assignment("one", CreateTable(), stay=Stay(5_000, 1_000))
    lake.worker().run()
    assert done == commits
