"""Starting and stopping Jobs on a real API server, with its real answers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tideline.ingest.location import Location
from tideline.ingest.operation.operation import CreateTable, Operation, TableTarget
from tideline_operator.api_objects import (
    CONFIG_MAPS,
    JOBS,
    ROLE_BINDINGS,
    ApiResource,
    Manifest,
)
from tideline_operator.kube import KubeApi
from tideline_operator.launch.driver_job import driver_job
from tideline_operator.launch.engine_pod import LaunchSettings
from tideline_operator.launch.job_launcher import JobLauncher, Started, StartRefused
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.testing.api_server import STRANGER, ApiServer
from tideline_operator.testing.simulated_cluster import operation_map_of
from tideline_operator.testing.table_states import resolved

pytestmark = pytest.mark.api_server

SETTINGS = LaunchSettings("localhost/tideline-engine:dev")
OPERATION = Operation(
    "people-create-0a1b2c",
    TableTarget("people", Location("s3://lake/people"), ("id",)),
    CreateTable(),
)
ROLES = ApiResource("rbac.authorization.k8s.io", "v1", "roles", "Role")
NAME = "people-create-0a1b2c-1"
HELD_IN = f"{NAME}-7d3c0c6e"


@pytest.fixture
def api(api_server: ApiServer) -> KubeApi:
    return api_server.api()


@pytest.fixture
def table(namespace: str) -> ResolvedTable:
    table = resolved()
    metadata = replace(table.resource.metadata, namespace=namespace)
    return replace(table, resource=replace(table.resource, metadata=metadata))


@pytest.fixture
def owner(namespace: str) -> Manifest:
    return {
        "apiVersion": "tideline.dev/v1alpha1",
        "kind": "LakeTable",
        "metadata": {"name": "people", "namespace": namespace, "uid": "7d3c0c6e-0000-4000-8000-0f"},
    }


def test_an_operation_becomes_a_job_and_a_config_map_that_goes_with_it(
    api: KubeApi, table: ResolvedTable, owner: Manifest, namespace: str
) -> None:
    launcher = JobLauncher(api, SETTINGS)
    assert launcher.ensure_started(OPERATION, table, 1, owner) == Started(is_new=True)
    job = api.get(JOBS, NAME, namespace)
    content = api.get(CONFIG_MAPS, HELD_IN, namespace)
    assert job is not None
    assert content is not None
    assert job["metadata"]["ownerReferences"][0]["name"] == "people"
    (holder,) = content["metadata"]["ownerReferences"]
    assert (holder["kind"], holder["uid"]) == ("Job", job["metadata"]["uid"])
    assert json.loads(content["data"]["operation.json"])["id"] == OPERATION.id
    assert content["immutable"] is True


def test_an_operation_is_started_once(api: KubeApi, table: ResolvedTable, owner: Manifest) -> None:
    launcher = JobLauncher(api, SETTINGS)
    launcher.ensure_started(OPERATION, table, 1, owner)
    assert launcher.ensure_started(OPERATION, table, 1, owner) == Started(is_new=False)
    assert launcher.ensure_started(OPERATION, table, 2, owner) == Started(is_new=True)


def test_a_laketable_made_again_shares_nothing_with_the_deleted_one(
    api: KubeApi, table: ResolvedTable, owner: Manifest, namespace: str
) -> None:
    launcher = JobLauncher(api, SETTINGS)
    launcher.ensure_started(OPERATION, table, 1, owner)
    old = api.get(JOBS, NAME, namespace)
    assert old is not None
    api.delete(JOBS, NAME, namespace)
    again = {**owner, "metadata": {**owner["metadata"], "uid": "8e4d1d7f-0000-4000-8000-0f"}}
    assert launcher.ensure_started(OPERATION, table, 1, again) == Started(is_new=True)
    new = api.get(JOBS, NAME, namespace)
    assert new is not None
    names = [operation_map_of(job) for job in (old, new)]
    contents = [api.get(CONFIG_MAPS, name, namespace) for name in names]
    owners = [
        content["metadata"]["ownerReferences"][0]["uid"]
        for content in contents
        if content is not None
    ]
    assert owners == [old["metadata"]["uid"], new["metadata"]["uid"]]


def test_what_no_pod_has_is_refused_and_not_left_out(
    api: KubeApi, table: ResolvedTable, owner: Manifest, namespace: str
) -> None:
    template = {"spec": {"nodeSelectr": {"disk": "fast"}}}
    launcher = JobLauncher(api, replace(SETTINGS, pod_template=template))
    refused = launcher.ensure_started(OPERATION, table, 1, owner)
    assert isinstance(refused, StartRefused)
    assert 'unknown field "spec.template.spec.nodeSelectr"' in refused.message
    assert api.get(JOBS, NAME, namespace) is None


def test_a_death_in_the_middle_is_repaired_by_starting_again(
    api: KubeApi, table: ResolvedTable, owner: Manifest, namespace: str
) -> None:
    job = driver_job(OPERATION, table, 1, owner=owner, settings=SETTINGS)
    api.create(JOBS, job, namespace)
    launcher = JobLauncher(api, SETTINGS)
    assert launcher.ensure_started(OPERATION, table, 1, owner) == Started(is_new=False)
    found, known = api.get(CONFIG_MAPS, HELD_IN, namespace), api.get(JOBS, NAME, namespace)
    assert found is not None
    assert known is not None
    (holder,) = found["metadata"]["ownerReferences"]
    assert (holder["kind"], holder["uid"]) == ("Job", known["metadata"]["uid"])


def test_a_job_whose_operation_cannot_be_stored_is_deleted(
    api_server: ApiServer, table: ResolvedTable, owner: Manifest, namespace: str
) -> None:
    api, allowed = api_server.api(), "rbac.authorization.k8s.io"
    verbs = ["get", "create", "delete"]
    role = {
        "apiVersion": f"{allowed}/v1",
        "kind": "Role",
        "metadata": {"name": "jobs-only"},
        "rules": [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": verbs}],
    }
    api.create(ROLES, role, namespace)
    binding = {
        "apiVersion": f"{allowed}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "jobs-only"},
        "roleRef": {"apiGroup": allowed, "kind": "Role", "name": "jobs-only"},
        "subjects": [{"kind": "User", "name": STRANGER, "apiGroup": allowed}],
    }
    api.create(ROLE_BINDINGS, binding, namespace)
    launcher = JobLauncher(api_server.api(STRANGER), SETTINGS)
    refused = launcher.ensure_started(OPERATION, table, 1, owner)
    assert isinstance(refused, StartRefused)
    assert "configmaps" in refused.message
    job = api.get(JOBS, NAME, namespace)
    assert job is None or job["metadata"].get("deletionTimestamp")


def test_what_the_api_server_refuses_is_reported_and_leaves_nothing(
    api: KubeApi, table: ResolvedTable, owner: Manifest, namespace: str
) -> None:
    template = {"spec": {"nodeSelector": {"disk": "not a label!"}}}
    spec = replace(table.resource.spec, pod_template=template)
    broken = replace(table, resource=replace(table.resource, spec=spec))
    refused = JobLauncher(api, SETTINGS).ensure_started(OPERATION, broken, 1, owner)
    assert isinstance(refused, StartRefused)
    assert "nodeSelector" in refused.message
    assert api.get(JOBS, NAME, namespace) is None
    assert api.get(CONFIG_MAPS, HELD_IN, namespace) is None


def test_an_impossible_pod_is_refused_by_its_field(
    api: KubeApi, table: ResolvedTable, owner: Manifest
) -> None:
    spec = replace(table.resource.spec, pod_template={"spec": {"containers": [{}]}})
    broken = replace(table, resource=replace(table.resource, spec=spec))
    refused = JobLauncher(api, SETTINGS).ensure_started(OPERATION, broken, 1, owner)
    assert isinstance(refused, StartRefused)
    assert "spec.podTemplate.spec.containers[0].name" in refused.message


def test_a_stopped_job_is_being_deleted_until_its_pod_is_gone(
    api: KubeApi, table: ResolvedTable, owner: Manifest, namespace: str
) -> None:
    launcher = JobLauncher(api, SETTINGS)
    launcher.ensure_started(OPERATION, table, 1, owner)
    assert launcher.stop(namespace, NAME)
    job = api.get(JOBS, NAME, namespace)
    assert job is not None
    assert job["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert not launcher.stop(namespace, "no-such-job")
