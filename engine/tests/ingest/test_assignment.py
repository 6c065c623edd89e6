"""Hand-overs and reports as values, and what keeps a worker from beginning."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.ingest.operation.assignment import (
    STAY_MS_MAX,
    Assignment,
    Stay,
    WorkerReport,
    is_acknowledged,
    is_altered,
    objection,
)
from tideline.ingest.operation.result import RESULT_BYTES_MAX, OperationResult, Outcome

GIVEN = Assignment("people-ingest-1-1-0f", "people", "people-ingest-1", "ingest", 2, '{"a": "ö"}')
POD = "0f-1"


def table(**entry: Any) -> dict[str, Any]:
    known = {
        "id": GIVEN.operation_id,
        "attempt": GIVEN.attempt,
        "podUid": POD,
        "phase": "Running",
        "digest": GIVEN.digest,
    }
    return {"metadata": {"name": "people"}, "status": {"operations": [known | entry]}}


def test_an_assignment_is_read_back_as_it_was_written() -> None:
    assert Assignment.parse(GIVEN.name, GIVEN.to_json()) == GIVEN
    stays = replace(GIVEN, stay=Stay(5_000, 1_000))
    assert Assignment.parse(GIVEN.name, stays.to_json()) == stays
    assert stays.digest == GIVEN.digest


def test_no_assignment_makes_a_worker_stay_for_long() -> None:
    forged = replace(GIVEN, stay=Stay(10**9, -1))
    assert Assignment.parse(GIVEN.name, forged.to_json()).stay == Stay(STAY_MS_MAX, 0)


def test_an_operator_of_an_earlier_release_says_nothing_of_a_stay() -> None:
    content = json.loads(GIVEN.to_json())
    del content["stayMs"], content["lookEveryMs"]
    assert Assignment.parse(GIVEN.name, json.dumps(content)) == GIVEN


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1}'])
def test_what_is_no_assignment_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Assignment.parse("x", text)


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_worker_begins_what_the_status_says_is_its_own(phase: str) -> None:
    assert objection(GIVEN, table(phase=phase), POD) is None
    assert not is_altered(GIVEN, table(phase=phase))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"podUid": "another"}, "does not name it"),
        ({"attempt": 3}, "does not name it"),
        ({"id": "people-ingest-2"}, "does not name it"),
        ({"phase": "Failed"}, "it is Failed"),
        ({"phase": "Succeeded"}, "it is Succeeded"),
    ],
)
def test_a_worker_objects_to_what_the_status_does_not_say(
    changed: dict[str, Any], words: str
) -> None:
    assert words in str(objection(GIVEN, table(**changed), POD))


def test_a_worker_objects_where_there_is_no_table_or_no_status() -> None:
    assert "no LakeTable" in str(objection(GIVEN, None, POD))
    assert objection(GIVEN, {"metadata": {"name": "people"}}, POD) is not None
    ending = table()
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert "being deleted" in str(objection(GIVEN, ending, POD))


def test_other_content_under_the_same_name_is_noticed() -> None:
    assert is_altered(replace(GIVEN, content='{"a": "o"}'), table())
    assert is_altered(GIVEN, table(digest=""))


def test_the_first_attempt_is_the_one_that_a_status_leaves_out() -> None:
    content = table()
    del content["status"]["operations"][0]["attempt"]
    assert objection(replace(GIVEN, attempt=1), content, POD) is None


def test_a_report_is_acknowledged_once_the_status_has_moved_on() -> None:
    report = WorkerReport(GIVEN.operation_id, GIVEN.attempt)
    assert not is_acknowledged(report, table())
    assert is_acknowledged(report, table(phase="Failed"))
    assert is_acknowledged(report, table(attempt=3))
    assert is_acknowledged(report, None)


def test_a_report_fits_a_termination_message_and_is_read_back() -> None:
    result = OperationResult("x", Outcome.FAILED, message="ö" * 9_000, notes=("ä" * 900,) * 50)
    report = WorkerReport("people-" + "i" * 56, 12, result)
    text = report.to_json()
    assert len(text.encode()) <= RESULT_BYTES_MAX
    read = WorkerReport.parse(text)
    assert read is not None
    assert read.result is not None
    assert (read.operation_id, read.attempt) == (report.operation_id, 12)
    assert read.result.outcome is Outcome.FAILED
    assert WorkerReport.parse(WorkerReport("x", 1).to_json()) == WorkerReport("x", 1)


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"id":"x","outcome":"succeeded"}'])
def test_what_is_no_report_is_none(text: str) -> None:
    assert WorkerReport.parse(text) is None
