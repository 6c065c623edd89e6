"""Executors that a quota refuses: reported with the cluster's message, before Spark starts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tideline.cli.execute_operation import run_operation
from tideline.ingest.executors import executor_admission
from tideline.ingest.executors.executor_admission import (
    EXECUTORS_REFUSED,
    ExecutorsRefusedError,
    check_executors,
)
from tideline.ingest.executors.kubernetes_account import KubernetesAccount
from tideline.ingest.executors.kubernetes_pods import SparkPods, ThisPod
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.ingest.sources.files.arrived import FileRange
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.look import list_arrived
from tideline.storage.location import StoreLocation
from tideline_operator.api_objects import PODS, ApiResource, Manifest
from tideline_operator.decide.planned_operation import ingest_operation
from tideline_operator.decide.planner import plan
from tideline_operator.report.status import observed_status, operation_finished, operation_started
from tideline_operator.resources.status import ConditionType, LakeTableStatus
from tideline_operator.testing.api_server import ADMIN, ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.eventually import eventually
from tideline_operator.testing.table_states import EMPTY, FILES, NOW_MS, resolved, seen, starts

QUOTAS = ApiResource("", "v1", "resourcequotas", "ResourceQuota")
ACCOUNTS = ApiResource("", "v1", "serviceaccounts", "ServiceAccount")


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        # No controller makes it here, and pods need one.
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        case.api.create(ACCOUNTS, account, namespace)
        yield case


def put_quota(case: ControllerCase, hard: Mapping[str, str], used: Mapping[str, str]) -> None:
    quota: Manifest = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small", "namespace": case.namespace},
        "spec": {"hard": dict(hard)},
    }
    case.api.create(QUOTAS, quota, case.namespace)
    status = {"status": {"hard": dict(hard), "used": dict(used)}}
    case.api.patch(QUOTAS, "small", status, case.namespace, subresource="status")


def executors(folder: Path, memory_mib: int = 2048) -> SparkPods:
    template = folder / "executor-pod.json"
    spec = {"securityContext": {"runAsNonRoot": True}, "containers": [{"name": "engine"}]}
    template.write_text(json.dumps({"metadata": {"labels": {"a": "b"}}, "spec": spec}))
    return SparkPods(
        image="engine:1",
        pull_policy="IfNotPresent",
        driver_memory_bytes=1 << 30,
        executor_memory_bytes=memory_mib << 20,
        executor_cpu="500m",
        executor_slots=1,
        executors_min=0,
        executors_max=2,
        executor_template=str(template),
    )


def account_of(server: ApiServer, folder: Path) -> KubernetesAccount:
    token, authorities = folder / "token", folder / "ca.crt"
    token.write_text(server.token_of(ADMIN))
    authorities.write_bytes(server.authority.read_bytes())
    return KubernetesAccount(token, authorities)


@pytest.mark.api_server
def test_a_quota_without_room_is_reported_with_resource_and_amount(
    case: ControllerCase, api_server: ApiServer, tmp_path: Path
) -> None:
    pod = ThisPod("driver", case.namespace, "10.0.0.1", api_server.url)
    account = account_of(api_server, tmp_path)
    check_executors(executors(tmp_path), pod, account)
    put_quota(case, {"requests.memory": "3Gi"}, {"requests.memory": "2Gi"})

    def refusal() -> str:
        try:
            check_executors(executors(tmp_path), pod, account)
        except ExecutorsRefusedError as error:
            return str(error)
        return ""

    message = eventually(refusal, "the quota is in force")
    for words in ("exceeded quota: small", "requested: requests.memory=2Gi", "limited:",
                  "spec.resources.executor"):  # fmt: skip
        assert words in message
    check_executors(executors(tmp_path, memory_mib=512), pod, account)
    assert case.api.list(PODS, case.namespace)[0] == []


@pytest.mark.api_server
def test_a_driver_whose_executors_are_refused_ends_before_it_starts_spark(
    case: ControllerCase,
    api_server: ApiServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_quota(case, {"requests.memory": "1Gi"}, {"requests.memory": "1Gi"})
    account = account_of(api_server, tmp_path)
    monkeypatch.setattr("tideline.cli.execute_operation.KubernetesAccount", lambda: account)
    monkeypatch.setattr("tideline.cli.execute_operation.os._exit", lambda _: None)
    spark_pods = tmp_path / "spark-pods.json"
    spark_pods.write_text(executors(tmp_path).to_json())
    # One file of one row would need none.
    table = resolved(properties={"tideline.engine.small": "spark"})
    body = pa.BufferOutputStream()
    parquet.write_table(pa.table({"id": ["a"], "city": ["b"], "ts": [1]}), body)
    (place,) = table.sources["landing"].places
    landing = StoreLocation.of(place.uri).open()
    landing.put("f.parquet", body.getvalue().to_pybytes())
    files = list_arrived(landing, FileFormat.PARQUET).files
    operation = ingest_operation(table, table.spec.ingest[0], FileRange(files), generation=0)
    file, log = tmp_path / "operation.json", tmp_path / "termination-log"
    file.write_text(json.dumps(operation.to_json_object()))
    host, _, port = api_server.url.removeprefix("https://").partition(":")
    environment = {
        "TIDELINE_SPARK_PODS": str(spark_pods),
        "TIDELINE_TERMINATION_LOG": str(log),
        "POD_NAME": "driver",
        "POD_NAMESPACE": case.namespace,
        "POD_IP": "10.0.0.1",
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
    }
    pod = ThisPod.of(environment)

    def is_refused() -> bool:
        try:
            check_executors(executors(tmp_path), pod, account)
        except ExecutorsRefusedError:
            return True
        return False

    eventually(is_refused, "the quota is in force")
    started_s = time.monotonic()
    assert run_operation(str(file), environment) == 4
    assert time.monotonic() - started_s < 10.0
    result = OperationResult.from_json_object(json.loads(log.read_text()))
    assert (result.error, result.is_safe_to_retry) == (EXECUTORS_REFUSED, True)
    assert "exceeded quota: small" in result.message
    assert "Py4J" not in result.message


def test_an_api_server_that_does_not_answer_refuses_nothing(tmp_path: Path) -> None:
    pod = ThisPod("driver", "lake", "10.0.0.1", "https://127.0.0.1:1")
    (tmp_path / "token").write_text("t")
    account = KubernetesAccount(tmp_path / "token", tmp_path / "missing.crt")
    check_executors(executors(tmp_path), pod, account)


def test_executors_ask_for_what_spark_will_ask_for(tmp_path: Path) -> None:
    pod = executor_admission.executor_pod(executors(tmp_path))
    (container,) = pod["spec"]["containers"]
    assert container["name"] == "engine"
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "2048Mi"}
    assert container["resources"]["limits"] == {"memory": "2048Mi"}
    assert pod["spec"]["securityContext"] == {"runAsNonRoot": True}
    assert pod["metadata"]["labels"] == {"a": "b"}


def test_refused_executors_are_a_reason_of_their_own() -> None:
    (start,) = starts(plan(resolved(), EMPTY, seen(*FILES), NOW_MS))
    status = operation_started(LakeTableStatus(), start.operation, 1, NOW_MS)
    result = OperationResult(
        start.operation.id,
        Outcome.FAILED,
        message="executors are refused: exceeded quota",
        exit_code=4,
        error=EXECUTORS_REFUSED,
    )
    status = operation_finished(status, result, NOW_MS)
    actions = plan(resolved(), status, seen(*FILES), NOW_MS)
    status = observed_status(resolved(), status, seen(*FILES), actions, NOW_MS)
    ready = next(item for item in status.conditions if item.type is ConditionType.READY)
    assert (ready.reason, ready.message) == ("ExecutorsRefused", result.message)
    assert status.operations[-1].error == "ExecutorsRefused"
