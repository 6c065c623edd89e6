"""The lines of `tideline run` about table services."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tideline.hudi.services.compaction.service import COMPACTION
from tideline.ingest.operation.operation import Operation, RestoreTable, RunService
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.services.benefit import Benefit
from tideline_operator.decide.actions import Advise, Wait, WaitKind
from tideline_operator.decide.planned_operation import create_operation
from tideline_operator.report.run_report import LineReporter, describe_result
from tideline_operator.resources.status import ServiceStatus
from tideline_operator.testing.table_states import NOW_MS, at, resolved

TARGET = create_operation(resolved()).table
INSTANT = str(at(7))


def compaction() -> Operation:
    return Operation("people-compaction-1", TARGET, RunService(COMPACTION, INSTANT))


def test_a_run_is_reported_in_one_line_with_what_it_read_and_wrote() -> None:
    result = OperationResult(
        "people-compaction-1",
        Outcome.SUCCEEDED,
        "merged 4 log files into 2 base files",
        instant=INSTANT,
        bytes_read=2_600_000,
        bytes_written=2_400_000,
        rows_written=19_379,
        seconds=2.0,
    )
    assert describe_result(compaction(), result) == (
        f"compaction  {INSTANT}: merged 4 log files into 2 base files, 2.6 MB read, "
        "2.4 MB written, 19,379 rows in 2.0 s"
    )


def test_a_service_says_what_it_saves_and_took() -> None:
    result = OperationResult(
        "people-compaction-1",
        Outcome.SUCCEEDED,
        "merged 4 log files into 2 base files",
        core_seconds=0.5,
        requests=31,
        saved=Benefit(files_opened=4, delta_files=4, delta_bytes=2_000),
    )
    assert describe_result(compaction(), result) == (
        "compaction  merged 4 log files into 2 base files; saves 4 files fewer to open, 4 delta "
        "files fewer to merge, 2.0 kB less to merge, took 0.5 core-seconds, 31 requests"
    )


@pytest.mark.parametrize(
    ("outcome", "message", "line"),
    [
        (Outcome.NOTHING, "no delta commits", "compaction  no delta commits"),
        (Outcome.FAILED, "no space", "compaction failed (exit code 0): no space"),
    ],
)
def test_nothing_and_failure_say_why(outcome: Outcome, message: str, line: str) -> None:
    assert describe_result(compaction(), OperationResult("x", outcome, message)) == line


def test_a_restore_says_what_it_freed() -> None:
    operation = Operation("people-restore-1", TARGET, RestoreTable(INSTANT, INSTANT))
    result = OperationResult(
        "x", Outcome.SUCCEEDED, "2 instants undone", bytes_deleted=1_000, seconds=0.5
    )
    assert describe_result(operation, result) == "restore  2 instants undone, 1.0 kB freed in 0.5 s"


def test_at_rest_services_say_what_they_wait_for(capsys: pytest.CaptureFixture[str]) -> None:
    services = {
        "compaction": ServiceStatus(reason="4 of 5 delta commits"),
        "clustering": ServiceStatus(is_due=True, reason="8 of 8 commits"),
        "cleaning": ServiceStatus(),
    }
    actions = (
        Wait("landing", WaitKind.POLL, NOW_MS + 30_000, "look for new files"),
        Advise("clustering", "8 of 8 commits"),
    )
    reporter = LineReporter()
    for _ in range(2):
        reporter.resting("default/people", actions, services, NOW_MS)
    assert capsys.readouterr().out.splitlines() == [
        "default/people  advice: clustering is due: 8 of 8 commits",
        "default/people  next: landing: look for new files in 30 s",
        "default/people  not due: compaction: 4 of 5 delta commits",
    ]


def test_a_look_that_found_nothing_is_reported_only_when_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = OperationResult("x", Outcome.NOTHING, "nothing to delete")
    LineReporter().finished("default/people", compaction(), result)
    assert capsys.readouterr().out == ""
    asked = replace(compaction(), work=RunService(COMPACTION, INSTANT, rerun=1))
    LineReporter().finished("default/people", asked, result)
    assert "nothing to delete" in capsys.readouterr().out


def test_json_lines_carry_the_audit(capsys: pytest.CaptureFixture[str]) -> None:
    audit = ({"files": [{"path": "a", "bytes": 1}]},)
    result = OperationResult("x", Outcome.SUCCEEDED, "done", audit=audit)
    LineReporter(as_json=True).finished("default/people", compaction(), result)
    assert json.loads(capsys.readouterr().out)["audit"] == [dict(audit[0])]
