"""Events of OpenLineage, as a server gets them; operations end the same with and without it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tideline.distribution import installed_version
from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.ingest.execute.lineage import Dataset, LineageRun
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import (
    CatalogEntry,
    CreateTable,
    Operation,
    RunService,
    TableTarget,
)
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.testing.people_ingest import people_ingest, people_table, run_on_people

KEY = "a-key-of-the-lineage-server"


@dataclass
class Receiver:
    """A server that keeps what it gets."""

    events: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    status: int = 201
    url: str = ""

    def states(self) -> list[str]:
        return [event["eventType"] for event in self.events]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    received = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.events.append(json.loads(body))
            received.headers.append(dict(self.headers))
            received.paths.append(self.path)
            self.send_response(received.status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    received.url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("OPENLINEAGE_URL", received.url)
    yield received
    server.shutdown()
    server.server_close()


def test_an_ingest_is_a_run_with_its_source_its_table_and_what_it_wrote(
    receiver: Receiver, tmp_path: Path
) -> None:
    done = run_on_people(tmp_path, people_ingest(tmp_path))
    assert done.outcome is Outcome.SUCCEEDED
    assert receiver.states() == ["START", "COMPLETE"]
    started, completed = receiver.events
    assert started["run"]["runId"] == completed["run"]["runId"]
    assert completed["job"]["namespace"] == "tideline"
    assert completed["job"]["name"] == "air/people.ingest.people"
    kind = completed["job"]["facets"]["jobType"]
    assert (kind["processingType"], kind["integration"], kind["jobType"]) == (
        "BATCH",
        "TIDELINE",
        "INGEST",
    )
    (source,) = completed["inputs"]
    assert (source["namespace"], source["name"]) == ("file", f"{tmp_path}/landing")
    (table,) = completed["outputs"]
    assert (table["namespace"], table["name"]) == ("file", f"{tmp_path}/table")
    assert table["facets"]["version"]["datasetVersion"] == done.instant
    assert table["outputFacets"]["outputStatistics"]["rowCount"] == 3
    assert table["outputFacets"]["outputStatistics"]["size"] == done.bytes_written
    assert started["outputs"][0].get("outputFacets", {}) == {}
    engine = completed["run"]["facets"]["processing_engine"]
    assert (engine["name"], engine["version"]) == ("tideline", installed_version())
    assert set(receiver.paths) == {"/api/v1/lineage"}


def test_a_failure_says_why_and_work_without_a_source_has_no_other_input(
    receiver: Receiver, tmp_path: Path
) -> None:
    assert run_on_people(tmp_path, CreateTable()).outcome is Outcome.SUCCEEDED
    assert receiver.states() == ["START", "COMPLETE"]
    assert receiver.events[1]["inputs"] == []
    wrong = run_on_people(tmp_path, RunService(ARCHIVAL, "", {"hoodie.keep.min.commits": "many"}))
    assert wrong.outcome is Outcome.FAILED
    assert receiver.states()[2:] == ["START", "FAIL"]
    failed = receiver.events[-1]
    assert failed["run"]["facets"]["errorMessage"]["message"] == wrong.message
    assert failed["job"]["name"] == "air/people.archival"
    assert failed["inputs"][0]["name"] == failed["outputs"][0]["name"] == f"{tmp_path}/table"


def test_an_error_that_is_none_of_ours_is_a_failure_too(receiver: Receiver, tmp_path: Path) -> None:
    def stopped(_: str) -> None:
        raise KeyboardInterrupt

    work = people_ingest(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_on_people(tmp_path, work, progress=stopped)
    assert receiver.states() == ["START", "FAIL"]


def test_a_rehearsal_has_no_events(receiver: Receiver, tmp_path: Path) -> None:
    assert (
        run_on_people(tmp_path, people_ingest(tmp_path, is_dry=True)).outcome is Outcome.SUCCEEDED
    )
    assert receiver.events == []


def test_a_key_is_a_bearer_token_and_the_namespace_and_endpoint_can_be_set(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_API_KEY", KEY)
    monkeypatch.setenv("OPENLINEAGE_ENDPOINT", "events/here")
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "lake")
    run_on_people(tmp_path, people_ingest(tmp_path))
    assert receiver.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert receiver.paths[0] == "/events/here"
    assert receiver.events[0]["job"]["namespace"] == "lake"


def test_settings_in_the_current_folder_are_not_read(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "hostile"
    folder.mkdir()
    (folder / "openlineage.yml").write_text(
        "transport: {type: http, url: 'http://127.0.0.1:9', custom_headers: {planted: yes}}\n"
        "filters: [{type: regex, regex: '.*'}]\n"
    )
    monkeypatch.chdir(folder)
    run_on_people(tmp_path, people_ingest(tmp_path))
    assert receiver.states() == ["START", "COMPLETE"]
    assert "planted" not in receiver.headers[0]


@pytest.mark.parametrize(
    ("name", "value"), [("OPENLINEAGE_DISABLED", "true"), ("OPENLINEAGE_URL", "")]
)
def test_it_is_off_where_it_is_disabled(
    name: str, value: str, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    run_on_people(tmp_path, people_ingest(tmp_path))
    assert receiver.events == []


def test_without_a_server_of_events_the_library_is_not_imported(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from tideline.ingest.execute.lineage import LineageRun\n"
        "from tideline.ingest.operation.operation import *\n"
        "from tideline.ingest.location import Location\n"
        f"table = TableTarget('t', Location('file://{tmp_path}'), ('id',))\n"
        "LineageRun.start(Operation('x', table, CreateTable()))\n"
        "sys.exit(any(name.startswith('openlineage') for name in sys.modules))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], env={}).returncode == 0


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "no address", "http://127.0.0.1:99999999"])
def test_a_server_that_is_away_costs_nothing_but_its_events(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", url)
    with caplog.at_level(logging.WARNING):
        done = run_on_people(tmp_path, people_ingest(tmp_path))
    assert (done.outcome, done.rows_inserted) == (Outcome.SUCCEEDED, 3)
    assert "OpenLineage" in caplog.text or "OPENLINEAGE_URL" in caplog.text


def test_a_server_that_refuses_costs_nothing_but_its_events(
    receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.status = 403
    with caplog.at_level(logging.WARNING):
        assert run_on_people(tmp_path, people_ingest(tmp_path)).outcome is Outcome.SUCCEEDED
    assert "was not sent" in caplog.text


def test_a_server_that_hangs_is_waited_for_a_few_seconds_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()
    operation = Operation("x", people_table(tmp_path), CreateTable())

    def hang(_: object) -> None:
        released.wait(30)

    run = LineageRun(operation, hang, "0190a1b2-0000-7000-8000-000000000000", seconds_at_end=0.2)
    started_s = time.monotonic()
    try:
        with caplog.at_level(logging.WARNING):
            run.end(OperationResult("x", Outcome.SUCCEEDED))
    finally:
        released.set()
    assert time.monotonic() - started_s < 10
    assert "OpenLineage: 1 event not sent in time" in caplog.text


@pytest.mark.parametrize(
    ("uri", "namespace", "name"),
    [
        ("s3://lake/orders/eu", "s3://lake", "orders/eu"),
        ("s3a://lake/orders/", "s3://lake", "orders"),
        ("s3://lake", "s3://lake", "/"),
        ("file:///data/orders", "file", "/data/orders"),
        ("/data/orders", "file", "/data/orders"),
        ("gs://lake/orders", "gs://lake", "orders"),
    ],
)
def test_datasets_are_named_as_the_specification_names_them(
    uri: str, namespace: str, name: str
) -> None:
    assert Dataset.at(uri) == Dataset(namespace, name)


def test_a_table_of_a_catalog_is_named_by_it() -> None:
    entry = CatalogEntry("lake", "air.flights", (("uri", "https://catalog.example/api"),))
    table = TableTarget("t", Location(""), ("id",), catalog=entry)
    assert Dataset.of_table(table) == Dataset("https://catalog.example/api", "air.flights")
