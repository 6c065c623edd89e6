"""The Job of a worker, what makes two workers alike, and how an operation is handed over."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.ingest.location import Location
from tideline.ingest.operation.assignment import ASSIGNEE_LABEL, ASSIGNMENT_KEY, Assignment
from tideline.ingest.operation.operation import CreateTable, Operation, TableTarget
from tideline_operator.api_objects import Manifest
from tideline_operator.launch.engine_pod import LaunchSettings
from tideline_operator.launch.pod_template import engine_container
from tideline_operator.launch.worker_job import (
    WORKER_LABEL,
    assignment_config_map,
    assignment_of,
    worker_job,
    worker_kind,
    worker_template,
)
from tideline_operator.resources.lake_store import LakeStoreSpec, StoreCredentials
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.schedule import Duration
from tideline_operator.resources.warm import Warm
from tideline_operator.testing.table_states import resolved

SETTINGS = LaunchSettings("localhost/tideline-engine:dev")
STORE: Manifest = {
    "apiVersion": "tideline.dev/v1alpha1",
    "kind": "LakeStore",
    "metadata": {"name": "minio", "uid": "1f"},
}
POD: Manifest = {"metadata": {"name": "worker-pod", "uid": "0f12-34"}}


def table(secret: str = "keys", **spec: Any) -> ResolvedTable:
    store = LakeStoreSpec(credentials=StoreCredentials(secret_name=secret))
    return replace(resolved(storeRef="minio", **spec), stores={"minio": store})


def kind_of(
    given: ResolvedTable,
    versions: tuple[str, ...] = ("7",),
    warm: Warm | None = None,
    settings: LaunchSettings = SETTINGS,
) -> str:
    return worker_kind(worker_template(given, warm or Warm(), settings), versions)


def test_tables_of_the_same_settings_share_workers() -> None:
    other = replace(table(), location=Location("memory://elsewhere"))
    assert kind_of(table()) == kind_of(other)


@pytest.mark.parametrize(
    "other",
    [
        table("other-keys"),
        table(resources={"driver": {"memory": "2Gi"}}),
        table(resources={"driver": {"cpu": "1"}}),
        table(podTemplate={"spec": {"serviceAccountName": "payroll"}}),
        table(podTemplate={"spec": {"nodeSelector": {"pool": "a"}}}),
        table(podTemplate={"metadata": {"labels": {"team": "a"}}}),
        table(engine={"sparkConf": {"spark.sql.files.maxPartitionBytes": "1m"}}),
    ],
    ids=["secret", "memory", "cpu", "account", "nodes", "labels", "conf"],
)
def test_tables_of_other_settings_do_not(other: ResolvedTable) -> None:
    assert kind_of(table()) != kind_of(other)


def test_another_image_another_limit_and_a_rotated_secret_make_another_kind() -> None:
    kinds = {
        kind_of(table()),
        kind_of(table(), versions=("8",)),
        kind_of(table(), warm=Warm(idle=Duration(1_000))),
        kind_of(table(), settings=replace(SETTINGS, image="localhost/tideline-engine:next")),
    }
    assert len(kinds) == 4


def test_a_worker_has_no_port_and_its_kind_as_a_label() -> None:
    template = worker_template(table(), Warm(), SETTINGS)
    job = worker_job("w", table(), template, "abc", owner=STORE, settings=SETTINGS)
    pod = job["spec"]["template"]
    container = engine_container(pod)
    assert "ports" not in container
    assert pod["metadata"]["labels"][WORKER_LABEL] == "abc"
    assert pod["spec"]["automountServiceAccountToken"] is True
    assert pod["spec"]["restartPolicy"] == "Never"
    assert job["spec"]["backoffLimit"] == 0
    assert job["metadata"]["ownerReferences"][0]["kind"] == "LakeStore"
    names = {item["name"]: item.get("value") for item in container["env"]}
    assert (names["TIDELINE_IDLE_S"], names["TIDELINE_LIFETIME_S"]) == ("300.0", "14400.0")
    assert {"POD_UID", "POD_NAME", "POD_NAMESPACE", "POD_IP"} <= set(names)


def test_a_pod_template_cannot_take_the_label_that_says_what_fits() -> None:
    given = table()
    forged = {"metadata": {"labels": {WORKER_LABEL: "forged"}}}
    spec = replace(given.resource.spec, pod_template=forged)
    given = replace(given, resource=replace(given.resource, spec=spec))
    template = worker_template(given, Warm(), SETTINGS)
    job = worker_job("w", given, template, "abc", owner=STORE, settings=SETTINGS)
    assert job["spec"]["template"]["metadata"]["labels"][WORKER_LABEL] == "abc"


def test_a_workers_job_is_queued_as_its_pods_say() -> None:
    labels = {"kueue.x-k8s.io/queue-name": "tables"}
    given = table(podTemplate={"metadata": {"labels": labels}})
    template = worker_template(given, Warm(), SETTINGS)
    job = worker_job("w", given, template, "abc", owner=STORE, settings=SETTINGS)
    assert labels.items() <= job["metadata"]["labels"].items()


def test_a_driver_too_small_for_java_makes_no_worker() -> None:
    with pytest.raises(ConfigError, match=r"spec\.resources\.driver\.memory"):
        worker_template(table(resources={"driver": {"memory": "512Mi"}}), Warm(), SETTINGS)


def test_an_operation_is_handed_to_one_pod_and_goes_with_it() -> None:
    target = TableTarget("people", Location("s3://lake/t", (("ca_bundle", "/here"),)), ("id",))
    operation = Operation("people-create-1", target, CreateTable())
    given = assignment_of(operation, table(), 3, "0f12-34")
    assert given.name == "people-create-1-3-0f12"
    assert given.operation.table.location.options == (("ca_bundle", "/etc/tideline/ca/ca.crt"),)
    made = assignment_config_map(given, operation, table(), POD)
    assert made["metadata"]["labels"][ASSIGNEE_LABEL] == "0f12-34"
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Pod", "0f12-34")
    assert Assignment.parse(given.name, made["data"][ASSIGNMENT_KEY]) == given
    assert json.loads(given.content)["id"] == "people-create-1"


def test_an_operation_that_does_not_fit_says_what_to_lower() -> None:
    given = Assignment("x", "people", "x", "ingest", 1, "x" * 1_100_000)
    operation = Operation(
        "x", TableTarget("people", Location("s3://lake/t"), ("id",)), CreateTable()
    )
    with pytest.raises(ConfigError, match="maxFilesPerCommit"):
        assignment_config_map(given, operation, table(), POD)
