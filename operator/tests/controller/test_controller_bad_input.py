"""A user's mistake ends in a condition that says what to do, and never in a hot loop."""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tideline.testing.minio_server import MinioServer
from tideline_operator.api_objects import LAKE_STORES, LAKE_TABLES, SECRETS, ApiResource, Manifest
from tideline_operator.controller.controller import Controller
from tideline_operator.launch.engine_pod import LaunchSettings
from tideline_operator.report.status import _RETRY_FIRST_MS
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.api_server_fixtures import make_namespace, open_namespace
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.simulated_cluster import CarryingOut

pytestmark = pytest.mark.api_server

QUOTAS = ApiResource("", "v1", "resourcequotas", "ResourceQuota")
CALM_S = 5.0
CALM_TURNS = 6
"""Turns that one table may take in `CALM_S` seconds without any change."""


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


def put_secret(case: ControllerCase, **values: str) -> None:
    data = {name: base64.b64encode(text.encode()).decode() for name, text in values.items()}
    manifest: Manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "minio-credentials", "namespace": case.namespace},
        "data": data,
    }
    case.api.delete(SECRETS, "minio-credentials", case.namespace)
    case.api.create(SECRETS, manifest, case.namespace)


def put_store(case: ControllerCase, endpoint: str = "http://127.0.0.1:1") -> None:
    manifest: Manifest = {
        "apiVersion": LAKE_STORES.api_version,
        "kind": LAKE_STORES.kind,
        "metadata": {"name": "minio", "namespace": case.namespace},
        "spec": {"endpoint": endpoint, "credentials": {"secretName": "minio-credentials"}},
    }
    case.api.apply(LAKE_STORES, manifest, case.namespace)


def on_s3(bucket: str = "lake") -> dict[str, Any]:
    return {"storeRef": "minio", "location": f"s3://{bucket}/people", "ingest": None}


def assert_calm(case: ControllerCase) -> None:
    """Turns and writes stay few while nothing changes."""
    turns, writes = case.turns(), case.requests("apply", "laketables")
    time.sleep(CALM_S)
    assert case.turns() - turns <= CALM_TURNS
    assert case.requests("apply", "laketables") - writes <= 1


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def speaks_of_a_hudi_table(case: ControllerCase, name: str) -> bool:
    return "Hudi table" in case.condition("Ready", name).get("message", "")


def place_of_twin_is_taken(case: ControllerCase) -> bool:
    return case.condition("Ready", "twin").get("reason") == "LocationTaken"


def ready(case: ControllerCase) -> tuple[str, str, str]:
    condition = case.condition("Ready")
    return condition.get("status", ""), condition.get("reason", ""), condition.get("message", "")


@pytest.mark.slow
def test_a_missing_store_is_named_and_waited_for(case: ControllerCase) -> None:
    case.declare(**on_s3())
    case.start()
    case.until(lambda: ready(case)[1] == "StoreMissing", "the condition")
    assert "spec.storeRef: there is no LakeStore 'minio'" in ready(case)[2]
    assert_calm(case)
    put_store(case)
    case.until(lambda: ready(case)[1] == "SecretMissing", "the store was seen", 3.0)
    assert "there is no Secret 'minio-credentials'" in ready(case)[2]
    assert_calm(case)


@pytest.mark.slow
@pytest.mark.minio
def test_tables_recover_when_credentials_or_a_missing_bucket_are_fixed(
    case: ControllerCase, minio_server: MinioServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline_operator.controller.next_look.LOOK_AGAIN_FIRST_S", 2.0)
    monkeypatch.setattr("tideline_operator.controller.next_look.LOOK_AGAIN_LAST_S", 2.0)
    monkeypatch.setattr("tideline_operator.controller.connections.FRESH_S", 1.0)
    bucket = f"bucket-{case.namespace}"
    put_store(case, minio_server.endpoint)
    put_secret(case, AWS_ACCESS_KEY_ID="x")
    case.declare(**on_s3(bucket))
    case.start()
    case.until(lambda: ready(case)[1] == "SecretIncomplete", "the Secret lacks a key")
    assert "AWS_SECRET_ACCESS_KEY" in ready(case)[2]
    put_secret(case, AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="wrong")
    case.until(lambda: "access denied" in ready(case)[2], "the credentials are refused")
    assert_calm(case)
    put_secret(
        case,
        AWS_ACCESS_KEY_ID=minio_server.access_key,
        AWS_SECRET_ACCESS_KEY=minio_server.secret_key,
    )
    case.until(lambda: ready(case)[1] == "MissingBucket", "the bucket is missing")
    minio_server.create_bucket(bucket)
    job = case.until_job("create")
    environment = job["spec"]["template"]["spec"]["containers"][0]["env"]
    keys = {item["name"]: item.get("valueFrom", {}).get("secretKeyRef") for item in environment}
    assert keys["AWS_SECRET_ACCESS_KEY"]["name"] == "minio-credentials"
    assert minio_server.secret_key not in str(job) + str(case.table())


def test_an_invalid_spec_leaves_the_last_valid_one_in_force(case: ControllerCase) -> None:
    case.declare()
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
    ingest = case.table()["spec"]["ingest"][0]
    wrong = {**ingest, "trigger": {"cron": "99 * * * *"}}
    case.declare(ingest=[wrong])
    case.until(lambda: case.condition("SpecValid").get("status") == "False", "it is not valid")
    message = case.condition("SpecValid")["message"]
    assert "spec.ingest[0].trigger.cron" in message and "'99'" in message
    assert ready(case)[1] == "SpecInvalid"
    case.land("a.parquet")
    case.cluster.carry_out(case.until_job("ingest"))
    case.until(
        lambda: case.status().get("timeline", {}).get("completed") == 1, "the old spec works on"
    )
    time.sleep(1.0)
    case.stop()
    case.start()
    assert_calm(case)
    case.declare(ingest=[ingest])
    case.until_ready()


def test_a_setting_that_an_upgrade_refuses_is_named_and_the_table_is_left_alone(
    case: ControllerCase,
) -> None:
    """As left by an operator without the registry: spec and last valid spec name such a setting."""
    case.declare()
    case.declare("other")
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
        case.until_ready("other")
    time.sleep(1.1)
    case.declare("twin", location=f"file://{case.folder}/people", ingest=None)
    case.until(lambda: place_of_twin_is_taken(case), "it is refused")
    case.stop()
    before = {job["metadata"]["name"] for job in case.cluster.all_jobs()}
    lock = "hoodie.write.lock.provider"
    case.declare(properties={lock: "org.example.Zoo"}, deletionPolicy="Retain")
    kept = {"status": {"lastValidSpec": case.table()["spec"]}}
    case.api.patch(LAKE_TABLES, "people", kept, case.namespace, subresource="status")
    files = files_below(case.folder / "people")
    case.land("a.parquet")
    case.land("b.parquet", table="other")
    case.start()
    case.until(lambda: ready(case)[1] == "SpecInvalid", "the condition")
    status, _, message = ready(case)
    assert status == "False"
    assert f"spec.properties.{lock}" in message and "StorageBasedLockProvider" in message
    assert "nothing is done with the table" in message and "stays in force" not in message
    assert lock in case.condition("SpecValid")["message"]
    case.until_event("SpecInvalid")
    # Other tables continue.
    job = case.until_job("ingest")
    assert job["metadata"]["labels"]["tideline.dev/table"] == "other"
    case.cluster.carry_out(job)
    case.until_ready("other")
    started = {job["metadata"]["name"]: job for job in case.cluster.all_jobs()}
    labels = [started[name]["metadata"]["labels"] for name in started.keys() - before]
    assert {label["tideline.dev/table"] for label in labels} == {"other"}
    assert files_below(case.folder / "people") == files
    # The table keeps its place.
    assert place_of_twin_is_taken(case)
    case.api.delete(LAKE_TABLES, "twin", case.namespace)
    case.change("people", {"spec": {"properties": None}})
    case.until_job("ingest", but=tuple(started))
    with CarryingOut(case.cluster):
        case.until_ready()


@pytest.mark.slow
def test_a_spec_that_was_never_valid_is_reported(case: ControllerCase) -> None:
    case.declare(services={"maintenanceWindow": "99 * * * *"})
    case.start()
    case.until(lambda: ready(case)[1] == "SpecInvalid", "the condition")
    assert "spec.services.maintenanceWindow" in ready(case)[2]
    assert case.condition("SpecValid")["status"] == "False"
    assert_calm(case)
    assert case.cluster.all_jobs() == []


@pytest.mark.slow
def test_the_second_table_on_one_place_is_refused_until_the_first_is_gone(
    case: ControllerCase,
) -> None:
    case.declare()
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
    time.sleep(1.1)
    case.declare("twin", location=f"file://{case.folder}/people", ingest=None)
    case.until(
        lambda: case.condition("Ready", "twin").get("reason") == "LocationTaken", "it is refused"
    )
    assert f"LakeTable {case.namespace}/people" in case.condition("Ready", "twin")["message"]
    assert_calm(case)
    case.api.delete(LAKE_TABLES, "people", case.namespace)
    case.until_ready("twin")


def test_a_table_is_not_created_in_or_around_one_of_others(case: ControllerCase) -> None:
    case.declare()
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
    case.api.delete(LAKE_TABLES, "people", case.namespace)
    inner = f"file://{case.folder}/people/inner"
    for name, location in (("inner", inner), ("outer", f"file://{case.folder}")):
        case.declare(name, location=location, ingest=None)
        # Until the controller has seen the deletion, the place belongs to that LakeTable.
        case.until(
            partial(speaks_of_a_hudi_table, case, name),
            "it is refused for the table that is there",
        )
        assert case.condition("Ready", name)["reason"] == "LocationTaken"
        case.until_event("LocationTaken", name)
        case.api.delete(LAKE_TABLES, name, case.namespace)
    names = {job["metadata"]["labels"]["tideline.dev/table"] for job in case.cluster.all_jobs()}
    assert names <= {"people"}


def forbid_jobs(case: ControllerCase) -> None:
    """Let the API server refuse every new Job."""
    quota: Manifest = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-jobs", "namespace": case.namespace},
        "spec": {"hard": {"count/jobs.batch": "0"}},
    }
    case.api.create(QUOTAS, quota, case.namespace)
    status = {"status": {"hard": {"count/jobs.batch": "0"}, "used": {"count/jobs.batch": "0"}}}
    case.api.patch(QUOTAS, "no-jobs", status, case.namespace, subresource="status")
    time.sleep(1.0)


def test_a_refused_start_is_retried_though_no_event_follows(
    case: ControllerCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = Controller._table_changed

    def is_new(controller: Controller, before: Manifest | None, after: Manifest | None) -> None:
        if before is None:
            changed(controller, before, after)

    monkeypatch.setitem(_RETRY_FIRST_MS, False, 1_000)
    # Events of the controller's own writes of the status change nothing if they come later.
    monkeypatch.setattr(Controller, "_table_changed", is_new)
    forbid_jobs(case)
    case.declare()
    case.start()
    case.until(lambda: ready(case)[1] == "OperationFailed", "the condition")
    case.until(lambda: case.operations()[0].get("attempt") == 2, "it is tried again")


@pytest.mark.slow
def test_a_full_quota_is_a_condition_and_retried_with_growing_delays(case: ControllerCase) -> None:
    forbid_jobs(case)
    case.declare()
    case.start()
    case.until(lambda: ready(case)[1] == "OperationFailed", "the condition")
    assert "exceeded quota" in ready(case)[2]
    assert_calm(case)
    assert case.requests("create", "jobs") <= 2
    case.until_event("OperationRefused")


def test_a_pod_template_that_does_not_fit_the_operators_is_a_condition(
    case: ControllerCase,
) -> None:
    caches = {"name": "caches", "hostPath": {"path": "/var/cache"}}
    mount = {"name": "caches", "mountPath": "/caches"}
    mine = {"spec": {"containers": [{"name": "engine", "volumeMounts": [mount]}]}}
    case.declare(podTemplate=mine)
    operators = {"spec": {"volumes": [caches]}}
    case.start(launch=LaunchSettings(image="engine", pod_template=operators))
    case.until(lambda: ready(case)[1] == "OperationFailed", "the condition")
    assert "podTemplate" in ready(case)[2]
    assert_calm(case)


def test_a_table_that_differs_from_the_spec_is_left_alone(case: ControllerCase) -> None:
    case.declare()
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
    case.stop()
    case.api.delete(LAKE_TABLES, "people", case.namespace)
    case.declare("other", location=f"file://{case.folder}/people", ordering=["id"], ingest=None)
    case.start()
    case.until(
        lambda: case.condition("Ready", "other").get("reason") == "TableMismatch", "the condition"
    )
    assert "spec.ordering" in case.condition("Ready", "other")["message"]
    assert_calm(case)


def test_an_unreadable_status_is_replaced(case: ControllerCase) -> None:
    case.declare()
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
        case.api.patch(
            LAKE_TABLES, "people", {"status": {"conditions": None, "ingest": None}},
            case.namespace, subresource="status",
        )  # fmt: skip
        case.until_ready()


def test_in_a_namespace_that_is_not_open_nothing_is_read_and_the_command_is_told(
    api_server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOOK_AGAIN_FIRST_S", "LOOK_AGAIN_LAST_S"):
        monkeypatch.setattr(f"tideline_operator.controller.next_look.{name}", 1.0)
    monkeypatch.setattr("tideline_operator.controller.namespace_access.CLOSED_S", 0.5)
    namespace = f"closed-{secrets.token_hex(4)}"
    make_namespace(api_server.api(), namespace, is_open=False)
    with ControllerCase(api_server, namespace, tmp_path) as case:
        put_store(case)
        case.declare(**on_s3())
        case.declare("local")
        case.start(pod_namespace="tideline-system")
        for name in ("people", "local"):
            case.until(partial(is_closed, case, name), "the condition")
            message = case.condition("Ready", name)["message"]
            assert (
                f"kubectl -n {namespace} create rolebinding tideline "
                "--clusterrole=tideline-namespace "
                "--serviceaccount=tideline-system:tideline-operator"
            ) in message
            assert case.status(name)["observedGeneration"] == 1
        assert case.measured("tideline_reconciles_total", result="refused") == 0
        assert case.measured("tideline_reconciles_total", result="error") == 0
        assert case.cluster.all_jobs() == []
        open_namespace(case.api, namespace)
        case.until(lambda: ready(case)[1] == "SecretMissing", "the Secret is looked for")
        with CarryingOut(case.cluster):
            case.until_ready("local")


def is_closed(case: ControllerCase, name: str) -> bool:
    return case.condition("Ready", name).get("reason") == "NamespaceNotOpen"


def test_the_store_of_the_spec_in_force_wakes_a_table_whose_newest_spec_is_not_valid(
    case: ControllerCase,
) -> None:
    case.declare(**on_s3())
    case.start()
    case.until(lambda: ready(case)[1] == "StoreMissing", "it is missing")
    case.change("people", {"spec": {"storeRef": "other", "timezone": "Middle/Earth"}})
    case.until(lambda: ready(case)[1] == "SpecInvalid", "the spec is not valid")
    put_store(case)
    case.until(
        lambda: case.condition("Healthy").get("reason") == "SecretMissing", "it is looked at", 5.0
    )
