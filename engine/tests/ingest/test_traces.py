"""Spans of OpenTelemetry, as a collector gets them; operations end the same with and without it."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.ingest.operation.operation import (
    CreateTable,
    RunService,
)
from tideline.ingest.operation.result import Outcome
from tideline.lake_table import LakeTable
from tideline.secret_values import masked, note_secrets
from tideline.testing.loopback_server import LoopbackServer
from tideline.testing.people_ingest import people_ingest, run_on_people
from tideline.testing.trace_receiver import TraceReceiver
from tideline.tracing import (
    AttemptSpans,
    SpanPlace,
    record_span,
    send_spans,
    traced,
    traced_commit,
)

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
PARENT = SpanPlace.first("a table", "an operation").child("job")


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[TraceReceiver]:
    receiver = TraceReceiver()
    with receiver.serve() as server:
        monkeypatch.setenv(ENDPOINT, server.url)
        yield receiver


def test_an_ingest_is_a_span_with_its_commit_below_it(
    receiver: TraceReceiver, tmp_path: Path
) -> None:
    done = run_on_people(tmp_path, people_ingest(tmp_path), traceparent=PARENT.traceparent)
    assert done.outcome is Outcome.SUCCEEDED
    assert receiver.path("commit") == ["ingest people", "commit"]
    whole, commit = receiver.named("ingest people"), receiver.named("commit")
    assert whole.trace_id == commit.trace_id == f"{PARENT.trace_id:032x}"
    assert whole.parent_id == f"{PARENT.span_id:016x}"
    assert whole.service == "tideline-engine"
    assert whole.attributes == {
        "tideline.operation": "people-1",
        "tideline.kind": "ingest",
        "tideline.table": "air/people",
        "tideline.location": f"file://{tmp_path}/table",
        "tideline.outcome": "succeeded",
        "tideline.instant": done.instant,
        "tideline.rows_written": 3,
        "tideline.bytes_written": done.bytes_written,
    }
    assert commit.attributes["tideline.instant"] == done.instant
    assert whole.events
    assert whole.started_ns <= commit.started_ns < commit.ended_ns <= whole.ended_ns
    assert whole.error is commit.error is None


def test_a_process_is_part_of_the_span_that_its_environment_names(
    receiver: TraceReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEPARENT", PARENT.traceparent)
    run_on_people(tmp_path, CreateTable())
    assert receiver.named("create").parent_id == f"{PARENT.span_id:016x}"


@pytest.mark.parametrize("parent", ["", "nonsense", "00-00-00-01"])
def test_without_one_it_is_a_trace_of_its_own(
    parent: str, receiver: TraceReceiver, tmp_path: Path
) -> None:
    run_on_people(tmp_path, CreateTable(), traceparent=parent)
    assert receiver.named("create").parent_id == ""


def test_a_failure_says_why(receiver: TraceReceiver, tmp_path: Path) -> None:
    run_on_people(tmp_path, CreateTable())
    wrong = run_on_people(tmp_path, RunService(ARCHIVAL, "", {"hoodie.keep.min.commits": "many"}))
    failed = receiver.named("archival")
    assert failed.error == wrong.message
    assert failed.attributes["error.type"] == wrong.error
    assert failed.attributes["tideline.outcome"] == "failed"


def test_an_interruption_is_sent_too(receiver: TraceReceiver, tmp_path: Path) -> None:
    def stopped(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_on_people(tmp_path, people_ingest(tmp_path), progress=stopped)
    assert receiver.named("ingest people").error == "KeyboardInterrupt: "


def test_commits_of_the_library_are_spans_as_well(receiver: TraceReceiver, tmp_path: Path) -> None:
    table = LakeTable.create(
        str(tmp_path / "people"), schema=pa.schema([("id", pa.int64())]), record_key=["id"]
    )
    with traced("my work"):
        table.write(pa.table({"id": [1]}))
    send_spans()
    assert receiver.path("commit") == ["my work", "commit"]
    assert receiver.named("commit").attributes["tideline.table"].endswith("/people")


def test_secrets_are_masked_and_tracebacks_are_not_sent(receiver: TraceReceiver) -> None:
    note_secrets(["a-secret-of-the-store"])
    with (
        pytest.raises(ValueError, match="a-secret"),
        traced_commit("s3://lake/a-secret-of-the-store", 1) as span,
    ):
        span.note("with a-secret-of-the-store")
        raise ValueError("a-secret-of-the-store is refused")
    send_spans()
    (sent,) = receiver.spans
    assert "a-secret" not in str(sent)
    assert sent.error == "ValueError: *** is refused"
    assert sent.events == ("with ***",)


def test_headers_reach_the_collector(
    receiver: TraceReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20mine-and-secret")
    with traced("work"):
        pass
    send_spans()
    assert receiver.headers[0]["authorization"] == "Bearer mine-and-secret"
    assert masked("refused: Bearer mine-and-secret") == "refused: ***"


def test_what_stands_in_the_resource_can_be_set(
    receiver: TraceReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "lake")
    with traced("work"):
        pass
    send_spans()
    assert receiver.named("work").service == "lake"


def test_ids_are_the_same_wherever_they_are_made(receiver: TraceReceiver) -> None:
    spans = AttemptSpans.of("uid-1", "people-ingest-1", 2)
    assert spans == AttemptSpans.of("uid-1", "people-ingest-1", 2)
    others = [
        AttemptSpans.of("uid-2", "people-ingest-1", 2),
        AttemptSpans.of("uid-1", "people-ingest-2", 2),
        AttemptSpans.of("uid-1", "people-ingest-1", 3),
    ]
    assert len({item.job.trace_id for item in (spans, *others)}) == 4
    record_span("job", spans.job, started_ms=20, ended_ms=30, attributes={}, failure="too late")
    record_span("reconcile", spans.reconcile, started_ms=10, ended_ms=20, attributes={})
    with traced("ingest", parent=spans.job.traceparent):
        pass
    send_spans()
    assert receiver.path("ingest") == ["reconcile", "job", "ingest"]
    job = receiver.named("job")
    assert (job.started_ns, job.ended_ns, job.error) == (20_000_000, 30_000_000, "too late")
    assert job.service == "tideline-operator"


@pytest.mark.parametrize(
    ("name", "value"),
    [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none"), (ENDPOINT, "")],
)
def test_it_is_off_where_it_is_disabled(
    name: str, value: str, receiver: TraceReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    run_on_people(tmp_path, CreateTable())
    assert receiver.spans == []


def test_without_a_collector_the_library_is_not_imported() -> None:
    program = (
        "import sys\n"
        "from tideline.tracing import *\n"
        "with traced('work') as span:\n"
        "    span.note('a')\n"
        "    span.set({'a': 1})\n"
        "    span.fail('b')\n"
        "place = AttemptSpans.of('a', 'b', 1).job\n"
        "record_span('job', place, started_ms=1, ended_ms=2, attributes={})\n"
        "send_spans()\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], env={}).returncode == 0


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "no address"])
def test_a_collector_that_is_away_costs_nothing_but_its_spans(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(ENDPOINT, url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with caplog.at_level(logging.WARNING):
        done = run_on_people(tmp_path, people_ingest(tmp_path))
    assert (done.outcome, done.rows_inserted) == (Outcome.SUCCEEDED, 3)
    assert caplog.text


def test_a_collector_that_refuses_costs_nothing_but_its_spans(
    receiver: TraceReceiver, tmp_path: Path
) -> None:
    receiver.status = 403
    assert run_on_people(tmp_path, people_ingest(tmp_path)).outcome is Outcome.SUCCEEDED
    assert receiver.headers
    assert receiver.spans == []


def test_a_collector_that_hangs_is_waited_for_a_few_seconds_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()

    class Hanging(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            released.wait(30)

    with LoopbackServer(Hanging) as server:
        monkeypatch.setenv(ENDPOINT, server.url)
        with traced("work"):
            pass
        started_s = time.monotonic()
        with caplog.at_level(logging.WARNING):
            send_spans(timeout_s=0.3)
        took_s = time.monotonic() - started_s
        released.set()
    assert took_s < 5
    assert "spans of OpenTelemetry were not sent in time" in caplog.text


def test_an_installation_without_the_library_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:1/without-the-library")
    with caplog.at_level(logging.WARNING), traced("work"):
        pass
    assert "[tracing]" in caplog.text
