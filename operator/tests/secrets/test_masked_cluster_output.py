"""Logs, events and statuses of the controller show no known secret; what it reads back is whole."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.errors import StorageUnavailableError
from tideline.secret_values import MASK, forgotten, masked, note_secrets
from tideline_operator.api_objects import LAKE_TABLES, ApiRefusedError
from tideline_operator.controller.event_recorder import EventRecorder, TableEvent
from tideline_operator.controller.json_log import JsonLines
from tideline_operator.controller.status_writer import status_content
from tideline_operator.resources.bounds import within_bounds
from tideline_operator.resources.parsing import parse_stored
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    DeletionStatus,
    IngestStatus,
    LakeTableStatus,
    OperationPhase,
    OperationStatus,
    ServiceStatus,
)
from tideline_operator.resources.store_status import BucketStatus, LakeStoreStatus, StoreCheck
from tideline_operator.resources.tables_status import LakeCatalogStatus
from tideline_operator.testing.scripted_api import ScriptedServer, refusal

TOKEN = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
NOW = "2026-01-02T03:04:05Z"
MOMENT = Timestamp.parse(NOW)


@pytest.fixture(autouse=True)
def one_secret() -> Iterator[None]:
    with forgotten():
        note_secrets([TOKEN])
        yield


def table_status() -> LakeTableStatus:
    return LakeTableStatus(
        last_valid_spec={"location": {"path": "Succeeded", "message": "Succeeded"}},
        conditions=(
            Condition(
                type=ConditionType.READY,
                status=ConditionStatus.FALSE,
                reason="StorageUnavailable",
                message=f"refused: {TOKEN}",
                last_transition_time=MOMENT,
            ),
        ),
        deletion=DeletionStatus(seen_at=MOMENT, message=f"not yet: {TOKEN}"),
        services={"cleaning": ServiceStatus(reason=f"is due {TOKEN}", last_result=f"x {TOKEN}")},
        operations=(
            OperationStatus(
                id="lake-orders-1",
                kind="ingest",
                subject="clicks",
                phase=OperationPhase.SUCCEEDED,
                started_at=MOMENT,
                message=f"done with {TOKEN}",
            ),
        ),
        ingest={"clicks": IngestStatus(checkpoint=f"1:{NOW}")},
    )


def test_texts_of_a_status_are_masked() -> None:
    written = json.dumps(status_content(table_status()))
    assert TOKEN not in written
    assert written.count(MASK) == 5


def test_a_password_that_is_a_word_of_the_operators_changes_nothing_it_reads() -> None:
    words = ("Succeeded", "StorageUnavailable", "Ready", "lake-orders-1", "clicks", "ingest", NOW,
             "cleaning", "location", "conditions", f"1:{NOW}", "lastValidSpec")  # fmt: skip
    note_secrets(words)
    status = table_status()
    read = parse_stored(LakeTableStatus, status_content(status))
    assert read is not None
    assert read.last_valid_spec == status.last_valid_spec
    assert [(condition.type, condition.reason) for condition in read.conditions] == [
        (ConditionType.READY, "StorageUnavailable")
    ]
    (operation,) = read.operations
    assert replace(operation, message=status.operations[0].message) == status.operations[0]
    assert dict(read.ingest) == dict(status.ingest)
    assert set(read.services) == {"cleaning"}


def test_texts_of_stores_and_catalogs_are_masked() -> None:
    bucket = BucketStatus(
        problem="AccessDenied",
        message=f"refused {TOKEN}",
        checks=(StoreCheck(name="create", outcome="failed", message=f"refused {TOKEN}"),),
    )
    store = json.dumps(status_content(LakeStoreStatus(buckets={"lake": bucket})))
    catalog = json.dumps(status_content(LakeCatalogStatus(left={"orders": f"refused {TOKEN}"})))
    assert TOKEN not in store + catalog
    assert (store.count(MASK), catalog.count(MASK)) == (2, 1)


def test_a_text_is_cut_between_secrets() -> None:
    note_secrets(["short-one"])
    status = LakeTableStatus(
        deletion=DeletionStatus(seen_at=MOMENT, message="x" * 4_088 + "short-one and more")
    )
    cut = within_bounds(status).deletion
    assert cut is not None
    assert len(cut.message) <= 4_096
    assert "short" not in cut.message


def test_log_lines_are_masked_and_stay_json() -> None:
    note_secrets(['","level":"'])
    log = logging.getLogger("test.masked")
    log.propagate = False
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    log.addHandler(handler)
    try:
        try:
            raise OSError(f"401 {TOKEN}")
        except OSError as cause:
            try:
                raise StorageUnavailableError("refused", value=TOKEN) from cause
            except StorageUnavailableError:
                log.exception("with %s", TOKEN, extra={"reason": f"r {TOKEN}", "seconds": 3})
    finally:
        log.removeHandler(handler)
    (line,) = stream.getvalue().splitlines()
    assert TOKEN not in line
    content = json.loads(line)
    assert content["message"] == f"with {MASK}"
    assert content["reason"] == f"r {MASK}"
    assert (content["level"], content["seconds"]) == ("error", 3)
    assert f"OSError: 401 {MASK}" in content["error"]


def test_a_key_that_is_spelled_like_a_table_takes_it_out_of_no_log_line() -> None:
    note_secrets(["tenant-b/orders", "tenant-b"])
    record = logging.makeLogRecord({"msg": "starting", "table": "tenant-b/orders"})
    assert json.loads(JsonLines().format(record))["table"] == "tenant-b/orders"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    yield server
    server.stop()


def test_the_operators_own_token_is_masked(server: ScriptedServer, tmp_path: Path) -> None:
    server.script = [refusal(403, "Forbidden", "Bearer secret-token is not allowed")]
    with pytest.raises(ApiRefusedError) as refused:
        server.api(tmp_path).get(LAKE_TABLES, "orders", "lake")
    assert str(refused.value) == f"{MASK} is not allowed"


def test_tokens_that_the_operator_asks_for_are_known(
    server: ScriptedServer, tmp_path: Path
) -> None:
    server.script = [(201, {"status": {"token": "token-of-an-account"}})]
    server.api(tmp_path).request_token("engine", "lake", "sts", 600)
    assert masked("token-of-an-account") == MASK


def test_events_are_masked(server: ScriptedServer, tmp_path: Path) -> None:
    item = {
        "apiVersion": "tideline.dev/v1alpha1",
        "kind": "LakeTable",
        "metadata": {"name": "orders", "namespace": "lake", "uid": "1"},
    }
    server.script = [(201, {}), (200, {})]
    now_ms = [1_800_000_000_000]
    recorder = EventRecorder(server.api(tmp_path), "a", lambda: now_ms[0])
    event = TableEvent("Refused", "@1", f"refused: {'x' * 970} {TOKEN}")
    recorder.record(item, event)
    now_ms[0] += 3_600_000
    recorder.record(item, replace(event, note=f"refused: {TOKEN}"))
    bodies = [body.decode() for *_, body in server.seen]
    assert len(bodies) == 2
    assert not [body for body in bodies if TOKEN[:10] in body]
    assert json.loads(bodies[1])["message"] == f"refused: {MASK}"
