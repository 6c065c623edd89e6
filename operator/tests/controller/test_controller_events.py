"""Events: one for each series, counted while it continues, and a new one when it comes back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.testing.fake_clock import FakeClock
from tideline_operator.api_objects import EVENTS, JOBS, LAKE_STORES, Manifest
from tideline_operator.controller.event_recorder import (
    FREQUENT_MS,
    REPEAT_MS,
    EventRecorder,
    TableEvent,
)
from tideline_operator.controller.table_events import events_of
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import LakeTableStatus, OperationPhase, OperationStatus
from tideline_operator.testing.api_server import OPERATOR, ApiServer
from tideline_operator.testing.controller_case import ControllerCase

START_MS = 1_800_000_000_000
MISSING = TableEvent("MissingBucket", "@1", "there is no bucket", is_warning=True)


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


def table(namespace: str) -> Manifest:
    metadata = {"name": "people", "namespace": namespace, "uid": "1-2", "resourceVersion": "7"}
    return {"apiVersion": "tideline.dev/v1alpha1", "kind": "LakeTable", "metadata": metadata}


def events(server: ApiServer, namespace: str, reason: str) -> list[Manifest]:
    found, _ = server.api().list(EVENTS, namespace)
    return [item for item in found if item["reason"] == reason]


def attempt(number: int, **given: Any) -> OperationStatus:
    entry = OperationStatus(
        id="people-x",
        kind="ingest",
        subject="landing",
        phase=OperationPhase.FAILED,
        attempt=number,
        failures=number - 1,
        started_at=Timestamp(0),
    )
    return replace(entry, **given)


def failures(*entries: OperationStatus, good: tuple[OperationStatus, ...] = ()) -> set[str]:
    """The series that failed attempts belong to, each seen with what the status held then."""
    result = OperationResult("people-x", Outcome.FAILED, message="no")
    status = LakeTableStatus(operations=(*good, *entries))
    return {events_of(entry, result, status)[0].subject for entry in entries}


def test_failures_in_a_row_are_one_series_also_with_other_files() -> None:
    assert len(failures(attempt(1), attempt(2), attempt(3))) == 1
    assert failures(attempt(1)) == failures(attempt(1, id="people-y"))
    assert failures(attempt(1)) != failures(attempt(1, subject="other"))


def test_a_failure_after_a_success_begins_another_series() -> None:
    good = attempt(1, id="people-good", phase=OperationPhase.SUCCEEDED)
    assert failures(attempt(1)) != failures(attempt(1), good=(good,))
    # The same operation succeeds in its second run and fails in its third.
    assert failures(attempt(1)) != failures(attempt(3, failures=0))


def test_new_and_wider_columns_of_a_commit_are_events_of_bounded_length() -> None:
    added = tuple(f"c{number} struct<{'x' * 90}>" for number in range(20))
    result = OperationResult(
        "people-x", Outcome.SUCCEEDED, instant="1", columns_added=added,
        columns_widened=("v int32 to int64",),
    )  # fmt: skip
    read = OperationResult.from_json_object(json.loads(result.to_json(2_000)))
    assert len(result.to_json(2_000).encode()) <= 2_000
    for found in (result, read):
        events = {event.reason: event for event in events_of(attempt(1), found, LakeTableStatus())}
        assert events["SchemaWidened"].note == "ingest landing widened columns: v int32 to int64"
        inferred = events["SchemaInferred"]
        assert inferred.note.startswith("ingest landing gave types to new columns: c0 struct<x")
        assert (inferred.is_warning, inferred.occurrence) == (False, "1")
    again = events_of(attempt(2), replace(read, columns_added=(), columns_widened=()),
                      LakeTableStatus())  # fmt: skip
    assert [event.reason for event in again] == ["Committed"]


def test_commits_of_a_stream_are_one_series_and_those_of_files_are_not() -> None:
    def subjects(**given: Any) -> set[str]:
        results = [
            OperationResult("people-x", Outcome.SUCCEEDED, instant=instant, **given)
            for instant in ("1", "2")
        ]
        found = [events_of(attempt(1), result, LakeTableStatus())[0] for result in results]
        assert [event.occurrence for event in found] == ["1", "2"]
        return {event.subject for event in found}

    assert subjects(source_files=2, source_records=40, source_part="partition") == {"landing"}
    assert subjects(source_files=2) == {"1", "2"}
    assert subjects() == {"1", "2"}


@pytest.mark.api_server
def test_commits_within_seconds_are_counted_with_the_next(
    api_server: ApiServer, namespace: str
) -> None:
    clock = FakeClock(START_MS)
    recorder, item = EventRecorder(api_server.api(OPERATOR), "a", clock.now_ms), table(namespace)

    def commit(number: int) -> Manifest:
        committed = TableEvent(
            "Committed", "feed", f"commit {number}", occurrence=str(number), is_frequent=True
        )
        recorder.record(item, committed)
        (event,) = events(api_server, namespace, "Committed")
        return event

    assert commit(1)["count"] == 1
    clock.advance(FREQUENT_MS / 1000 - 1)
    for number in (2, 2, 3):
        event = commit(number)
        assert (event["count"], event["message"]) == (1, "commit 1")
    clock.advance(1)
    event = commit(3)
    assert event["count"] == 1
    event = commit(4)
    assert (event["count"], event["message"]) == (4, "commit 4")


@pytest.mark.api_server
def test_a_lasting_condition_is_counted_now_and_then_also_by_the_next_process(
    api_server: ApiServer, namespace: str
) -> None:
    clock = FakeClock(START_MS)
    api, item = api_server.api(OPERATOR), table(namespace)
    recorder = EventRecorder(api, "a", clock.now_ms)
    for _ in range(5):
        recorder.record(item, MISSING)
    (event,) = events(api_server, namespace, "MissingBucket")
    assert (event["count"], event["type"]) == (1, "Warning")
    assert event["involvedObject"]["name"] == "people"
    clock.advance(REPEAT_MS / 1000)
    recorder.record(item, replace(MISSING, note="there still is none"))
    (event,) = events(api_server, namespace, "MissingBucket")
    assert (event["count"], event["message"]) == (2, "there still is none")
    assert event["firstTimestamp"] < event["lastTimestamp"]
    successor = EventRecorder(api, "b", clock.now_ms)
    successor.record(item, MISSING)
    assert events(api_server, namespace, "MissingBucket")[0]["count"] == 2
    clock.advance(REPEAT_MS / 1000)
    successor.record(item, MISSING)
    assert events(api_server, namespace, "MissingBucket")[0]["count"] == 3


@pytest.mark.api_server
def test_an_attempt_counts_once_and_an_event_that_the_server_dropped_is_written_again(
    api_server: ApiServer, namespace: str
) -> None:
    clock = FakeClock(START_MS)
    api, item = api_server.api(OPERATOR), table(namespace)
    recorder = EventRecorder(api, "a", clock.now_ms)
    first = TableEvent("OperationFailed", "s", "no", is_warning=True, occurrence="1")
    for event in (first, first, replace(first, occurrence="2")):
        recorder.record(item, event)
    EventRecorder(api, "b", clock.now_ms).record(item, replace(first, occurrence="2"))
    (seen,) = events(api_server, namespace, "OperationFailed")
    assert seen["count"] == 2
    api_server.api().delete(EVENTS, seen["metadata"]["name"], namespace)
    recorder.record(item, replace(first, occurrence="3"))
    assert events(api_server, namespace, "OperationFailed")[0]["count"] == 3


@pytest.mark.api_server
def test_a_trouble_that_comes_back_is_a_new_event(case: ControllerCase) -> None:
    case.declare(location="s3://lake/people", storeRef="minio", ingest=None)
    case.start()
    case.until(lambda: case.condition("Ready").get("reason") == "StoreMissing", "the condition")
    store: Manifest = {
        "apiVersion": LAKE_STORES.api_version,
        "kind": LAKE_STORES.kind,
        "metadata": {"name": "minio", "namespace": case.namespace},
        "spec": {"endpoint": "http://127.0.0.1:1", "credentials": {"secretName": "none"}},
    }
    case.api.create(LAKE_STORES, store, case.namespace)
    case.until(lambda: case.condition("Ready").get("reason") == "SecretMissing", "it is seen")
    assert case.condition("Healthy")["status"] == "Unknown"
    case.api.delete(LAKE_STORES, "minio", case.namespace)
    case.until(lambda: case.event_reasons().count("StoreMissing") == 2, "another event")
    assert case.event_reasons().count("SecretMissing") == 1


@pytest.mark.api_server
def test_pods_that_are_refused_one_after_the_other_are_one_event(
    case: ControllerCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline_operator.controller.settlement._PATIENCE_MS", 0)
    monkeypatch.setattr("tideline_operator.controller.next_look.STUCK_LOOK_S", 0.2)
    case.declare()
    case.start()
    job = case.until_job("create")
    case.until(lambda: case.operations()[0]["phase"] == "Running", "the Job was seen")
    turns = case.turns()
    for number in range(3):
        refuse_pod(case, job, number)
        case.until(
            lambda: case.condition("Ready").get("reason") == "OperationStuck", "it is reported"
        )
        case.until(partial(took_turns_after, case, case.turns() + 1), "it was looked at again")
    assert case.turns() > turns + 3
    assert case.event_reasons().count("OperationStuck") == 1
    assert "exceeded quota" in case.event_notes()
    job_left = case.api.get(JOBS, job["metadata"]["name"], case.namespace)
    assert job_left is not None


def took_turns_after(case: ControllerCase, turns: float) -> bool:
    return case.turns() > turns


def refuse_pod(case: ControllerCase, job: Manifest, number: int) -> None:
    """The Job controller's event about a pod that a quota refuses: with another name each time."""
    name, moment = job["metadata"]["name"], f"2026-01-01T00:00:{number:02}Z"
    note = f'Error creating: pods "{name}-abcd{number}" is forbidden: exceeded quota: small'
    event: Manifest = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{number}", "namespace": case.namespace},
        "involvedObject": {"kind": "Job", "name": name, "namespace": case.namespace},
        "reason": "FailedCreate",
        "type": "Warning",
        "message": note,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
    }
    case.api.create(EVENTS, event, case.namespace)
