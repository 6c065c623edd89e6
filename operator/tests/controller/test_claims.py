"""Whose a place in a bucket is: the tenant's whom the store lets write there, and no squatter's.

Two namespaces with users of their own in one real MinIO, one controller for both.
"""

from __future__ import annotations

import io
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tideline.testing.minio_server import MinioServer
from tideline.testing.minio_users import MinioUser, MinioUsers, Right
from tideline_operator.api_objects import LAKE_STORES, LAKE_TABLES, Manifest
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.api_server_fixtures import make_namespace
from tideline_operator.testing.simulated_cluster import CarryingOut
from tideline_operator.testing.tenant import Tenant

pytestmark = [pytest.mark.api_server, pytest.mark.minio]


@dataclass
class Two:
    """An owner of a bucket, and a stranger with a bucket of its own."""

    owner: Tenant
    stranger: Tenant
    users: MinioUsers
    strangers_user: MinioUser
    server: MinioServer
    bucket: str
    strangers_bucket: str

    def start(self) -> None:
        self.owner.start(namespaces=(self.owner.namespace, self.stranger.namespace))

    def restart(self) -> None:
        self.owner.stop()
        self.start()

    def grant(self, right: Right | None) -> None:
        """The stranger's rights in the owner's bucket."""
        rights = {self.strangers_bucket: Right.ALL}
        self.users.grant(
            self.strangers_user, rights if right is None else {**rights, self.bucket: right}
        )

    def assert_silent(self, reader: Tenant, name: str, of: Tenant, *paths: str) -> None:
        """No message to the reader is about the other."""
        for word in (of.namespace, *paths):
            assert word not in reader.told(name)


@pytest.fixture
def two(
    api_server: ApiServer,
    minio_server: MinioServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Two]:
    for name in ("LOOK_AGAIN_FIRST_S", "LOOK_AGAIN_LAST_S"):
        monkeypatch.setattr(f"tideline_operator.controller.next_look.{name}", 1.0)
    monkeypatch.setattr("tideline_operator.controller.claims.CHECK_SOON_S", 0.5)
    users = MinioUsers(minio_server.address, minio_server.access_key, minio_server.secret_key)
    tenants, buckets = [], []
    for role in ("owner", "stranger"):
        namespace = f"{role}-{secrets.token_hex(4)}"
        make_namespace(api_server.api(), namespace)
        buckets.append(minio_server.create_bucket())
        user = users.add({buckets[-1]: Right.ALL})
        tenants.append(
            Tenant(api_server, namespace, tmp_path, user.environment(), minio_server.endpoint)
        )
    owner, stranger = tenants
    found = Two(owner, stranger, users, user, minio_server, *buckets)
    yield found
    owner.stop()


def reason(tenant: Tenant, name: str) -> str:
    return str(tenant.condition("Ready", name).get("reason", ""))


@pytest.mark.parametrize("right", [None, Right.READ])
@pytest.mark.parametrize("squatted", ["", "/people", "/people/inner"])
def test_who_may_not_write_there_keeps_nobody_away(
    two: Two, right: Right | None, squatted: str
) -> None:
    two.grant(right)
    two.stranger.declare_at("squatter", f"s3://{two.bucket}{squatted}")
    two.start()
    two.stranger.until(
        lambda: two.stranger.condition("Ready", "squatter"), "the squatter was looked at"
    )
    two.owner.declare_at("people", f"s3://{two.bucket}/people")
    with CarryingOut(two.owner.cluster):
        two.owner.until_ready()
    two.assert_silent(two.owner, "people", two.stranger, "squatter")
    assert two.owner.status()["claims"][0]["address"].endswith(f"|s3://{two.bucket}/people")
    assert "claims" not in two.stranger.status("squatter")


def test_a_tenant_without_rights_learns_nothing_about_the_tables_of_others(two: Two) -> None:
    two.owner.declare_at("people", f"s3://{two.bucket}/people")
    two.start()
    with CarryingOut(two.owner.cluster):
        two.owner.until_ready()
    places = {"same": "/people", "above": "", "below": "/people/inner", "free": "/free"}
    said = set()
    for name, place in places.items():
        two.stranger.declare_at(name, f"s3://{two.bucket}{place}")
        two.stranger.until(partial(reason, two.stranger, name), "it was looked at")
        assert "access denied" in two.stranger.told(name)
        two.assert_silent(two.stranger, name, two.owner)
        said.add(reason(two.stranger, name))
    # Whether there is a table or not: the answer is the same.
    assert said == {"StorageUnavailable"}


def test_who_may_read_there_hears_that_it_is_taken_and_not_by_whom(two: Two) -> None:
    two.grant(Right.READ)
    two.owner.declare_at("people", f"s3://{two.bucket}/deep/people")
    two.start()
    with CarryingOut(two.owner.cluster):
        two.owner.until_ready()
    two.stranger.declare_at("above", f"s3://{two.bucket}/deep")
    two.stranger.until(lambda: reason(two.stranger, "above") == "LocationTaken", "it is taken")
    two.stranger.until_event("LocationTaken", "above")
    assert "another namespace's LakeTable" in two.stranger.told("above")
    two.assert_silent(two.stranger, "above", two.owner, "deep/people")
    assert two.stranger.cluster.all_jobs() == []


def test_of_two_who_may_write_the_first_keeps_the_place_over_restarts(two: Two) -> None:
    two.grant(Right.ALL)
    two.stranger.declare_at("first", f"s3://{two.bucket}/people")
    two.start()
    with CarryingOut(two.stranger.cluster):
        two.stranger.until_ready("first")
    two.owner.declare_at("second", f"s3://{two.bucket}/people/inner")
    two.owner.until(lambda: reason(two.owner, "second") == "LocationTaken", "it is taken")
    for _ in range(3):
        two.restart()
        two.owner.until(lambda: two.owner.turns() >= 2, "both were looked at")
        assert reason(two.owner, "second") == "LocationTaken"
        assert "claims" not in two.owner.status("second")
        assert reason(two.stranger, "first") == "Current"
    assert two.owner.cluster.all_jobs() == []


def test_a_place_is_free_once_the_credentials_of_its_table_are_revoked(two: Two) -> None:
    two.grant(Right.ALL)
    two.stranger.declare_at("first", f"s3://{two.bucket}/people/inner")
    two.start()
    with CarryingOut(two.stranger.cluster):
        two.stranger.until_ready("first")
    two.owner.declare_at("people", f"s3://{two.bucket}/people")
    two.owner.until(lambda: reason(two.owner, "people") == "LocationTaken", "it is taken")
    two.grant(None)
    two.stranger.change("first", {"spec": {"fenced": True}})
    two.stranger.until(lambda: "claims" not in two.stranger.status("first"), "the claim is gone")
    # What the former tenant left there is found by the owner's own credentials.
    two.owner.until(lambda: "Hudi table" in two.owner.told("people"), "the place is looked at")
    two.assert_silent(two.owner, "people", two.stranger)
    client = two.server.client()
    for found in list(client.list_objects(two.bucket, recursive=True)):
        client.remove_object(two.bucket, str(found.object_name))
    with CarryingOut(two.owner.cluster):
        two.owner.until_ready()


def test_a_store_that_is_moved_to_another_server_begins_anew(two: Two) -> None:
    two.stranger.declare_at("moved", f"s3://{two.strangers_bucket}/people")
    two.start()
    with CarryingOut(two.stranger.cluster):
        two.stranger.until_ready("moved")
    (claim,) = two.stranger.status("moved")["claims"]
    port = two.server.address.rpartition(":")[2]
    store: Manifest = {"spec": {"endpoint": f"http://localhost:{port}"}}
    two.stranger.api.patch(LAKE_STORES, "store", store, two.stranger.namespace)
    two.stranger.until(
        lambda: two.stranger.status("moved")["claims"][0]["address"] != claim["address"],
        "the new address is asked about",
    )
    assert two.stranger.status("moved")["claims"][0]["acceptedAt"] > claim["acceptedAt"]


def test_files_of_a_table_that_is_deleted_are_not_kept_for_a_squatter(two: Two) -> None:
    two.stranger.declare_at("squatter", f"s3://{two.bucket}/people/month=1")
    two.owner.declare_at("people", f"s3://{two.bucket}/people", deletionPolicy="Delete")
    two.start()
    with CarryingOut(two.owner.cluster):
        two.owner.until_ready()
    client, body = two.server.client(), b"commitTime=1\npartitionDepth=1\n"
    partition = "people/month=1/.hoodie_partition_metadata"
    client.put_object(two.bucket, partition, io.BytesIO(body), len(body))
    two.owner.api.delete(LAKE_TABLES, "people", two.owner.namespace)
    two.owner.until_event("DataDeleted")
    left = {str(item.object_name) for item in client.list_objects(two.bucket, recursive=True)}
    assert {path for path in left if "/.tideline-check-store/" not in path} == set()
