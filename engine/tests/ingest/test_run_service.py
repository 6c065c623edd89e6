"""Operations that maintain a table, carried out without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tideline.clock import SystemClock
from tideline.hudi.open_table import open_table
from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.partition_ttl.service import PARTITION_TTL
from tideline.hudi.services.service import TableService
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import (
    MakeSavepoint,
    Operation,
    RestoreTable,
    RunService,
    TableTarget,
    Work,
)
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.storage.location import StoreLocation

CLOCK = SystemClock()
FIRST, SECOND = InstantTime("20260101000000001"), InstantTime("20260101000000002")
WITHOUT_SPARK = [CLEANING, ARCHIVAL, PARTITION_TTL]


def no_session(_: Iterable[StoreLocation]) -> Any:
    raise AssertionError("work that moves no rows asks for no Spark")


class Table:
    """A table with commits that wrote nothing."""

    def __init__(self, folder: Path) -> None:
        self.uri = f"file://{folder}/table"

    def create(self, *commits: InstantTime) -> None:
        location = StoreLocation.of(self.uri)
        create_table(
            location.open(),
            TableDefinition(name="people", record_key=("id",), table_version=6),
            CLOCK,
        )
        for time in commits:
            self.commit(time)

    def commit(self, time: InstantTime) -> None:
        timelines = self.open().timelines
        instant = timelines.to_inflight(timelines.create_requested(time, Action.COMMIT))
        timelines.complete(instant, CommitMetadata({}, "UPSERT", {}).encode())

    def open(self) -> HoodieTable:
        return open_table(StoreLocation.of(self.uri), CLOCK)

    def run(self, work: Work) -> OperationResult:
        target = TableTarget("people", Location(self.uri), ("id",))
        return execute_operation(Operation("x", target, work), session_factory=no_session)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


@pytest.mark.parametrize("service", WITHOUT_SPARK)
def test_where_there_is_nothing_to_do_it_is_said(table: Table, service: TableService) -> None:
    missing = table.run(RunService(service, ""))
    assert (missing.outcome, missing.message) == (Outcome.NOTHING, "there is no table")
    table.create(FIRST)
    found = table.run(RunService(service, str(FIRST)))
    assert found.outcome is Outcome.NOTHING
    assert found.message


def test_settings_of_an_operation_count_over_those_of_the_table(table: Table) -> None:
    table.create(*(InstantTime(f"202601010000000{number:02d}") for number in range(1, 9)))
    settings = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "5"}
    done = table.run(RunService(ARCHIVAL, "", settings))
    assert (done.outcome, done.message) == (Outcome.SUCCEEDED, "moved 5 instants to the archive")
    assert done.bytes_written > 0
    assert len(done.audit[0]["archived"]) == 5
    wrong = table.run(RunService(ARCHIVAL, "", {"hoodie.keep.min.commits": "many"}))
    assert (wrong.outcome, wrong.exit_code) == (Outcome.FAILED, 2)


def test_a_savepoint_is_made_once_and_a_restore_leads_back_to_it(table: Table) -> None:
    table.create(FIRST)
    made = table.run(MakeSavepoint("a", str(FIRST)))
    assert (made.outcome, made.instant) == (Outcome.SUCCEEDED, str(FIRST))
    other = table.run(MakeSavepoint("b", str(FIRST)))
    assert (other.outcome, "savepointed as 'a'" in other.message) == (Outcome.NOTHING, True)
    table.commit(SECOND)
    done = table.run(RestoreTable(str(FIRST), str(SECOND)))
    assert (done.outcome, "1 instant undone" in done.message) == (Outcome.SUCCEEDED, True)
    commits = table.open().timeline().of(Action.COMMIT).completed()
    assert [instant.time for instant in commits] == [FIRST]
    unknown = table.run(RestoreTable(str(SECOND), str(SECOND)))
    assert (unknown.outcome, unknown.exit_code) == (Outcome.FAILED, 2)
