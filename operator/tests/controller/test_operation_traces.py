"""The trace of an operation on Kubernetes: the operator's turn, the Job or worker, the engine in
it, its commit."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.storage.location import StoreLocation
from tideline.testing.trace_receiver import ReceivedSpan, TraceReceiver
from tideline.tracing import send_spans
from tideline_operator.api_objects import LAKE_STORES, Manifest
from tideline_operator.launch.engine_pod import LaunchSettings
from tideline_operator.launch.pod_template import engine_container
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.worker_pods import WorkerPods

pytestmark = pytest.mark.api_server

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
Trace = dict[str, ReceivedSpan]
"""The spans of a trace by their names, which are unique in these."""
OFF = {service: {"enabled": False} for service in ("cleaning", "archiving", "clustering")}


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[TraceReceiver]:
    receiver = TraceReceiver()
    with receiver.serve() as server:
        monkeypatch.setenv(ENDPOINT, server.url)
        yield receiver


def start(case: ControllerCase) -> None:
    launch = LaunchSettings("engine", tracing={ENDPOINT: os.environ[ENDPOINT]})
    case.start(launch=launch)


def land(case: ControllerCase) -> None:
    folder = case.folder / "people-landing"
    folder.mkdir(exist_ok=True)
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64())])
    pq.write_table(pa.table({"id": [1, 2], "ts": [1, 1]}, schema=schema), folder / "a.parquet")
    moment = time.time() - 60
    os.utime(folder / "a.parquet", (moment, moment))


def variables(job: Manifest) -> dict[str, str]:
    container = engine_container(job["spec"]["template"])
    return {item["name"]: item.get("value", "") for item in container["env"]}


def no_session(_: Iterable[StoreLocation]) -> Any:
    raise AssertionError("this needs no Spark")


def until_sent(case: ControllerCase, receiver: TraceReceiver, *names: str) -> Trace:
    """The trace that has spans of all these names, once they have come."""

    def look() -> Trace | None:
        send_spans()
        traces = (receiver.trace(span.trace_id) for span in receiver.spans)
        return next((trace for trace in traces if set(names) <= set(trace)), None)

    trace: Trace = case.until(look, f"a trace with {', '.join(names)}")
    return trace


def named(receiver: TraceReceiver, name: str) -> list[ReceivedSpan]:
    send_spans()
    return [span for span in receiver.spans if span.name == name]


def carry_out(case: ControllerCase, job: Manifest) -> OperationResult:
    """What the Job's pod does, with its variables."""
    given = variables(job)
    assert given[ENDPOINT] == os.environ[ENDPOINT]
    result = execute_operation(
        case.cluster.operation_of(job),
        session_factory=no_session,
        traceparent=given["TRACEPARENT"],
    )
    case.cluster.finish(job, result)
    return result


def path_to(trace: Trace, name: str) -> list[str]:
    """The names from the first span of the trace to this one."""
    by_id = {span.span_id: span for span in trace.values()}
    names = [name]
    while above := by_id.get(trace[names[0]].parent_id):
        names.insert(0, above.name)
    return names


def test_one_trace_leads_from_the_turn_by_the_job_to_the_commit(
    case: ControllerCase, receiver: TraceReceiver
) -> None:
    case.declare(services=OFF)
    land(case)
    start(case)
    carry_out(case, case.until_job("create"))
    created = until_sent(case, receiver, "reconcile", "job", "create")
    assert path_to(created, "create") == ["reconcile", "job", "create"]
    job = case.until_job("ingest")
    case.until(lambda: len(named(receiver, "reconcile")) == 2, "the turn that started the ingest")
    # The trace outlives the operator that began it.
    case.stop()
    start(case)
    result = carry_out(case, job)
    assert result.outcome is Outcome.SUCCEEDED, result.message
    trace = until_sent(case, receiver, "reconcile", "job", "commit")
    assert path_to(trace, "commit") == ["reconcile", "job", "ingest landing", "commit"]
    services = (trace["job"].service, trace["commit"].service)
    assert services == ("tideline-operator", "tideline-engine")
    about = trace["job"].attributes
    assert about["k8s.job.name"] == job["metadata"]["name"]
    assert about["k8s.namespace.name"] == case.namespace
    assert about["tideline.table"] == "people"
    assert about["tideline.instant"] == result.instant
    assert trace["job"].error is None
    assert trace["reconcile"].attributes["tideline.reason"] == "1 new file"
    assert trace["reconcile"].started_ns <= trace["reconcile"].ended_ns


def test_an_attempt_that_failed_is_a_trace_of_its_own(
    case: ControllerCase, receiver: TraceReceiver
) -> None:
    case.declare(services=OFF)
    start(case)
    first = case.until_job()
    case.cluster.lose(first)
    lost = until_sent(case, receiver, "reconcile", "job")
    assert lost["job"].error
    assert path_to(lost, "job") == ["reconcile", "job"]
    second = case.until_job(but=(first["metadata"]["name"],))
    traces = {variables(job)["TRACEPARENT"].split("-")[1] for job in (first, second)}
    assert len(traces) == 2
    assert lost["job"].trace_id in traces


def test_what_a_warm_worker_does_is_below_its_operation(
    case: ControllerCase, receiver: TraceReceiver, api_server: ApiServer, tmp_path: Path
) -> None:
    store: Manifest = {
        "apiVersion": LAKE_STORES.api_version,
        "kind": LAKE_STORES.kind,
        "metadata": {"name": "store", "namespace": case.namespace},
        "spec": {"engine": {"warm": {}}},
    }
    case.api.create(LAKE_STORES, store, case.namespace)
    case.declare(storeRef="store", services=OFF)
    land(case)
    start(case)
    with WorkerPods(case, api_server, tmp_path):
        trace = until_sent(case, receiver, "reconcile", "worker", "commit")
    assert path_to(trace, "commit") == ["reconcile", "worker", "ingest landing", "commit"]
    assert trace["worker"].attributes["tideline.worker"]


def test_without_a_collector_pods_have_no_variable_of_it(case: ControllerCase) -> None:
    case.declare(services=OFF)
    case.start()
    assert not {"TRACEPARENT", ENDPOINT} & set(variables(case.until_job()))
