"""The trace of an operation on Kubernetes: the operator's turn, the Job or worker, the engine in
it, its commit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.testing.people_ingest import no_session
from tideline.testing.trace_receiver import ReceivedSpan, Trace, TraceReceiver, path_in
from tideline.tracing import send_spans
from tideline_operator.api_objects import Manifest
from tideline_operator.launch.engine_pod import LaunchSettings
from tideline_operator.launch.pod_template import engine_container
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.worker_pods import WorkerPods

pytestmark = pytest.mark.api_server

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
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


def variables(job: Manifest) -> dict[str, str]:
    container = engine_container(job["spec"]["template"])
    return {item["name"]: item.get("value", "") for item in container["env"]}


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


def test_one_trace_leads_from_the_turn_by_the_job_to_the_commit(
    case: ControllerCase, receiver: TraceReceiver
) -> None:
    case.declare(services=OFF)
    case.land_rows(a=1, b=2)
    start(case)
    carry_out(case, case.until_job("create"))
    created = until_sent(case, receiver, "reconcile", "job", "create")
    assert path_in(created, "create") == ["reconcile", "job", "create"]
    job = case.until_job("ingest")
    case.until(lambda: len(named(receiver, "reconcile")) == 2, "the turn that started the ingest")
    # The trace outlives the operator that began it.
    case.stop()
    start(case)
    result = carry_out(case, job)
    assert result.outcome is Outcome.SUCCEEDED, result.message
    trace = until_sent(case, receiver, "reconcile", "job", "commit")
    assert path_in(trace, "commit") == ["reconcile", "job", "ingest landing", "commit"]
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
    assert path_in(lost, "job") == ["reconcile", "job"]
    second = case.until_job(but=(first["metadata"]["name"],))
    traces = {variables(job)["TRACEPARENT"].split("-")[1] for job in (first, second)}
    assert len(traces) == 2
    assert lost["job"].trace_id in traces


def test_what_a_warm_worker_does_is_below_its_operation(
    case: ControllerCase, receiver: TraceReceiver, api_server: ApiServer, tmp_path: Path
) -> None:
    case.declare_store(engine={"warm": {}})
    case.declare(storeRef="store", services=OFF)
    case.land_rows(a=1, b=2)
    start(case)
    with WorkerPods(case, api_server, tmp_path):
        trace = until_sent(case, receiver, "reconcile", "worker", "commit")
    assert path_in(trace, "commit") == ["reconcile", "worker", "ingest landing", "commit"]
    assert trace["worker"].attributes["tideline.worker"]


def test_without_a_collector_pods_have_no_variable_of_it(case: ControllerCase) -> None:
    case.declare(services=OFF)
    case.start()
    assert not {"TRACEPARENT", ENDPOINT} & set(variables(case.until_job()))
