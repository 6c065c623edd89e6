"""Two tenants who share the operator and the object store, one of them hostile.

The hostile one knows the other's names, bucket and paths. Everything that it may create it points
at a spy of its own, at the other's bucket and at addresses inside the cluster.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.harness.cluster import Cluster, condition
from e2e.harness.installation import Operator, let_operator_in
from e2e.harness.lake import STORE, Lake
from e2e.harness.object_store import ClusterMinio
from e2e.harness.spy import Spy
from tideline.testing.minio_users import MinioUser, MinioUsers, Right
from tideline.testing.peer_environment import PeerEnvironment

METADATA_SERVICE, API_SERVER = "http://169.254.169.254", "https://kubernetes.default.svc"
CATALOG_SECRET = "catalog"
LOOKED_AT_S = 240.0
NO_HUDI: Mapping[str, Any] = dict.fromkeys(("type", "recordKey", "ordering", "ingest", "location"))


@dataclass
class Tenants:
    """The owner of a table, and a hostile neighbour with a bucket of its own."""

    owner: Lake
    hostile: Lake
    owner_user: MinioUser
    hostile_user: MinioUser
    spy: Spy

    def objects(self) -> dict[str, str]:
        """The owner's objects with their ETags, read with the administrator's keys."""
        client = self.owner.minio.client()
        listed = client.list_objects(self.owner.bucket, recursive=True)
        return {str(item.object_name): str(item.etag) for item in listed}

    def told(self) -> str:
        """Everything that the hostile tenant can read of what the operator wrote."""
        kinds = "laketables,lakestores,lakecatalogs,lakesources,jobs,pods,configmaps,events"
        found = self.hostile.cluster.kubectl(
            "get", kinds, "-n", self.hostile.namespace, "-o", "json"
        )
        items = json.loads(found)["items"]
        # What the tenant wrote itself names the owner's bucket.
        return json.dumps([{**item, "spec": None} for item in items if item["kind"] != "ConfigMap"])


@pytest.fixture
def tenants(
    lake: Lake, cluster: Cluster, minio: ClusterMinio, operator: Operator, hudi_rs: PeerEnvironment
) -> Iterator[Tenants]:
    del operator
    namespace = f"hostile-{secrets.token_hex(3)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": namespace, "labels": labels}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    let_operator_in(cluster, namespace)
    hostile = Lake(cluster, minio, namespace, hudi_rs)
    hostile.prepare()
    address = minio.local_endpoint.removeprefix("http://")
    users = MinioUsers(address, *minio.credentials.values())
    owner_user = users.add({lake.bucket: Right.ALL})
    hostile_user = users.add({hostile.bucket: Right.ALL})
    lake.apply_secret(owner_user.environment())
    hostile.apply_secret(hostile_user.environment())
    spy = Spy(cluster, namespace, (f"{minio.endpoint}/{lake.bucket}/", METADATA_SERVICE))
    spy.start()
    yield Tenants(lake, hostile, owner_user, hostile_user, spy)
    cluster.delete("Namespace", namespace)


def point_everything_elsewhere(tenants: Tenants) -> list[str]:
    """Stores, tables and catalogs of the hostile tenant; the names of its tables."""
    hostile, owner, spy = tenants.hostile, tenants.owner, tenants.spy
    prefix = "PYICEBERG_CATALOG__LAKE__"
    token = {f"{prefix}TOKEN": "own-token", f"{prefix}PY_IO_IMPL": "sys.exit"}
    hostile.apply_secret(token, CATALOG_SECRET)
    endpoints = {"spying": spy.endpoint, "metadata": METADATA_SERVICE, "api": API_SERVER}
    names = []
    for name, endpoint in endpoints.items():
        hostile.apply_store(name, endpoint=endpoint)
        location = f"s3://{owner.bucket}/{name}"
        apply(hostile, name, storeRef=name, location=location, ingest=None)
        names.append(name)
    places = {"same": "/people", "above": "", "below": "/people/inner", "in": "/landing/people"}
    for name, path in places.items():
        location = f"s3://{owner.bucket}{path}"
        apply(hostile, name, location=location, ingest=None, deletionPolicy="Delete")
        names.append(name)
    taking = [
        {
            "name": "landing",
            "source": {
                "format": "parquet",
                "path": f"s3://{owner.bucket}/landing/people/",
                "taken": "Remove",
            },
            "trigger": {"every": "1s"},
        }
    ]
    apply(hostile, "taking", ingest=taking)
    names.append("taking")
    catalog = {
        "type": "rest",
        "name": "lake",
        "table": "a.b",
        "credentials": {"secretName": CATALOG_SECRET},
    }
    for name, uri in (("catalog", spy.endpoint), ("catalog-api", API_SERVER)):
        apply(hostile, name, **NO_HUDI, format="Iceberg", catalog={**catalog, "uri": uri})
        names.append(name)
    return names


def apply(lake: Lake, name: str, **changes: Any) -> None:
    """A table whose fields that are None are left out."""
    table = lake.table(name, **changes)
    spec = {key: item for key, item in table["spec"].items() if item is not None}
    lake.cluster.apply({**table, "spec": spec})


def wait_until_refused(lake: Lake, name: str) -> None:
    """Until the operator has looked at a table and says what is wrong."""

    def is_refused() -> bool:
        table = lake.get(name)
        ready, ingesting = (condition(table, kind) for kind in ("Ready", "Ingesting"))
        is_blocked = ready.get("status") == "False" and ready["reason"] != "NoTable"
        return is_blocked or ingesting.get("reason") == "StorageUnavailable"

    lake.cluster.wait_until(is_refused, f"{name} is refused", timeout_s=LOOKED_AT_S)


def restarts(cluster: Cluster) -> list[tuple[str, int]]:
    """How often each container of the operator was started again."""
    (pod,) = Operator(cluster).pods()
    return sorted(
        (container_status["name"], container_status["restartCount"])
        for container_status in pod["status"]["containerStatuses"]
    )


def test_a_hostile_tenant_reaches_nothing_of_its_neighbours(tenants: Tenants) -> None:
    owner, hostile = tenants.owner, tenants.hostile
    owner.land("people", "first", [{"id": 1, "ts": 1}])
    owner.apply_table("people")
    owner.wait_for_ids("people", [1])
    before = tenants.objects()
    restarts_before = restarts(owner.cluster)

    names = point_everything_elsewhere(tenants)
    for name in names:
        wait_until_refused(hostile, name)
    for name in ("same", "above", "below"):
        hostile.cluster.delete("LakeTable", name, hostile.namespace)

    # The neighbour works on meanwhile, on the same operator.
    owner.land("people", "second", [{"id": 2, "ts": 1}])
    owner.wait_for_ids("people", [1, 2])
    after = tenants.objects()
    assert {path: after.get(path) for path in before if "/.hoodie/" not in path} == {
        path: tag for path, tag in before.items() if "/.hoodie/" not in path
    }
    strange = [path for path in after if hostile.namespace in path or "/inner/" in path]
    assert strange == []

    heard, told = tenants.spy.heard(), tenants.told()
    # The spy hears what was meant for it: the tenant's own keys and token.
    assert tenants.hostile_user.access_key in heard
    assert "own-token" in heard
    secret_texts = (
        tenants.owner_user.secret_key,
        tenants.owner_user.access_key,
        *owner.minio.credentials.values(),
    )
    for text in secret_texts:
        assert text not in heard
        assert text not in told
    # The operator's own token is one for the API server: three parts, the first of them this.
    assert "eyJhbGciOi" not in heard
    assert tenants.hostile_user.secret_key not in told
    assert "own-token" not in told
    for word in (owner.namespace + "/", f"{owner.namespace}.", "LakeTable " + owner.namespace):
        assert word not in told.replace(f"s3://{owner.bucket}/", "")
    ready = condition(owner.get("people"), "Ready")
    assert ready["status"] == "True", ready
    assert restarts(owner.cluster) == restarts_before


def test_a_squatter_keeps_no_table_of_another_tenant_away(tenants: Tenants) -> None:
    owner, hostile = tenants.owner, tenants.hostile
    apply(hostile, "squatter", location=f"s3://{owner.bucket}/people", ingest=None)
    wait_until_refused(hostile, "squatter")
    owner.land("people", "first", [{"id": 1, "ts": 1}])
    owner.apply_table("people")
    owner.wait_for_ids("people", [1])
    message = condition(hostile.get("squatter"), "Ready")["message"]
    assert "access denied" in message
    assert owner.get("people")["spec"]["storeRef"] == STORE
